"""Which nsys and importer are found, and that no tool outlives us. Every tool here is a script."""

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cudabench.profiling import tools
from cudabench.profiling.tools import Nsys, NsysNotFoundError, find_importers, find_nsys, run_tool
from tests.conftest import child_environment

SLEEP = shutil.which("sleep")
IMPORTER = "QdstrmImporter"


@pytest.fixture(autouse=True)
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH; no variable names an nsys."""
    folder = tmp_path / "on-path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("NSYS", raising=False)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the usual folders lie."""
    return tmp_path / "root"


def family(folder: Path) -> list[psutil.Process]:
    """Return the living processes that have inherited this folder in the variable FAMILY."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            inherited = process.environ().get("FAMILY") == str(folder)
            if inherited and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


class Waiting:
    """A Python that waits for a tool, whose processes write their numbers to $TOLD."""

    CODE = """if True:
        import signal, subprocess, sys
        from cudabench.profiling import tools
        class Popen(subprocess.Popen):
            def wait(self, *limit):
                print("waiting", flush=True)
                return super().wait(*limit)
        subprocess.Popen = Popen
        tools._GRACE = float(sys.argv[1])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            tools.run_tool(sys.argv[2:])
        except KeyboardInterrupt:
            print("interrupted")
    """

    def __init__(self, folder: Path, text: str, grace: float) -> None:
        self.seen: list[psutil.Process] = []
        fifo = folder / "told"
        os.mkfifo(fifo)
        self._told = os.fdopen(os.open(fifo, os.O_RDWR), "rb", buffering=0)
        tool = script(folder / "tool", text)
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, str(grace), str(tool)],
            env=child_environment(TOLD=str(fifo), FAMILY=str(folder), PATH=os.defpath),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.until_it_waits()

    def until_it_waits(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == "waiting\n"

    def told(self) -> psutil.Process:
        """Return the next process of the tool's that has written its number."""
        while not select.select([self._told], [], [], 1)[0]:
            assert self.process.poll() is None, self.process.communicate()
        self.seen.append(psutil.Process(int(self._told.readline())))
        return self.seen[-1]

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def output(self) -> str:
        return self.process.communicate(timeout=60)[0]

    def close(self) -> None:
        self.process.kill()
        for process in filter(is_alive, self.seen):
            process.kill()
        with self.process, self._told:
            pass


Wait = Callable[[str, float], Waiting]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Wait]:
    """Start a Waiting for a tool with a grace in seconds; end what it leaves."""
    with ExitStack() as stack:

        def start(text: str, grace: float) -> Waiting:
            started = Waiting(tmp_path, text, grace)
            stack.callback(started.close)
            return started

        yield start
        for process in family(tmp_path):
            process.kill()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def nsys_at(path: Path, version: str = "2022.4.2.1") -> Path:
    return script(path, f"echo 'NVIDIA Nsight Systems version {version}-df9881f'")


def importer_at(folder: Path) -> Path:
    return script(folder / IMPORTER, "exit 0")


def link(path: Path, to: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)
    return path


def debian(root: Path) -> Path:
    """Lay the files out as Debian's packages do; return the nsys that is on the PATH."""
    usr = root / "usr"
    nsys_at(usr / "lib/x86_64-linux-gnu/nsight-systems/target-linux-x64/nsys")
    importer_at(usr / "lib/nsight-systems/host-linux-x64")
    target = "../x86_64-linux-gnu/nsight-systems/target-linux-x64"
    link(usr / "lib/nsight-systems/target-linux-x64", target)
    link(usr / "lib/nsight-systems/bin/nsys", "../target-linux-x64/nsys")
    return link(usr / "bin/nsys", "../lib/nsight-systems/bin/nsys")


