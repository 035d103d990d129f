"""`cudabench profile` and `cudabench timeline` as a person starts them, with the real nsys."""

import csv
import getpass
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import torch

from tests.conftest import Cli, child_environment

NSYS = shutil.which("nsys")
needs_nsys = pytest.mark.skipif(not NSYS, reason="needs nsys")
QUICK = ("--n", "2^18", "--max-time", "0.05", "--iters", "4")
# No environment of a run holds it but the one where a test puts it.
SECRET = "planted-5d1c0a7e-token"
ENGINES = [pytest.param("nsys", marks=needs_nsys), "torch"]
DEVICES = ["host", pytest.param("cuda", marks=pytest.mark.gpu)]
MODES = ("both synchronizes", "first synchronize only", "second synchronize only", "neither")
FILES = [
    *("-calls.csv", "-estimates.csv", "-iterations.csv", "-kernels.csv", "-samples.csv"),
    *("-summary.csv", ".html", ".json", ".svg", ".trace.json"),
]
# What profilers write, the first of which the others are made of.
RAW = (".qdstrm", ".nsys-rep", ".trace", ".sqlite")


@dataclass(frozen=True)
class Ran:
    """A profiled run, and what it left."""

    folder: Path
    out: str
    err: str

    def files(self) -> dict[str, Path]:
        """Each file by the end of its name."""
        return by_suffix(self.folder)

    def rows(self, suffix: str) -> list[dict[str, str]]:
        with self.files()[suffix].open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def kept(self) -> Path:
        """What the profiler itself wrote, where it was kept."""
        return next(self.files()[suffix] for suffix in RAW if suffix in self.files())


def by_suffix(folder: Path) -> dict[str, Path]:
    return {path.name.rsplit("Z", 1)[1]: path for path in folder.iterdir()}


def started(*arguments: str, folder: Path, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "cudabench", *arguments],
        cwd=folder,
        env=child_environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


Profiled = Callable[[str, str], Ran]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory, build_cache: Path) -> Profiled:
    """Profile sync-modes once for each engine and device, in a folder with a difficult name."""
    runs: dict[tuple[str, str], Ran] = {}

    def run(engine: str, device: str = "host") -> Ran:
        if (engine, device) not in runs:
            folder = tmp_path_factory.mktemp("profiles") / "Größe 'n' & 時間"
            scrub = ("--scrub",) if engine == "nsys" else ()
            options = ("--engine", engine, "--output", str(folder), "--keep", *scrub)
            command = ("sync-modes", "--device", device, *QUICK)
            process = started(
                "profile", *options, *command, folder=folder.parent, CUDABENCH_SECRET=SECRET
            )
            out, err = process.communicate()
            assert process.returncode == 0, err
            runs[engine, device] = Ran(folder, out, err)
        return runs[engine, device]

    return run


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_profile_shows_each_mode_idle_and_behind_a_backlog(
    profiled: Profiled, engine: str, device: str
) -> None:
    ran = profiled(engine, device)
    for mode in MODES:
        for behind in ("idle", "behind a backlog"):
            titles = re.findall(rf"^add2, {mode}.*, {behind}$", ran.out, re.MULTILINE)
            assert len(titles) == 1
    assert len(re.findall(r"^device +\S", ran.out, re.MULTILINE)) == 8
    assert "The clock stopped before the kernel had started" in ran.out
    assert "What the medians are made of" in ran.out  # the command's own table
    assert sorted(set(ran.files()) - {*RAW, "-scrubbed.sqlite"}) == FILES


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_parts_of_an_iteration_agree_with_what_its_clock_read(
    profiled: Profiled, engine: str, device: str
) -> None:
    rows = profiled(engine, device).rows("-iterations.csv")
    assert len(rows) == 16 * 4
    for row in rows:
        launch, kernel = float(row["launch_seconds"]), float(row["kernel_seconds"])
        reads = float(row["seconds"])
        assert launch > 0
        assert kernel > 0
        both = row["first_sync"] == row["second_sync"] == "True"
        if row["clock"] == "event":
            continue
        if row["second_sync"] == "True":
            assert reads > kernel
        if both:
            parts = (float(row[f"{part}_seconds"]) for part in ("launch_to_start", "end_to_return"))
            # The clock is read outside of all of them, and a profiler takes its time in between.
            assert launch + kernel + sum(parts) < reads * 1.001 + 5e-6


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_timed_is_what_the_session_holds(profiled: Profiled, engine: str) -> None:
    ran = profiled(engine, "host")
    samples = [float(row["seconds"]) for row in ran.rows("-samples.csv")]
    reads = [float(row["seconds"]) for row in ran.rows("-iterations.csv")]
    assert reads == pytest.approx(samples, abs=1e-9)


