"""Runs one of our own commands under a profiler, and keeps what comes out."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cudabench.errors import BadInputError
from cudabench.profiling.tools import Nsys, run_tool
from cudabench.ranges import CAPTURE, DOMAIN

# In this order: what needs no further step first.
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
_NAME = "capture"
_SESSION = "session"
# Left to its defaults, nsys sampled the CPU and wrote 2 GB.
_TRACED = {"--trace": ("-t", "cuda,nvtx"), "--sample": ("-s", "none"), "--cpuctxsw": ("", "none")}
# From the first timed mode to the last.
_RANGE = {
    "--capture-range": ("-c", "nvtx"),
    "--nvtx-capture": ("-p", f"{CAPTURE}@{DOMAIN}"),
    "--capture-range-end": ("", "stop"),
}


@dataclass(frozen=True)
class Captured:
    """What a profiled command left.

    Attributes:
        report: What the profiler wrote; None where it wrote nothing.
        session: The session that the command wrote; None where it did not come so far.
        exit_code: The command's own, or the profiler's.
        said: What both of them printed.
    """

    report: Path | None
    session: Path | None
    exit_code: int
    said: str


def with_nsys(nsys: Nsys, command: Sequence[str], extra: Sequence[str], folder: Path) -> Captured:
    """Run a command of ours under nsys.

    CUDA and NVTX are traced and nothing else, and only while modes are timed.

    Args:
        nsys: Which one.
        command: The arguments of `cudabench`.
        extra: Options for `nsys profile`, which take the place of ours: it wants each once.
        folder: Where to, empty.

    Raises:
        BadInputError: `extra` says where nsys is to write.
    """
    given = _names(extra)
    if given & {"--output", "-o"}:
        raise BadInputError("nsys's --output is not yours to give", "Use ours, before the dashes")
    defaults = _TRACED if given & {"--capture-range", "-c"} else {**_TRACED, **_RANGE}
    profile = [
        *(str(nsys.path), "profile", f"--output={folder / _NAME}"),
        *(
            f"{name}={value}"
            for name, (short, value) in defaults.items()
            if not given & {name, short}
        ),
        *extra,
    ]
    # nsys looks for the range among registered texts alone, unless told otherwise.
    env = {**os.environ, "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}
    return _captured([*profile, *_program(command, folder), "--nvtx"], env, folder, _REPORTS)


def with_torch(command: Sequence[str], folder: Path) -> Captured:
    """Run a command of ours with torch.profiler in it, writing to an empty folder."""
    option = f"--torch-trace={folder / _NAME}.trace"
    return _captured([*_program(command, folder), option], dict(os.environ), folder, (".trace",))


def _names(options: Sequence[str]) -> set[str]:
    """Return what options are called: -tcuda, -t cuda, --trace=cuda and --trace cuda by name."""
    dashed = (option for option in options if option.startswith("-"))
    return {name.split("=")[0] if name.startswith("--") else name[:2] for name in dashed}


def _program(command: Sequence[str], folder: Path) -> list[str]:
    """Return what runs our command: the interpreter itself, never a version manager's shim.

    Through a shim nsys sees no NVTX ranges.
    """
    files = (f"--json={folder / _SESSION}.json", f"--csv={folder / _SESSION}.csv")
    return [sys.executable, "-m", "cudabench", *command, *files]


def _captured(
    command: list[str], env: dict[str, str], folder: Path, suffixes: Sequence[str]
) -> Captured:
    ran = run_tool(command, env)
    reports = (folder / f"{_NAME}{suffix}" for suffix in suffixes)
    session = folder / f"{_SESSION}.json"
    return Captured(
        report=next((report for report in reports if report.exists()), None),
        session=session if session.exists() else None,
        exit_code=ran.returncode,
        said=ran.stdout,
    )
