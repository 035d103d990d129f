"""The real command in a process of its own, as a person starts it."""

import csv
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
import torch

from cudabench import __version__, kernels
from tests.conftest import Cli, child_environment

HOST = "host (CPU stream, no CUDA)"
DEVICES = ["host", pytest.param("cuda", marks=pytest.mark.gpu)]


def written(folder: Path) -> dict[str, Path]:
    """The files of one session, by the end of their names."""
    return {path.name.rsplit("Z", 1)[1]: path for path in folder.iterdir()}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").stdout == f"cudabench {__version__}\n"
    for arguments in ((), ("run",), ("sync-modes",), ("methods",)):
        shown = cli(*arguments, "--help")
        assert shown.returncode == 0
        assert "Usage" in shown.stdout


@pytest.mark.skipif(
    not (Path(sys.executable).parent / "cudabench").exists(), reason="runs from the checkout"
)
def test_the_entry_point_is_installed() -> None:
    command = Path(sys.executable).parent / "cudabench"
    ran = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"cudabench {__version__}\n"


@pytest.mark.parametrize("device", DEVICES)
def test_run_shows_a_table_and_the_articles_lines(cli: Cli, tmp_path: Path, device: str) -> None:
    ran = cli("run", "--n", "2^16", "--device", device)
    assert ran.returncode == 0, ran.stderr
    mark = rf"  \[{re.escape(HOST)}\]" if device == "host" else ""
    for name in ("Cuda", "Torch"):
        assert re.search(rf"^{name} time: \d+\.\d{{3}}us{mark}$", ran.stdout, re.MULTILINE)
    assert ran.stdout.count(" correct") == 3
    files = written(tmp_path / "results")
    assert sorted(files) == ["-estimates.csv", "-samples.csv", "-summary.csv", ".json"]
    assert len(rows(files["-samples.csv"])) == 3 * 10


def test_the_articles_number_is_the_mean_of_the_samples(cli: Cli, tmp_path: Path) -> None:
    ran = cli("run", "--n", "2^16", "--device", "host", "--iters", "10")
    samples = rows(written(tmp_path / "results")["-samples.csv"])
    seconds = [float(r["seconds"]) for r in samples if r["operator"] == "add2"]
    assert len(seconds) == 10
    assert f"Cuda time: {sum(seconds) / 10 * 1e6:.3f}us" in ran.stdout


@pytest.mark.parametrize("device", DEVICES)
def test_sync_modes_shows_and_saves_eight_rows_twice(cli: Cli, tmp_path: Path, device: str) -> None:
    ran = cli("sync-modes", "--n", "2^24", "--device", device, "--json", "session.json")
    assert ran.returncode == 0, ran.stderr
    summary = rows(written(tmp_path / "results")["-summary.csv"])
    assert len(summary) == 16
    median = {
        (r["clock"], r["first_sync"], r["second_sync"], r["backlog"]): float(r["median_seconds"])
        for r in summary
    }
    yes, no = "True", "False"
    assert median["time", yes, no, no] < median["time", yes, yes, no] / 5
    assert median["time", no, no, no] < median["time", yes, yes, no] / 5
    assert median["time", no, yes, yes] > 5 * median["time", yes, yes, yes]
    unread = [r for r in summary if r["clock"] == "event" and r["second_sync"] == no]
    assert all(int(r["not_ready"]) >= 9 for r in unread)
    own, behind = rows(written(tmp_path / "results")["-estimates.csv"])
    assert (own["l2"], behind["l2"]) == ("warm", "backlog")
    assert all(float(r["part_operator_seconds"]) > 0 for r in summary if r["second_sync"] == yes)
    assert median["time", yes, no, no] < float(own["net_seconds"]) / 2
    assert median["time", yes, yes, no] > float(own["net_seconds"]) * 0.8
    assert ran.stdout.count("The launch call") == 4
    assert ran.stdout.count("Not readable at once in") == 4
    session = json.loads((tmp_path / "session.json").read_text(encoding="utf-8"))
    assert len(session["measurements"]) == 16
    assert session["environment"]["torch"] == torch.__version__


def test_all_that_the_host_measured_is_marked(cli: Cli, tmp_path: Path) -> None:
    ran = cli("run", "--n", "1Ki", "--device", "host")
    assert ran.stdout.count(HOST) == 3
    files = written(tmp_path / "results")
    assert {r["device"] for r in rows(files["-samples.csv"])} == {HOST}
    assert {r["device"] for r in rows(files["-summary.csv"])} == {HOST}
    assert HOST in files[".json"].read_text(encoding="utf-8")