@needs_nsys
def test_nsys_and_its_importer_are_named(profiled: Profiled) -> None:
    err = profiled("nsys", "host").err
    assert re.search(r"using Nsight Systems \d{4}\.\d+\S*: /", err)
    assert "running: cudabench sync-modes" in err


@needs_nsys
@pytest.mark.parametrize("device", DEVICES)
def test_nothing_private_is_in_what_we_write(profiled: Profiled, device: str) -> None:
    ran = profiled("nsys", device)
    private = [SECRET, os.environ["PATH"]]
    for text in (getpass.getuser(), socket.gethostname()):
        private += [text] * (len(text) > 4)  # "root" stands in other words
    assert SECRET.encode() in ran.kept().read_bytes()
    for path in ran.folder.iterdir():
        if not path.name.endswith(tuple(f"Z{suffix}" for suffix in RAW)):
            held = path.read_bytes()
            for text in private:
                assert text.encode() not in held, path


@needs_nsys
def test_keeping_the_raw_report_is_said_to_be_private(profiled: Profiled) -> None:
    ran = profiled("nsys", "host")
    assert re.search(rf"kept .*{ran.kept().suffix}: it holds the environment", ran.err)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_chrome_trace_holds_the_iterations(profiled: Profiled, engine: str) -> None:
    ran = profiled(engine, "host")
    events = json.loads(ran.files()[".trace.json"].read_text(encoding="utf-8"))["traceEvents"]
    steps = [event["name"] for event in events if event.get("cat") == "step"]
    assert steps.count("iteration") == 16 * 4
    assert steps.count("first synchronize") == steps.count("second synchronize") == 8 * 4
    assert not any(word in name for word in ("tick", "clock 1", "reading") for name in steps)


@needs_nsys
def test_timeline_shows_the_same_of_each_form(profiled: Profiled, cli: Cli, tmp_path: Path) -> None:
    ran = profiled("nsys", "host")
    expected = ran.rows("-iterations.csv")
    pictures = ran.out[ran.out.index("host (CPU stream, no CUDA), recorded by") :]
    for file in (ran.kept(), ran.files()["-scrubbed.sqlite"]):
        folder = tmp_path / file.suffix
        shown = cli("timeline", str(file), "--output", str(folder))
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout == pictures
        with by_suffix(folder)["-iterations.csv"].open(encoding="utf-8", newline="") as opened:
            assert list(csv.DictReader(opened)) == expected


def test_timeline_reads_what_torch_wrote(profiled: Profiled, cli: Cli, tmp_path: Path) -> None:
    ran = profiled("torch", "host")
    shown = cli("timeline", str(ran.kept()))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == ran.out[ran.out.index("host (CPU stream, no CUDA), recorded by") :]


@needs_nsys
def test_run_can_be_profiled(cli: Cli, tmp_path: Path) -> None:
    ran = cli("profile", "--quiet", "run", "--device", "host", *QUICK)
    assert ran.returncode == 0, ran.stderr
    assert "Cuda time: " in ran.stdout
    for operator in ("add2", "torch.add(out=)", "a + b"):
        assert f"\n{operator}, both synchronizes, time.time, idle\n" in ran.stdout
    assert ran.stderr == ""


