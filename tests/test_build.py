import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cudabench import kernels
from cudabench.errors import BuildError
from cudabench.kernels import _build
from cudabench.kernels._build import Recipe
from tests.conftest import Cli, child_environment

HOST_SOURCES = ("add2.cpp", "add2_host.cpp", "host_stream.cpp")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("CUDABENCH_CACHE_DIR", str(cache))
    return cache


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the kernels to break, unlike any other: a process loads each library once."""
    folder = Path(shutil.copytree(kernels.SOURCE_FOLDER, tmp_path / "sources"))
    with (folder / "add2.h").open("a") as header:
        header.write(f"// {tmp_path}\n")
    return folder


@pytest.fixture
def fresh_toolchain() -> Iterator[None]:
    _build.toolchain.cache_clear()
    yield
    _build.toolchain.cache_clear()


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def cuda_home(folder: Path, nvcc_script: str) -> Path:
    """Make a CUDA toolkit out of a script; return its nvcc."""
    (folder / "include").mkdir()
    (folder / "include" / "cuda.h").touch()
    return executable(folder / "bin" / "nvcc", nvcc_script)


def test_a_second_load_compiles_nothing(own_cache: Path, sources: Path) -> None:
    recipe = Recipe("add2", sources, HOST_SOURCES)
    said: list[str] = []
    first = _build.load(recipe, said.append)
    written = first.path.stat().st_mtime_ns
    assert _build.load(recipe, said.append) == first
    assert len(said) == 1
    assert said[0].startswith("compiling add2")
    assert first.path.stat().st_mtime_ns == written


def test_the_cache_is_this_users_alone_and_keeps_the_log(own_cache: Path, sources: Path) -> None:
    library = _build.load(Recipe("add2", sources, HOST_SOURCES), print)
    folder = library.path.parents[1]
    assert folder.parent == own_cache
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in (own_cache, folder))
    assert "add2_host.cpp" in (folder / "build.log").read_text()


def test_a_changed_source_is_another_library(own_cache: Path, sources: Path) -> None:
    before = _build.load(Recipe("add2", sources, HOST_SOURCES), print)
    with (sources / "add2.h").open("a") as header:
        header.write("// changed\n")
    assert _build.load(Recipe("add2", sources, HOST_SOURCES), print).path != before.path


def test_compile_errors_are_shown_every_time(own_cache: Path, sources: Path) -> None:
    (sources / "add2_host.cpp").write_text("int broken( { return 0; }\n")
    for _ in range(2):
        with pytest.raises(BuildError, match=r"add2_host\.cpp:1:\d+: error: ") as raised:
            _build.load(Recipe("add2", sources, HOST_SOURCES), print)
        assert "build.log" in str(raised.value)


def test_a_missing_compiler_is_named(
    fresh_toolchain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match="'no-such-compiler' is not on the PATH"):
        _build.toolchain(with_cuda=False)


def test_a_broken_compiler_is_quoted(
    fresh_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", str(executable(tmp_path / "c++", "echo cannot start >&2; exit 1")))
    with pytest.raises(BuildError, match="does not run: cannot start"):
        _build.toolchain(with_cuda=False)


def test_a_missing_nvcc_names_the_places_searched(
    fresh_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nothing"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    executable(tmp_path / "bin" / "c++", "echo a compiler")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(_build, "_USUAL_CUDA_HOME", str(tmp_path / "usual"))
    with pytest.raises(BuildError) as raised:
        _build.toolchain(with_cuda=True)
    said = str(raised.value)
    assert f"CUDA_HOME={tmp_path}/nothing, CUDA_PATH, the PATH, {tmp_path}/usual" in said
    assert "CUDA 13.0 toolkit" in said


def test_a_broken_nvcc_is_quoted(
    fresh_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvcc = cuda_home(tmp_path, "echo no license today >&2; exit 1")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(BuildError, match=f"{nvcc} does not run: no license today"):
        _build.toolchain(with_cuda=True)


def test_an_nvcc_of_another_major_version_is_refused_with_both(
    fresh_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cuda_home(tmp_path, "echo Cuda compilation tools, release 12.4, V12.4.99")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(BuildError, match=r"is of CUDA 12\.4, this PyTorch .* of CUDA 13\.0"):
        _build.toolchain(with_cuda=True)


def test_a_cache_that_cannot_be_written_names_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDABENCH_CACHE_DIR", "/proc/no-such-folder")
    with pytest.raises(BuildError, match=r"cannot use the build cache .* CUDABENCH_CACHE_DIR"):
        _build.load(Recipe("add2", kernels.SOURCE_FOLDER, HOST_SOURCES), print)


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_cache_that_others_can_write_is_not_loaded_from(
    own_cache: Path, sources: Path, mode: int
) -> None:
    folder = _build.load(Recipe("add2", sources, HOST_SOURCES), print).path.parents[1]
    folder.chmod(mode)
    with pytest.raises(BuildError, match="not yours alone to write"):
        _build.load(Recipe("add2", sources, HOST_SOURCES), print)


def test_a_folder_that_was_there_keeps_its_mode(own_cache: Path, sources: Path) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o777)
    _build.load(Recipe("add2", sources, HOST_SOURCES), print)
    assert own_cache.stat().st_mode & 0o777 == 0o777


def test_a_damaged_library_is_compiled_anew(own_cache: Path, tmp_path: Path, cli: Cli) -> None:
    arguments = ("run", "--n", "1", "--device", "host")
    assert cli(*arguments).returncode == 0
    (library,) = own_cache.glob("*/build/*.so")
    library.write_bytes(b"no library")
    ran = cli(*arguments)
    assert ran.returncode == 0, ran.stderr
    assert "cannot be loaded; it is compiled anew" in ran.stderr


@pytest.mark.parametrize("command", ["env g++", "g++ -O1", "./own/g++", "'./own space/g++' -O1"])
def test_a_compiler_may_be_a_command(tmp_path: Path, cli: Cli, command: str) -> None:
    for folder in ("own", "own space"):
        executable(tmp_path / folder / "g++", 'exec c++ "$@"')
    cache = str(tmp_path / "cache")
    ran = cli("run", "--n", "1", "--device", "host", CXX=command, CUDABENCH_CACHE_DIR=cache)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("says", ["exit 0", "printf '\\351\\n'"])
def test_a_compiler_may_say_nothing_or_no_unicode(
    fresh_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str
) -> None:
    monkeypatch.setenv("CXX", str(executable(tmp_path / "c++", says)))
    assert _build.toolchain(with_cuda=False).cxx in ("", "\ufffd")


def test_a_compiler_that_links_its_own_standard_library(tmp_path: Path, cli: Cli) -> None:
    """Formatting the refusal with a stream crashed there."""
    own = executable(tmp_path / "g++", 'exec c++ "$@" -static-libstdc++')
    code = (
        "import torch\n"
        "from cudabench import runner\n"
        "namespace = runner.open_bench('host', print).library.namespace\n"
        "add2 = getattr(torch.ops, namespace).torch_launch_add2\n"
        "try: add2(torch.zeros(5), torch.zeros(5), None, 5)\n"
        "except ValueError as error: print(error)\n"
    )
    ran = cli(code=code, CXX=str(own), CUDABENCH_CACHE_DIR=str(tmp_path / "cache"))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "got n = 5; c: shape [5], Float, cpu; a: shape [5], Float, cpu; b: und" in ran.stdout


class StuckBuild:
    """A process whose compiler has begun and waits until it is let go; the next one does not."""

    def __init__(self, folder: Path) -> None:
        self._begun, self._go = folder / "begun", folder / "go"
        os.mkfifo(self._begun)
        os.mkfifo(self._go)
        (folder / "stuck").touch()
        real = shutil.which("c++")
        self.compiler = executable(
            folder / "c++",
            f'case "$*" in *" -c "*add2_host*)\n'
            f"if rm {folder}/stuck; then echo >{self._begun}; cat {self._go}; fi;;\n"
            "esac\n"
            f'exec {real} "$@"',
        )
        self.process = self.start()
        with os.fdopen(os.open(self._begun, os.O_RDONLY | os.O_NONBLOCK)) as begun:
            while not select.select([begun], [], [], 1)[0]:
                assert self.process.poll() is None, self.process.communicate()

    def start(self) -> "subprocess.Popen[str]":
        """Start a command that needs what this compiler builds."""
        return subprocess.Popen(
            [sys.executable, "-m", "cudabench", "run", "--n", "1", "--device", "host"],
            cwd=self.compiler.parent,
            env=child_environment(CXX=str(self.compiler)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def let_go(self) -> None:
        self._go.write_text("")


def test_a_killed_build_blocks_nobody(own_cache: Path, tmp_path: Path, cli: Cli) -> None:
    build = StuckBuild(tmp_path)
    build.process.kill()
    build.process.communicate()
    ran = cli("run", "--n", "1", "--device", "host", CXX=str(build.compiler))
    build.let_go()
    assert ran.returncode == 0, ran.stderr
    assert "another process" not in ran.stderr


def test_a_live_build_is_waited_for_and_used(own_cache: Path, tmp_path: Path) -> None:
    build = StuckBuild(tmp_path)
    waiting = build.start()
    assert waiting.stderr
    first_line = waiting.stderr.readline()
    age = re.search(r"another process is compiling it since (\d+) s", first_line)
    assert age
    assert int(age[1]) < 600
    assert str(own_cache) in first_line
    build.let_go()
    assert "compiling" not in waiting.communicate()[1]
    build.process.communicate()
    assert (build.process.returncode, waiting.returncode) == (0, 0)


@pytest.mark.gpu
def test_the_devices_architecture_stands_before_the_variables(
    own_cache: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "5.0")
    capability = torch.cuda.get_device_capability(0)
    library = _build.load(
        Recipe("add2", sources, ("add2.cpp", "add2.cu", "hold.cu"), capability), print
    )
    log = (library.path.parents[1] / "build.log").read_text()
    number = "{}{}".format(*capability)
    assert f"-gencode=arch=compute_{number},code=sm_{number}" in log
    assert "compute_50" not in log
