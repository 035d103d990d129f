"""Finds NVIDIA's nsys and QdstrmImporter, and runs tools so that none outlives us."""

import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from cudabench.errors import ProfilerError

# Where nsys lies where it is not on the PATH: NVIDIA's own packages, inside Nsight Compute, the
# CUDA toolkit, and Debian's, which splits it over two folders.
_NSYS_FOLDERS = (
    "opt/nvidia/nsight-systems*/*/bin",
    "opt/nvidia/nsight-systems*/*/target-linux-*",
    "opt/nvidia/nsight-compute/*/host/target-linux-*",
    "usr/local/cuda*/bin",
    "usr/lib/nsight-systems/bin",
    "usr/lib/nsight-systems/target-linux-*",
    "usr/lib/*/nsight-systems/target-linux-*",
)
# The importer lies in a host folder, beside nsys's target folder or where Debian puts it.
_HOST_FOLDERS = ("host-linux-*", "linux-desktop-*")
_IMPORTER_FOLDERS = (
    "opt/nvidia/nsight-systems*/*/host-linux-*",
    "opt/nvidia/nsight-compute/*/host/linux-desktop-*",
    "usr/lib/nsight-systems/host-linux-*",
)
_IMPORTER = "QdstrmImporter"
_VERSION_LIMIT = 30.0  # seconds to say a version
_MARK = "CUDABENCH_TOOL"
_GRACE = 10.0  # seconds to end by itself


class NsysNotFoundError(ProfilerError):
    """There is no nsys that runs."""


@dataclass(frozen=True)
class Nsys:
    """An nsys that runs."""

    path: Path
    version: tuple[int, ...]

    @property
    def label(self) -> str:
        """Its product and version."""
        return f"Nsight Systems {'.'.join(map(str, self.version))}"


def find_nsys(given: str | None = None, root: Path = Path("/")) -> Nsys:
    """Return the nsys to use.

    It is the one given, else the one that the variable NSYS names, else the newest that runs on
    the PATH or in the usual folders.

    Args:
        given: What the command line names, if anything.
        root: Where the usual folders are looked for.

    Raises:
        NsysNotFoundError: There is none, or the one named does not run.
    """
    named = given or os.environ.get("NSYS")
    if named:
        path = shutil.which(named)
        nsys = _running(Path(path)) if path else None
        if nsys is None:
            raise NsysNotFoundError(
                f"{named}, named by {'--nsys' if given else 'NSYS'}, does not run as nsys",
                "Name another, or none to look for it",
            )
        return nsys
    on_path = [Path(found)] if (found := shutil.which("nsys")) else []
    candidates = _distinct([*on_path, *_files(root, _NSYS_FOLDERS, "nsys")])
    running = [nsys for nsys in map(_running, candidates) if nsys]
    if not running:
        broken = f"; none of these runs: {', '.join(map(str, candidates))}" if candidates else ""
        raise NsysNotFoundError(
            f"no nsys on the PATH or in NVIDIA's usual folders{broken}",
            "Install Nsight Systems (Debian: nsight-systems in non-free), name it with --nsys, or"
            " use --engine torch",
        )
    return max(running, key=lambda nsys: nsys.version)


def find_importers(
    given: str | None, nsys: Nsys | None = None, root: Path = Path("/")
) -> list[Path]:
    """Return each QdstrmImporter to try: the one given alone; else the PATH's, nsys's own, others.

    Args:
        given: What the command line names, if anything.
        nsys: Whose own it is to be, if possible: of another version, it refuses a file.
        root: Where the usual folders are looked for.
    """
    if given:
        return [Path(given)]
    on_path = [Path(found)] if (found := shutil.which(_IMPORTER)) else []
    beside: list[Path] = []
    if nsys:
        folder = nsys.path.resolve().parent
        beside = [folder / _IMPORTER, *_files(folder.parent, _HOST_FOLDERS, _IMPORTER)]
    usual = _files(root, _IMPORTER_FOLDERS, _IMPORTER)
    return [path for path in _distinct([*on_path, *beside, *usual]) if path.is_file()]


def run_tool(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a tool to its end; `stdout` has all that it printed, on either stream.

    Interrupted, it ends the tool and whatever that started: nsys has an agent, and runs the
    program in a group of its own.
    """
    mark = uuid.uuid4().hex
    command = list(command)
    process = subprocess.Popen(
        command,
        env={**(os.environ if env is None else env), _MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate()
    except BaseException:
        _end(mark)
        process.wait()
        raise
    return subprocess.CompletedProcess(command, process.returncode, said)


def _end(mark: str) -> None:
    """End each process that has inherited a mark: it is asked first, and killed then."""
    for sent in (signal.SIGINT, signal.SIGKILL):
        marked = list(_marked(mark))
        for process in marked:
            with suppress(psutil.Error):
                process.send_signal(sent)
        psutil.wait_procs(marked, timeout=_GRACE)


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                yield process


def _running(path: Path) -> Nsys | None:
    """Return the nsys at a path, or None where it says no version."""
    try:
        ran = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_VERSION_LIMIT, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    said = re.search(r"\b(\d{4}\.\d+(?:\.\d+)*)", ran.stdout)
    return Nsys(path, tuple(int(part) for part in said[1].split("."))) if said else None


def _files(folder: Path, patterns: Iterable[str], name: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(f"{pattern}/{name}"))]


def _distinct(paths: Iterable[Path]) -> list[Path]:
    """Return each file once, by the first of its names."""
    return list({path.resolve(): path for path in reversed(list(paths))}.values())[::-1]
