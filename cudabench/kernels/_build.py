"""Compile and load the kernels, once for each combination of what they depend on.

Each combination of sources, flags, torch, compilers and architecture has a folder of its own in
the user's cache. The file lock that guards a build ends with its process, so a killed build
blocks nobody. PyTorch's own lock file outlives its owner (pytorch issue 189245); it lies in the
folder that a new build empties first.
"""

import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import filelock
import ninja
import platformdirs
import torch

from cudabench.errors import BuildError

CACHE_VARIABLE = "CUDABENCH_CACHE_DIR"

_USUAL_CUDA_HOME = "/usr/local/cuda"
_FLAGS = ("-O3",)
_LOG_LINES = 30
_SOURCE_SUFFIXES = (".cpp", ".cu", ".h")


@dataclass(frozen=True)
class Recipe:
    """What to compile.

    Attributes:
        name: The operator family.
        folder: Where the sources are; all of it counts for the hash, headers too.
        sources: File names in `folder`.
        capability: The device's compute capability, or None for a build without CUDA.
    """

    name: str
    folder: Path
    sources: tuple[str, ...]
    capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class Library:
    """A compiled library, loaded into PyTorch as `torch.ops.<namespace>`."""

    path: Path
    namespace: str


@dataclass(frozen=True)
class Toolchain:
    """The compilers of a build, each in its own words; `cuda_home` holds nvcc."""

    cxx_command: str
    cxx: str
    nvcc: str | None = None
    cuda_home: Path | None = None


def load(recipe: Recipe, notify: Callable[[str], None]) -> Library:
    """Return the library of `recipe`, compiled first where the cache does not hold it.

    Args:
        recipe: What to compile.
        notify: Told in one line before anything that takes seconds.

    Raises:
        BuildError: A compiler is missing, broken or of the wrong version, the sources do not
            compile, or the cache cannot be written.
    """
    tools = toolchain(with_cuda=recipe.capability is not None)
    digest = _digest(recipe, tools)
    namespace = f"cudabench_{recipe.name}_{digest}"
    folder = _private_folder(cache_root() / digest)
    library = Library(folder / "build" / f"{namespace}.so", namespace)
    try:
        if _is_complete(folder):
            _load_into_torch(library)
            return library
    except OSError:
        notify(f"{library.path} cannot be loaded; it is compiled anew")
        (folder / "complete").unlink(missing_ok=True)
    with _locked(folder, notify):
        if not _is_complete(folder):
            notify(f"compiling {recipe.name} (once; it is kept in {folder})")
            _compile(recipe, tools, library, folder / "build.log")
            (folder / "complete").touch()
    _load_into_torch(library)
    return library


def _load_into_torch(library: Library) -> None:
    torch.ops.load_library(library.path)  # type: ignore[no-untyped-call]


def cache_root() -> Path:
    """Return the folder that holds every build: the variable's, or the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_cache_path("cudabench")


@cache
def toolchain(with_cuda: bool) -> Toolchain:
    """Return the compilers that a build would use.

    Raises:
        BuildError: One is missing, does not run, or is of another CUDA than PyTorch's.
    """
    command = _cxx_command()
    cxx = _version(command, "Repair it, or set CXX to another compiler").partition("\n")[0]
    if not with_cuda:
        return Toolchain(shlex.join(command), cxx)
    home = _cuda_home()
    return Toolchain(shlex.join(command), cxx, _nvcc_version(home / "bin" / "nvcc"), home)


def _cxx_command() -> list[str]:
    """Return the C++ compiler's command, its program in full: PyTorch starts it elsewhere."""
    command = shlex.split(os.environ.get("CXX") or "c++")
    found = shutil.which(command[0])
    if found is None:
        raise BuildError(
            f"no C++ compiler: {command[0]!r} is not on the PATH",
            "Install g++ (Debian, Ubuntu: apt-get install g++), or set CXX to a compiler",
        )
    return [str(Path(found).absolute()), *command[1:]]


def _cuda_home() -> Path:
    """Return the CUDA toolkit's folder, searched for in the order of PyTorch's own search."""
    on_path = shutil.which("nvcc")
    places = {
        "CUDA_HOME": os.environ.get("CUDA_HOME"),
        "CUDA_PATH": os.environ.get("CUDA_PATH"),
        "the PATH": on_path and str(Path(on_path).parent.parent),
        _USUAL_CUDA_HOME: _USUAL_CUDA_HOME,
    }
    for place in places.values():
        # The header too: an nvcc on the PATH may be a wrapper far from its toolkit.
        if place and all((Path(place) / part).exists() for part in ("bin/nvcc", "include/cuda.h")):
            return Path(place)
    searched = ", ".join(
        name if place in (None, name) else f"{name}={place}" for name, place in places.items()
    )
    raise BuildError(
        f"no CUDA compiler: nvcc was searched for in {searched}",
        f"Install the CUDA {torch.version.cuda} toolkit and set CUDA_HOME to its folder,"
        " or use --device host",
    )