def test_one_situation_and_several_clocks(cli: Cli) -> None:
    ran = cli(
        *("sync-modes", "--n", "1Ki", "--device", "host", "--no-backlog", "--iters", "2"),
        *("--clock", "perf_counter", "--clock", "time", "--clock", "time"),
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count(", no backlog") == 1
    assert "behind a backlog" not in ran.stdout
    both = [line.split()[0] for line in ran.stdout.splitlines() if re.search(r"^\S+ +both ", line)]
    assert both == ["perf_counter", "time.time"] * 3  # the modes, the bars, the figures


def test_quiet_leaves_the_tables(cli: Cli) -> None:
    ran = cli("run", "--n", "1Ki", "--device", "host", "--quiet")
    assert ran.stderr == ""
    assert "Cuda time" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--n", "0"), "n must be at least 1, got 0"),
        (("--n", "-4"), "n must be at least 1, got -4"),
        (("--n", "lots"), "n must be a whole number, got 'lots'"),
        (("--n", "2^50", "--device", "host"), "TiB ("),
        (("--n", "2^99"), "does not fit in 64 bits"),
        (("--device", "gpu"), "unknown device 'gpu'"),
        (("--device", "cuda:99"), "CUDA"),
        (("--device", "cuda:\u0663"), "unknown device"),
        (("--precision", "0"), "--precision must be"),
        (("--max-time", "nan"), "--max-time must be"),
        (("--iters", "99999999999999999999"), "--iters must be 1 to 1,000,000"),
        (("--json", "/dev/null"), "it is no regular file"),
        (("--csv", ""), "cannot write"),
        (("--iters", "0"), "--iters must be 1 to 1,000,000, got 0"),
        (("--warmup", "-1"), "--warmup must be 0 to 1,000,000, got -1"),
        (("--out", "/proc/nothing"), "cannot write /proc/nothing"),
        (("--csv", "/proc/nothing/x.csv"), "cannot write /proc/nothing/x.csv"),
        (("--json", "."), "it is no regular file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("command", ["run", "sync-modes"])
def test_bad_input_gets_one_line_and_writes_nothing(
    cli: Cli, tmp_path: Path, command: str, arguments: tuple[str, ...], said: str
) -> None:
    ran = cli(command, *arguments)
    assert ran.returncode == 2
    errors = [line for line in ran.stderr.splitlines() if not line.startswith("No CUDA device")]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert said in errors[0]
    assert ran.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("--iters", "many"), ("--bogus",), ("--clock", "sundial")])
def test_what_typer_refuses_has_the_same_exit_code(cli: Cli, arguments: tuple[str, ...]) -> None:
    ran = cli("run", *arguments)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_debug_shows_the_traceback(cli: Cli) -> None:
    ran = cli("run", "--debug", "--n", "0")
    assert ran.returncode == 2
    assert "Traceback" in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("error: n must be at least 1")


