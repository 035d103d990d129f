"""Runs one of our own commands under a profiler, and keeps what comes out."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cudabench.profiling.tools import Nsys, run_tool
from cudabench.ranges import CAPTURE, DOMAIN

# In this order: what needs no further step first.
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
_NAME = "capture"
_SESSION = "session"


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

    CUDA and NVTX are traced and nothing else: left to its defaults, nsys sampled the CPU and wrote
    2 GB. It records from the first timed mode to the last.

    Args:
        nsys: Which one.
        command: The arguments of `cudabench`.
        extra: Options for `nsys profile`, after ours.
        folder: Where to, empty.
    """
    profile = [
        str(nsys.path),
        "profile",
        "--trace=cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--capture-range=nvtx",
        f"--nvtx-capture={CAPTURE}@{DOMAIN}",
        "--capture-range-end=stop",
        f"--output={folder / _NAME}",
        *extra,
    ]
    # nsys looks for the range among registered texts alone, unless told otherwise.
    env = {**os.environ, "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}
    return _captured([*profile, *_program(command, folder), "--nvtx"], env, folder, _REPORTS)


def with_torch(command: Sequence[str], folder: Path) -> Captured:
    """Run a command of ours with torch.profiler in it, writing to an empty folder."""
    option = f"--torch-trace={folder / _NAME}.trace"
    return _captured([*_program(command, folder), option], dict(os.environ), folder, (".trace",))


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