def _nvcc_version(nvcc: Path) -> str:
    version = _version([str(nvcc)], "Reinstall the CUDA toolkit, or set CUDA_HOME to another")
    release = re.search(r"release (\d+)\.(\d+)", version)
    if release is None:
        raise BuildError(f"{nvcc} does not say which CUDA release it is: {version!r}")
    wanted = str(torch.version.cuda)
    if release[1] != wanted.split(".")[0]:
        raise BuildError(
            f"{nvcc} is of CUDA {release[1]}.{release[2]}, this PyTorch"
            f" ({torch.__version__}) of CUDA {wanted}",
            f"Set CUDA_HOME to a CUDA {wanted} toolkit, or install the torch that matches nvcc",
        )
    return next(line for line in version.splitlines() if "release" in line)


def _version(command: list[str], remedy: str) -> str:
    """Return what a compiler says to --version."""
    try:
        ran = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise BuildError(f"{command[0]} does not run: {said.strip()}", remedy) from error
    return ran.stdout.strip()


def _digest(recipe: Recipe, tools: Toolchain) -> str:
    parts = [
        *recipe.sources,
        str(recipe.capability),
        *_FLAGS,
        torch.__version__,
        str(torch.version.cuda),
        repr(tools),
        platform.machine(),
    ]
    for path in sorted(recipe.folder.iterdir()):
        if path.suffix in _SOURCE_SUFFIXES:
            parts += [path.name, path.read_text(encoding="utf-8")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _private_folder(folder: Path) -> Path:
    """Make `folder` for this user alone; code is loaded from it. Others' folders stay as they are.

    Raises:
        BuildError: It cannot be made, or another user could have put something there.
    """
    remedy = f"Set {CACHE_VARIABLE} to a folder of your own"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.stat()
    except OSError as error:
        raise BuildError(
            f"cannot use the build cache {folder}: {error.strerror}", remedy
        ) from error
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise BuildError(f"the build cache {folder} is not yours alone to write", remedy)
    return folder


def _is_complete(folder: Path) -> bool:
    return (folder / "complete").exists()


@contextmanager
def _locked(folder: Path, notify: Callable[[str], None]) -> Iterator[None]:
    lock = filelock.FileLock(folder / "lock")
    try:
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            age = time.time() - (folder / "lock").stat().st_mtime
            notify(f"another process is compiling it since {age:.0f} s ({lock.lock_file}); waiting")
            lock.acquire()
        os.utime(folder / "lock")
    except OSError as error:
        raise BuildError(
            f"cannot lock the build cache {folder}: {error.strerror}",
            f"Set {CACHE_VARIABLE} to a folder of your own",
        ) from error
    try:
        yield
    finally:
        lock.release()


def _compile(recipe: Recipe, tools: Toolchain, library: Library, log: Path) -> None:
    folder = library.path.parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    with _build_environment(tools, folder), _output_in(log):
        from torch.utils import cpp_extension

        try:
            cpp_extension.load(
                library.namespace,
                [str(recipe.folder / source) for source in recipe.sources],
                extra_cflags=[*_FLAGS, *_cuda_defines(recipe)],
                extra_cuda_cflags=[*_FLAGS, *_architecture(recipe)],
                build_directory=str(folder),
                with_cuda=recipe.capability is not None,
                is_python_module=False,
                verbose=True,
            )
        except (RuntimeError, OSError) as error:
            # Or the next attempt in this process would skip the build and load nothing.
            cpp_extension.JIT_EXTENSION_VERSIONER.entries.pop(library.namespace, None)
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            raise BuildError(
                f"{recipe.name} did not compile; the whole log is {log}\n{tail or error}"
            ) from error


def _cuda_defines(recipe: Recipe) -> list[str]:
    """Open the CUDA part of PyTorch's C shim, and of add2.cpp."""
    return ["-DUSE_CUDA"] if recipe.capability else []


def _architecture(recipe: Recipe) -> list[str]:
    """Name the device's own architecture: it stands before any TORCH_CUDA_ARCH_LIST."""
    if recipe.capability is None:
        return []
    number = "{}{}".format(*recipe.capability)
    return [f"-gencode=arch=compute_{number},code=sm_{number}"]


@contextmanager
def _build_environment(tools: Toolchain, folder: Path) -> Iterator[None]:
    """Put ninja on the PATH, which lacks it where a virtual environment is not activated.

    PyTorch takes CXX for the path of one program; where it is a command with arguments, such as
    `ccache g++`, that program is a script.
    """
    compiler, *arguments = shlex.split(tools.cxx_command)
    if arguments:
        script = folder / "c++"
        script.write_text(f'#!/bin/sh\nexec {tools.cxx_command} "$@"\n', encoding="utf-8")
        script.chmod(0o700)
        compiler = str(script)
    changed = {
        "PATH": os.pathsep.join([ninja.BIN_DIR, os.environ.get("PATH", os.defpath)]),
        "CXX": compiler,
    }
    if tools.cuda_home:
        changed["CUDA_HOME"] = str(tools.cuda_home)
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _output_in(log: Path) -> Iterator[None]:
    """Send PyTorch's remarks, and what ninja prints on descriptor 1, to `log`."""
    logger = logging.getLogger("torch.utils.cpp_extension")
    if sys.stdout:
        sys.stdout.flush()
    kept, propagated = os.dup(1), logger.propagate
    with log.open("w", encoding="utf-8", errors="backslashreplace") as file:
        handler = logging.StreamHandler(file)
        logger.addHandler(handler)
        logger.propagate = False
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            logger.removeHandler(handler)
            logger.propagate = propagated