def test_the_nsys_given_stands_before_the_variables_and_that_before_the_newest(
    on_path: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = nsys_at(on_path / "nsys", "2025.3.1")
    variables = nsys_at(tmp_path / "variables", "2024.1.1")
    given = nsys_at(tmp_path / "given", "2023.1.1")
    assert find_nsys(root=root) == Nsys(newest, (2025, 3, 1))
    monkeypatch.setenv("NSYS", str(variables))
    assert find_nsys(root=root) == Nsys(variables, (2024, 1, 1))
    assert find_nsys(str(given), root) == Nsys(given, (2023, 1, 1))


def test_an_empty_variable_names_none(
    on_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS", "")
    there = nsys_at(on_path / "nsys")
    assert find_nsys(root=root).path == there


def test_a_name_without_a_folder_is_looked_for_on_the_path(on_path: Path, root: Path) -> None:
    nsys_at(on_path / "nsys", "2025.3.1")
    older = nsys_at(on_path / "nsys-2022")
    assert find_nsys("nsys-2022", root).path == older


def test_a_name_may_be_relative_or_begin_at_home(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = nsys_at(tmp_path / "own" / "nsys")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_nsys("own/nsys", root).path == there
    assert find_nsys("~/own/nsys", root).path == there


@pytest.mark.parametrize(
    "folder",
    [
        "opt/nvidia/nsight-systems/2025.3.1/bin",
        "opt/nvidia/nsight-systems-cli/2025.3.1/bin",
        "opt/nvidia/nsight-systems/2025.3.1/target-linux-x64",
        "opt/nvidia/nsight-systems/2025.3.1/target-linux-sbsa-armv8",
        "opt/nvidia/nsight-compute/2025.2.0/host/target-linux-x64",
        "usr/local/cuda/bin",
        "usr/local/cuda-13.0/bin",
        "usr/lib/nsight-systems/bin",
        "usr/lib/nsight-systems/target-linux-x64",
        "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64",
    ],
)
def test_each_usual_folder_is_searched(root: Path, folder: str) -> None:
    there = nsys_at(root / folder / "nsys")
    assert find_nsys(root=root).path == there


@pytest.mark.parametrize(
    ("on_the_path", "in_a_folder"),
    [("2025.9.1", "2025.10.1"), ("2023.4.4", "2024.1.1"), ("2022.4.2", "2022.4.2.1")],
)
def test_the_newest_is_told_by_number_wherever_it_lies(
    on_path: Path, root: Path, on_the_path: str, in_a_folder: str
) -> None:
    here, there = on_path / "nsys", root / "usr/local/cuda/bin/nsys"
    nsys_at(here, on_the_path)
    nsys_at(there, in_a_folder)
    assert find_nsys(root=root).path == there
    nsys_at(here, in_a_folder)
    nsys_at(there, on_the_path)
    assert find_nsys(root=root).path == here


def test_of_equals_the_one_that_a_shell_would_run_is_used(
    on_path: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = nsys_at(on_path / "nsys")
    nsys_at(tmp_path / "later" / "nsys")
    nsys_at(root / "usr/local/cuda/bin/nsys")
    monkeypatch.setenv("PATH", f"{on_path}{os.pathsep}{tmp_path / 'later'}")
    assert find_nsys(root=root).path == first


def test_every_program_on_the_path_is_asked(
    on_path: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys_at(on_path / "nsys")
    newer = nsys_at(tmp_path / "later" / "nsys", "2025.3.1")
    folders = (tmp_path / "absent", on_path, tmp_path / "later")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    assert find_nsys(root=root).path == newer


def test_debians_is_one_nsys_under_its_first_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys = debian(root)
    (root / "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64/nsys").write_text(
        f"#!/bin/sh\necho >>{tmp_path}/asked\necho 2022.4.2.1\n"
    )
    monkeypatch.setenv("PATH", str(nsys.parent))
    assert find_nsys(root=root).path == nsys
    assert (tmp_path / "asked").read_text() == "\n"


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("echo NVIDIA Nsight Systems version 2022.4.2.1-df9881f", (2022, 4, 2, 1)),
        ("echo NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0", (2025, 3, 1, 90)),
        ("echo Linux 6.12.3 is new >&2; echo version 2021.3", (2021, 3)),
    ],
)
def test_the_version_is_read_out_of_what_it_says(
    on_path: Path, root: Path, says: str, version: tuple[int, ...]
) -> None:
    script(on_path / "nsys", says)
    assert find_nsys(root=root).version == version


def test_the_label_is_the_product_and_three_numbers(tmp_path: Path) -> None:
    assert Nsys(tmp_path, (2022, 4, 2, 1)).label == "Nsight Systems 2022.4.2"


BROKEN = {
    "fails": ("echo no license today >&2; exit 3", r"exits with 3 and says 'no license today'"),
    "says no version": ("echo hello", r"exits with 0 and says 'hello'"),
    "says nothing": ("exit 0", r"exits with 0 and says 'nothing'"),
    "is killed": ("kill -KILL $$", r"exits with -9 and says 'nothing'"),
    "fails with a version": ("echo 2025.3.1; exit 1", r"exits with 1 and says '2025\.3\.1'"),
}
broken = pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)


@broken
def test_a_broken_one_among_good_ones_is_passed_over(
    on_path: Path, root: Path, text: str, said: str
) -> None:
    script(on_path / "nsys", text)
    good = nsys_at(root / "usr/local/cuda/bin/nsys")
    assert find_nsys(root=root).path == good


@broken
def test_where_none_runs_each_broken_one_is_named(
    on_path: Path, root: Path, text: str, said: str
) -> None:
    first = script(on_path / "nsys", text)
    second = script(root / "usr/local/cuda/bin/nsys", "echo another >&2; exit 7")
    with pytest.raises(NsysNotFoundError, match=f"{first} {said}") as raised:
        find_nsys(root=root)
    assert f"{second} exits with 7 and says 'another'" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_where_there_is_none_the_places_and_the_remedies_are_named(root: Path) -> None:
    with pytest.raises(NsysNotFoundError, match="no nsys that runs on the PATH, in /opt") as raised:
        find_nsys(root=root)
    assert "--nsys" in raised.value.remedy
    assert "--engine torch" in raised.value.remedy


@broken
@pytest.mark.parametrize("where", ["--nsys", "NSYS"])
def test_a_broken_one_that_is_named_is_not_replaced(
    on_path: Path,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    text: str,
    said: str,
) -> None:
    nsys_at(on_path / "nsys")
    named = script(tmp_path / "named", text)
    if where == "NSYS":
        monkeypatch.setenv("NSYS", str(named))
    with pytest.raises(NsysNotFoundError, match=f"{where} names an nsys .*: {named} {said}"):
        find_nsys(str(named) if where == "--nsys" else None, root)


def test_a_name_that_leads_nowhere_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(NsysNotFoundError, match="absent does not run: No such file"):
        find_nsys(str(tmp_path / "absent"), root)
    with pytest.raises(NsysNotFoundError, match="does not run: Permission denied"):
        find_nsys(str(tmp_path), root)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"#!/bin/sh\necho 2025.3.1\n", 0o644, "Permission denied"),
        (b"\x7fELF, but for another machine", 0o755, "Exec format error"),
        (b"#!/no/such/interpreter\n", 0o755, "No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_started_is_refused(
    root: Path, tmp_path: Path, content: bytes, mode: int, why: str
) -> None:
    nsys = tmp_path / "nsys"
    nsys.write_bytes(content)
    nsys.chmod(mode)
    with pytest.raises(NsysNotFoundError, match=f"{nsys} does not run: {why}"):
        find_nsys(str(nsys), root)


def test_one_that_hangs_is_ended_and_named(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_VERSION_LIMIT", 0.3)
    monkeypatch.setenv("FAMILY", str(tmp_path))
    hangs = script(tmp_path / "nsys", f"echo 2025.3.1; exec {SLEEP} 1000")
    with pytest.raises(NsysNotFoundError, match=f"{hangs} said no version in"):
        find_nsys(str(hangs), root)
    assert not family(tmp_path)


def test_the_importer_given_is_the_only_one(on_path: Path, tmp_path: Path) -> None:
    usual = importer_at(on_path)
    given = importer_at(tmp_path / "given")
    assert find_importers(str(given), root=tmp_path) == [given]
    assert find_importers(IMPORTER, root=tmp_path) == [usual]
    assert find_importers("absent", root=tmp_path) == [Path("absent").absolute()]


def test_the_paths_importer_comes_first_then_nsyss_own_then_the_usual(
    on_path: Path, root: Path
) -> None:
    version = root / "opt/nvidia/nsight-systems/2024.1.1"
    nsys = Nsys(nsys_at(version / "target-linux-x64/nsys"), (2024, 1, 1))
    debians = importer_at(root / "usr/lib/nsight-systems/host-linux-x64")
    newer = importer_at(version.with_name("2025.3.1") / "host-linux-x64")
    own = importer_at(version / "host-linux-x64")
    first = importer_at(on_path)
    assert find_importers(None, nsys, root) == [first, own, newer, debians]
    assert find_importers(None, None, root) == [first, newer, own, debians]


@pytest.mark.parametrize(
    ("nsys", "host"),
    [
        ("2025.3.1/target-linux-x64", "2025.3.1/host-linux-x64"),
        ("2025.3.1/bin", "2025.3.1/host-linux-x64"),
        ("2025.3.1/target-linux-sbsa-armv8", "2025.3.1/host-linux-armv8"),
        ("host/target-linux-x64", "host/linux-desktop-glibc_2_11_3-x64"),
        ("bin", "bin"),
    ],
)
def test_an_importer_beside_nsys_is_found_wherever_both_lie(
    root: Path, tmp_path: Path, nsys: str, host: str
) -> None:
    own = importer_at(tmp_path / "anywhere" / host)
    path = nsys_at(tmp_path / "anywhere" / nsys / "nsys")
    assert find_importers(None, Nsys(path, (2025, 3, 1)), root) == [own]


@pytest.mark.parametrize(
    "folder",
    [
        "opt/nvidia/nsight-systems/2025.3.1/host-linux-x64",
        "opt/nvidia/nsight-systems-cli/2025.3.1/host-linux-armv8",
        "opt/nvidia/nsight-compute/2025.2.0/host/linux-desktop-glibc_2_11_3-x64",
        "usr/lib/nsight-systems/host-linux-x64",
    ],
)
def test_each_usual_host_folder_is_searched(root: Path, folder: str) -> None:
    there = importer_at(root / folder)
    assert find_importers(None, root=root) == [there]


@pytest.mark.parametrize(
    "nsys", ["usr/bin/nsys", "usr/lib/nsight-systems/bin/nsys", "bin/nsys", "own/deep/down/nsys"]
)
def test_links_are_followed_one_by_one_to_debians_importer(
    root: Path, tmp_path: Path, nsys: str
) -> None:
    debian(root)
    link(root / "bin", "usr/bin")
    link(root / "own/deep/down", str(root / "usr/bin"))
    found = find_importers(None, Nsys(root / nsys, (2022, 4, 2)), tmp_path / "nothing")
    assert [path.resolve() for path in found] == [
        root / "usr/lib/nsight-systems/host-linux-x64" / IMPORTER
    ]


def test_without_any_importer_there_is_nothing_to_try(root: Path) -> None:
    nsys = Nsys(nsys_at(root / "usr/local/cuda/bin/nsys"), (2025, 3, 1))
    assert find_importers(None, nsys, root) == []


@pytest.mark.parametrize(
    ("text", "code", "output"),
    [
        ("echo out; echo err >&2; echo out", 0, "out\nerr\nout\n"),
        ("printf 'd\\351j\\340 \\303\\251'; exit 9", 9, "d\ufffdj\ufffd é"),
        ("printf '1%%\\r2%%\\r\\n'; kill -TERM $$", -signal.SIGTERM, "1%\n2%\n"),
        ("read line || echo nothing to read", 0, "nothing to read\n"),
        ("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done", 0, None),
    ],
    ids=["both streams", "not UTF-8", "killed", "no input", "more than a pipe holds"],
)
def test_a_tool_is_run_to_its_end(tmp_path: Path, text: str, code: int, output: str | None) -> None:
    command = [str(script(tmp_path / "tool", text)), "an argument"]
    ran = run_tool(command)
    expected = "".join(f"{i}\n" for i in range(20000)) if output is None else output
    assert (ran.args, ran.returncode, ran.stdout) == (command, code, expected)


def test_a_tool_has_the_environment_given_or_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "ours")
    tool = str(script(tmp_path / "tool", 'echo "$OURS,$GIVEN"'))
    assert run_tool([tool]).stdout == "ours,\n"
    assert run_tool([tool], {"GIVEN": "given"}).stdout == ",given\n"


def test_an_interrupt_of_the_terminal_reaches_us_alone() -> None:
    code = "import os; print(os.getsid(0) == os.getpid())"
    assert run_tool([sys.executable, "-c", code]).stdout == "True\n"


def test_a_tool_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_tool([str(tmp_path / "absent")])


def test_what_a_tool_leaves_running_is_neither_waited_for_nor_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAMILY", str(tmp_path))
    ran = run_tool([str(script(tmp_path / "tool", f"{SLEEP} 1000 & echo done"))])
    (left,) = family(tmp_path)
    left.kill()
    assert ran.stdout == "done\n"


@pytest.mark.parametrize(
    "text",
    [
        "echo $$ >$TOLD; exec sleep 1000",
        "sleep 1000 & echo $! >$TOLD; wait",
        "sh -c 'sleep 1000 & echo $! >$TOLD; wait' & wait",
        "(setsid sleep 1000 & echo $! >$TOLD); sleep 1000",
        "(setsid sh -c 'trap \"\" INT TERM HUP; echo $$ >$TOLD; sleep 1000' &); sleep 1000",
        "trap '' INT; echo $$ >$TOLD; sleep 1000",
        "env -i sh -c 'trap \"\" INT; echo $$ >'$TOLD'; sleep 1000' & wait",
        "exec env -i sh -c 'trap \"\" INT; echo $$ >'$TOLD'; exec sleep 1000'",
    ],
    ids=[
        "the tool",
        "its child",
        "its grandchild",
        "in a session of its own, without a parent",
        "and ignoring signals",
        "the tool, ignoring the interrupt",
        "its child, without our variables",
        "the tool, without our variables",
    ],
)
def test_interrupted_it_ends_the_tool_and_all_that_it_started(
    tmp_path: Path, waiting: Wait, text: str
) -> None:
    started = waiting(text, 0.5)
    process = started.told()
    assert is_alive(process)
    started.interrupt()
    assert started.output().endswith("interrupted\n")
    assert not is_alive(process)
    assert not family(tmp_path)


def test_interrupted_the_tool_is_asked_first_and_may_finish(tmp_path: Path, waiting: Wait) -> None:
    started = waiting(
        f"sleep 1000 & program=$!\n"
        f"trap 'kill -0 $program && echo and its program lives >{tmp_path}/saved; exit' INT\n"
        "echo $$ >$TOLD; wait",
        60,
    )
    started.told()
    started.interrupt()
    assert started.output().endswith("interrupted\n")
    assert (tmp_path / "saved").read_text() == "and its program lives\n"
    assert not family(tmp_path)


def test_a_second_interrupt_cuts_the_grace_short(tmp_path: Path, waiting: Wait) -> None:
    started = waiting("trap '' INT; echo $$ >$TOLD; exec sleep 1000", 1e6)
    started.told()
    started.interrupt()
    started.until_it_waits()
    started.interrupt()
    assert started.output().endswith("interrupted\n")
    assert not family(tmp_path)


def test_interrupted_while_it_starts_a_tool_it_ends_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tool([str(script(tmp_path / "tool", f"exec {SLEEP} 1000"))])
    started[0].terminate()
    assert started[0].wait() == -signal.SIGKILL


def test_a_tool_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_GRACE", 0.1)
    monkeypatch.setenv("FAMILY", str(tmp_path))
    text = f"{SLEEP} 1000 & trap '' INT; {SLEEP} 1000"
    with pytest.raises(subprocess.TimeoutExpired):
        run_tool([str(script(tmp_path / "tool", text))], limit=0.5)
    assert not family(tmp_path)