def test_without_nsys_torch_profiler_is_used(cli: Cli, tmp_path: Path) -> None:
    absent = str(tmp_path / "no" / "nsys")
    ran = cli("profile", "run", "--device", "host", *QUICK, NSYS=absent)
    assert ran.returncode == 0, ran.stderr
    assert "torch.profiler is used" in ran.stderr
    assert "recorded by torch.profiler" in ran.stdout


REFUSED = [
    (("profile", "methods"), "cannot profile 'methods'. Use one of run, sync-modes"),
    (("profile", "sync-modes", "--n", "0"), "n must be"),
    (("profile", "run", "--bogus"), "No such option"),
    (("profile", "run", "--json", "x.json"), "--json is not for a profiled command"),
    (("profile", "run", "--torch-trace", "x"), "--torch-trace is not for a profiled command"),
    (
        ("profile", "--engine", "torch", "run", "--", "--stats=true"),
        "options after -- are for nsys",
    ),
    (("profile", "--engine", "perf"), "'perf' is not one of"),
    (("profile", "--nsys", "absent/nsys"), "--nsys names an nsys that cannot be used"),
    (("profile", "run", "--", "-o", "x"), "nsys's --output is not yours to give"),
    (("timeline", "absent.nsys-rep"), "cannot read absent.nsys-rep: No such file or directory"),
    (("timeline", "absent.json"), "cannot read absent.json: No such file or directory"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_bad_input_is_told_in_a_line(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = cli(*arguments)
    assert ran.returncode == 2
    assert said in re.sub(r"[│╭╮╰╯─\s]+", " ", ran.stderr)
    assert "Traceback" not in ran.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs no CUDA device")
@pytest.mark.parametrize("engine", ENGINES)
def test_the_commands_own_error_and_exit_code_come_through(
    cli: Cli, tmp_path: Path, engine: str
) -> None:
    alone = cli("run", "--device", "cuda")
    ran = cli("profile", "--engine", engine, "run", "--device", "cuda")
    assert ran.returncode == alone.returncode == 2
    assert alone.stderr.strip().splitlines()[-1].removeprefix("error: ") in ran.stderr


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Make an nsys of a few lines of shell, which says its version and does what is given."""

    def make(does: str) -> str:
        path = tmp_path / "nsys"
        says = 'if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2030.1"; exit; fi'
        path.write_text(f"#!/bin/sh\n{says}\n{does}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return make


FAILING_NSYS = [
    ("echo 'Illegal --trace argument' >&2; exit 1", 1, "Illegal --trace argument"),
    ("kill -9 $$", 128 + 9, "it said nothing"),
    ("echo Connection to the Agent lost.", 2, "Connection to the Agent lost."),
    # It runs the program, and leaves nothing.
    ('while [ "${1#-}" != "$1" ] || [ "$1" = profile ]; do shift; done; exec "$@"', 2, "no report"),
]


@pytest.mark.parametrize(("does", "code", "said"), FAILING_NSYS)
def test_an_nsys_that_fails_is_told_in_a_line(
    cli: Cli, script: Callable[[str], str], does: str, code: int, said: str
) -> None:
    ran = cli("profile", "--nsys", script(does), "run", "--device", "host", *QUICK)
    assert ran.returncode == code
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


@needs_nsys
def test_an_option_that_nsys_does_not_know_is_told(cli: Cli) -> None:
    ran = cli("profile", "run", "--device", "host", *QUICK, "--", "--no-such-option")
    assert ran.returncode != 0
    assert "no-such-option" in ran.stderr


@needs_nsys
def test_options_behind_dashes_reach_nsys(cli: Cli, tmp_path: Path) -> None:
    options = ("--trace=nvtx,osrt", "-s", "none")
    ran = cli("profile", "--keep", "run", "--device", "host", *QUICK, "--", *options)
    assert ran.returncode == 0, ran.stderr
    raw = next(p for p in (tmp_path / "results").iterdir() if p.suffix in (".qdstrm", ".nsys-rep"))
    assert cli("timeline", str(raw), "--scrub").returncode == 0


@needs_nsys
def test_no_kernels_is_an_error_with_causes(cli: Cli, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "print('no kernels')"]
    # Left to trace context switches, nsys 2022.4 hung once in twelve times.
    options = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--output=empty")
    subprocess.run(
        [str(NSYS), "profile", *options, *program],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    left = next(path for path in tmp_path.iterdir() if path.stem == "empty")
    ran = cli("timeline", str(left))
    assert ran.returncode == 2
    assert "no kernels were captured. Did the program launch any" in ran.stderr
    assert ran.stdout == ""


def test_a_foreign_trace_shows_what_ran(cli: Cli, foreign: Path, tmp_path: Path) -> None:
    ran = cli("timeline", str(foreign))
    assert ran.returncode == 0, ran.stderr
    assert "the first 3 works on the device" in ran.stdout
    assert "saxpy" in ran.stdout
    # From 1,000 to 5,000 ns with a gap of 500 and one of 1,000.
    assert re.search(r"^ +3 +4\.00 us +2\.50 us +62\.5% +2 +1\.00 us$", ran.stdout, re.MULTILINE)
    assert "-iterations.csv" not in ran.stderr


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Somebody's export: kernels and calls, and no range of ours."""
    file = tmp_path / "theirs.sqlite"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(
            """
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
                start INT, "end" INT, deviceId INT, streamId INT, correlationId INT,
                demangledName INT, shortName INT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
                start INT, "end" INT, correlationId INT, nameId INT);
            INSERT INTO StringIds VALUES (1, 'saxpy<script>alert(1)</script>'), (2, 'saxpy'),
                (3, 'cudaLaunchKernel_v7000');
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 2000, 0, 7, 1, 1, 2),
                (2500, 3500, 0, 7, 2, 1, 2), (4500, 5000, 0, 7, 3, 1, 2);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 300, 1, 3), (400, 500, 2, 3),
                (600, 700, 3, 3);
            """
        )
        made.commit()
    return file


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="needs setpriv")
def test_an_unwritable_folder_is_told_before_anything_runs(cli: Cli, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    for command in (("profile",), ("timeline", "x.sqlite")):
        ran = cli(*command, "--output", str(blocked / "results"))
        assert ran.returncode == 2
        assert "cannot write" in ran.stderr


def family(mark: str) -> Iterator[psutil.Process]:
    """Every process that a run started, by a variable that it has inherited."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("CUDABENCH_TEST") == mark:
                yield process
        except (psutil.Error, OSError):
            continue


def is_measuring(mark: str) -> bool:
    """Whether the profiled program has come to its loops, by the processor's time it took."""
    for process in family(mark):
        with suppress(psutil.Error):
            if "--nvtx" in process.cmdline() and process.cpu_times().user > 6:
                return process.name() != "nsys"
    return False


@contextmanager
def recording(folder: Path, mark: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a profile that lasts and yield it once it records; nothing of it outlives us."""
    process = started(
        *("profile", "--nsys", str(NSYS), "sync-modes", "--device", "host"),
        *("--n", "2^20", "--iters", "10000", "--max-time", "0.05"),
        folder=folder,
        CUDABENCH_TEST=mark,
    )
    deadline = time.monotonic() + 120
    try:
        while not is_measuring(mark):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        for each in family(mark):
            each.kill()


@needs_nsys
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_orphan_and_keeps_the_report(
    tmp_path: Path, sent: signal.Signals
) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    with recording(tmp_path, mark) as process:
        process.send_signal(sent)
        _, err = process.communicate(timeout=60)
        assert not list(family(mark))
    assert process.returncode == 128 + sent
    assert "Traceback" not in err
    assert [path.suffix for path in (tmp_path / "results").iterdir()] == [".qdstrm"]
    assert re.search(r"kept .*\.qdstrm: it holds the environment", err)
