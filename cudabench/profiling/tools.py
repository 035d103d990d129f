"""Finds NVIDIA's nsys and QdstrmImporter, and runs tools so that none outlives us."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
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
_SEARCHED = (
    "on the PATH, in /opt/nvidia/nsight-systems* and nsight-compute, /usr/local/cuda*/bin or"
    " /usr/lib/nsight-systems"
)
_VERSION_LIMIT = 30.0  # seconds to say a version
_MARK = "CUDABENCH_TOOL"
_GRACE = 10.0  # seconds to end by itself; nsys took 3 to stop a program and write what it had
_KILL_LIMIT = 5.0  # seconds for killed processes to be gone


class NsysNotFoundError(ProfilerError):
    """There is no nsys that runs."""


@dataclass(frozen=True)
class Nsys:
    """An nsys that runs."""

    path: Path
    version: tuple[int, ...]

    @property
    def label(self) -> str:
        """Its product and version, as NVIDIA's pages name it."""
        return f"Nsight Systems {'.'.join(map(str, self.version[:3]))}"


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
        return _named(named, "--nsys" if given else "NSYS")
    running, broken = [], []
    for path in _distinct([*_on_path("nsys"), *_files(root, _NSYS_FOLDERS, "nsys")]):
        try:
            running.append(_asked(path))
        except NsysNotFoundError as error:
            broken.append(str(error))
    if not running:
        raise NsysNotFoundError(
            "; ".join([f"no nsys that runs {_SEARCHED}", *broken]),
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
        return [Path(shutil.which(given) or given).absolute()]
    beside = _beside(nsys.path) if nsys else []
    usual = _files(root, _IMPORTER_FOLDERS, _IMPORTER)
    return _distinct([*_on_path(_IMPORTER), *beside, *usual])


def run_tool(
    command: Sequence[str], env: Mapping[str, str] | None = None, limit: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a tool to its end; `stdout` has all that it printed, on either stream.

    Interrupted, it ends the tool and whatever that started: nsys has an agent, and runs the
    program in a group of its own.

    Args:
        command: The tool and its arguments.
        env: Its environment, or None for ours.
        limit: After how many seconds it is ended.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It ran longer than `limit`.
    """
    mark = uuid.uuid4().hex
    command = list(command)
    # A file, not a pipe: whatever the program leaves running would keep a pipe open.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            process = subprocess.Popen(
                command,
                env={**(os.environ if env is None else env), _MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except KeyboardInterrupt:
            _kill([], mark)  # it may have been started all the same
            raise
        try:
            process.wait(limit)
        except BaseException:
            _end(process, mark)
            raise
        output.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, output.read())


def _end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    """End a tool, and each process that descends from it or has inherited its mark.

    The tool alone is asked first: nsys then stops its program and writes what it has. A second
    interrupt cuts that short.
    """
    family = _descendants(process.pid)
    try:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    finally:
        process.kill()  # it may have taken the mark out of its environment
        _kill(family, mark)
        process.wait()


def _kill(family: list[psutil.Process], mark: str) -> None:
    """Kill until none is left: one may start another meanwhile."""
    deadline = time.monotonic() + _KILL_LIMIT
    while alive := [process for process in [*family, *_marked(mark)] if _is_alive(process)]:
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        if time.monotonic() > deadline:
            return  # in the kernel's hands: a killed process may wait for a device
        time.sleep(0.01)


def _descendants(pid: int) -> list[psutil.Process]:
    """Return a process's descendants; those whose parent ended are not among them."""
    with suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def _marked(mark: str) -> Iterator[psutil.Process]:
    """Yield each process that has inherited a mark, whoever its parent is by now."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                yield process


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _named(name: str, where: str) -> Nsys:
    """Return the nsys that a user named."""
    try:
        path = Path(name).expanduser()
        return _asked(Path(shutil.which(path) or path).absolute())
    except NsysNotFoundError as error:
        raise NsysNotFoundError(
            f"{where} names an nsys that cannot be used: {error}",
            "Name another, or none to look for it",
        ) from error


def _asked(path: Path) -> Nsys:
    """Return the nsys at a path by what it says of its version.

    Raises:
        NsysNotFoundError: It does not run, or says no version.
    """
    try:
        ran = run_tool([str(path), "--version"], limit=_VERSION_LIMIT)
    except OSError as error:
        raise NsysNotFoundError(f"{path} does not run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise NsysNotFoundError(f"{path} said no version in {_VERSION_LIMIT:.0f} s") from error
    said = re.search(r"\b(\d{4}\.\d+(?:\.\d+)*)", ran.stdout)
    if ran.returncode != 0 or said is None:
        last = (ran.stdout.strip().splitlines() or ["nothing"])[-1]
        raise NsysNotFoundError(f"{path} exits with {ran.returncode} and says {last!r}")
    return Nsys(path, tuple(int(part) for part in said[1].split(".")))


def _beside(nsys: Path) -> list[Path]:
    """Return the importers in nsys's folder and the host folders by it, link after link.

    Debian's /usr/bin/nsys is a link to one in /usr/lib/nsight-systems, where the importer is, and
    that a link to one elsewhere.
    """
    found = []
    for path in _links(nsys):
        folder = path.parent
        found += [folder / _IMPORTER, *_files(folder.parent, _HOST_FOLDERS, _IMPORTER)]
    return found


def _links(path: Path) -> Iterator[Path]:
    """Yield a path, what each link leads to, and the file at the end."""
    real = path.resolve()
    while path.is_symlink():
        yield path
        # From where its folder really is, which may be a link too: Debian's /bin is.
        path = Path(os.path.normpath(path.parent.resolve() / path.readlink()))
    yield path
    yield real


def _on_path(name: str) -> list[Path]:
    """Return every program of a name on the PATH, not the first alone."""
    found = (shutil.which(name, path=folder) for folder in os.get_exec_path())
    return [Path(path).absolute() for path in found if path]


def _files(folder: Path, patterns: Iterable[str], name: str) -> list[Path]:
    """Return the files of a name in folders of a pattern, of each the last in the alphabet first.

    That is mostly the newest.
    """
    return [
        path
        for pattern in patterns
        for path in sorted(folder.glob(f"{pattern}/{name}"), reverse=True)
    ]


def _distinct(paths: Iterable[Path]) -> list[Path]:
    """Return each file that is there once, by the first of its names."""
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_file():
            found.setdefault(path.resolve(), path)
    return list(found.values())