def test_no_compiler(cli: Cli, tmp_path: Path) -> None:
    ran = cli(
        "run", "--device", "host", PATH=str(tmp_path), CUDABENCH_CACHE_DIR=str(tmp_path / "c")
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: no C++ compiler: 'c++' is not on the PATH. Install g++")
    assert ran.stderr.count("\n") == 1


@pytest.mark.gpu
def test_a_broken_nvcc(cli: Cli, tmp_path: Path) -> None:
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    nvcc.chmod(0o755)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").touch()
    ran = cli("run", "--device", "cuda", CUDA_HOME=str(tmp_path))
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: {nvcc} does not run: out of order")


@pytest.mark.gpu
def test_no_visible_cuda_device(cli: Cli) -> None:
    ran = cli("run", "--device", "cuda", CUDA_VISIBLE_DEVICES="")
    assert ran.returncode == 2
    assert "CUDA_VISIBLE_DEVICES is ''" in ran.stderr


@pytest.mark.parametrize(
    ("file", "device"),
    [("add2_host.cpp", "host"), pytest.param("add2.cu", "cuda", marks=pytest.mark.gpu)],
)
@pytest.mark.parametrize("instead", ["c[i] = a[i] * b[i]", "(void)a, (void)b, (void)c"])
@pytest.mark.parametrize("command", ["run", "sync-modes"])
def test_a_wrong_kernel_is_caught(
    cli: Cli, tmp_path: Path, file: str, device: str, instead: str, command: str
) -> None:
    sources = Path(shutil.copytree(kernels.SOURCE_FOLDER, tmp_path / "kernels"))
    text = (sources / file).read_text()
    assert text.count("c[i] = a[i] + b[i]") == 1
    (sources / file).write_text(text.replace("c[i] = a[i] + b[i]", instead))
    code = (
        "from pathlib import Path\n"
        "from cudabench import cli, kernels\n"
        f"kernels.SOURCE_FOLDER = Path({str(sources)!r})\n"
        "cli.main()\n"
    )
    ran = cli(command, "--n", "1Ki", "--device", device, code=code)
    assert ran.returncode == 1
    assert "error: add2 gave another result than PyTorch, so its timing is invalid" in ran.stderr
    if command == "run":
        assert re.search(r"^add2 .* WRONG *$", ran.stdout, re.MULTILINE)
    assert "add2's result is WRONG: its times are invalid" in ran.stdout


def test_piped_output_is_plain_and_uncut(cli: Cli) -> None:
    ran = cli("sync-modes", "--n", "1Ki", "--device", "host", COLUMNS="40", FORCE_COLOR="")
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "…" not in ran.stdout
    rows = [line for line in ran.stdout.splitlines() if line.startswith(("time.time", "events"))]
    assert len(rows) == 4 + 2 * 2 * 8  # beside the modes, two tables of the parts, twice
    assert max(map(len, rows)) > 120


def test_arguments_that_are_no_unicode_lose_nothing(cli: Cli, tmp_path: Path) -> None:
    ran = cli("run", "--n", "1Ki", "--device", "host", "--out", os.fsdecode(b"caf\xe9"))
    assert ran.returncode == 0, ran.stderr
    (folder,) = tmp_path.iterdir()
    assert os.fsencode(folder.name) == b"caf\xe9"
    json.loads(written(folder)[".json"].read_text(encoding="utf-8"))


def test_an_unexpected_error_is_one_line_and_has_its_own_exit_code(cli: Cli) -> None:
    code = (
        "from cudabench import cli, runner\n"
        "def fail(*_): raise ZeroDivisionError('of ours')\n"
        "runner.open_bench = fail\n"
        "cli.main()\n"
    )
    ran = cli("run", code=code)
    assert ran.returncode == 70
    said = ran.stderr.splitlines()[-1]
    assert said == "error: ZeroDivisionError: of ours. A fault of cudabench; see it with --debug"
    assert "Traceback" not in ran.stderr
    assert "Traceback" in cli("run", "--debug", code=code).stderr


def test_an_ascii_locale_changes_no_file_and_breaks_no_table(cli: Cli, tmp_path: Path) -> None:
    ran = cli(
        *("run", "--n", "1Ki", "--device", "host"),
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
        PYTHONIOENCODING="ascii",
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.isascii()
    sample = rows(written(tmp_path / "results")["-samples.csv"])[0]
    assert re.fullmatch(r"\d\.\d+(e-\d+)?", sample["seconds"])


def in_a_terminal(columns: int, *arguments: str, cwd: Path, **env: str) -> str:
    """Run the command with a terminal of that width for stdout and stderr; return what it drew."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "cudabench", *arguments],
        cwd=cwd,
        env=child_environment(TERM="xterm", **env),
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # how Linux reports that the other end has closed
            break
        if not some:
            break
        drawn += some
    os.close(ours)
    assert process.wait() == 0
    return drawn.decode()


def test_a_terminal_of_80_columns_holds_every_line(tmp_path: Path) -> None:
    drawn = in_a_terminal(
        80, "sync-modes", "--n", "1Ki", "--device", "host", "--quiet", cwd=tmp_path, NO_COLOR="1"
    )
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).split("\r\n")
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("events, neither: ") for line in lines)


def test_no_color_is_honoured(tmp_path: Path) -> None:
    arguments = ("run", "--n", "1Ki", "--device", "host")
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
    assert coloured.search(in_a_terminal(100, *arguments, cwd=tmp_path))
    assert not coloured.search(in_a_terminal(100, *arguments, cwd=tmp_path, NO_COLOR="1"))


def test_an_interruption_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", "--n", "1", "--device", "host", "--out", "first").returncode == 0  # compiled
    process = subprocess.Popen(
        [sys.executable, "-m", "cudabench", "run", "--iters", "1000000"],
        cwd=tmp_path,
        env=child_environment(CUDA_VISIBLE_DEVICES=""),
        # What runs the tests may ignore it, as a shell does for what it starts behind it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    assert process.stderr.readline().startswith("No CUDA device")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "error: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


@pytest.mark.parametrize("device", DEVICES)
def test_methods_shows_and_saves_every_method(cli: Cli, tmp_path: Path, device: str) -> None:
    ran = cli("methods", "--n", "2^16", "--device", device, "--operator", "torch.add(out=)")
    assert ran.returncode == 0, ran.stderr
    for name in ("cudabench's own", "batch", "CUDA graph", "CUPTI", "time.time, both"):
        assert re.search(rf"^{re.escape(name)} ", ran.stdout, re.MULTILINE)
    assert "Consensus" in ran.stdout
    files = written(tmp_path / "results")
    assert len(rows(files["-opinions.csv"])) == 5
    assert len(rows(files["-summary.csv"])) == 8


def test_an_unknown_operator_is_refused(cli: Cli, tmp_path: Path) -> None:
    ran = cli("run", "--device", "host", "--operator", "mul")
    assert ran.returncode == 2
    assert "unknown operator 'mul'" in ran.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.gpu
@pytest.mark.parametrize("command", ["run", "methods"])
def test_the_articles_launcher_is_named(cli: Cli, command: str) -> None:
    ran = cli(command, "--n", "2^20", "--operator", "add2-default-stream")
    assert ran.returncode == 0, ran.stderr
    assert "WRONG STREAM" in ran.stdout
    if command == "methods":
        for name in ("CUDA graph", "do_bench_cudagraph"):
            assert re.search(rf"^{name} +none ", ran.stdout, re.MULTILINE)
