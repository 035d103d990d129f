"""Fixtures: the host stream and, where there is one, the CUDA device; the real command line."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from cudabench import runner
from cudabench.device import HostDevice
from cudabench.kernels import ADD2, Buffers, Launch
from cudabench.runner import Bench

# Longer than any test needs; a hold ends with its block.
HOLD_SECONDS = 30.0

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session", autouse=True)
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compile for this run, not from the user's cache; commands that tests start share it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDABENCH_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def host_bench(build_cache: Path) -> Bench:
    return runner.open_bench("host", print)


@pytest.fixture(scope="session", params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def bench(request: pytest.FixtureRequest, build_cache: Path) -> Bench:
    """The host stream, and the CUDA device where there is one: what holds for both."""
    opened = runner.open_bench(request.param, print)
    # The first launch loads the kernel, and CUDA may wait for the device to do that.
    launch, _ = bound_add2(opened, 1)
    launch()
    opened.device.synchronize()
    return opened


@pytest.fixture
def host(host_bench: Bench) -> HostDevice:
    assert isinstance(host_bench.device, HostDevice)
    return host_bench.device


def bound_add2(bench: Bench, n: int) -> tuple[Launch, Buffers]:
    buffers = Buffers.random(bench.device, n)
    return ADD2.bind(bench.library, buffers), buffers


def child_environment(**changes: str) -> dict[str, str]:
    """The environment of a command that a test starts elsewhere: it finds the checkout."""
    path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **changes}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `cudabench` with the arguments in a new process and folder; return what it printed."""

    def run(
        *arguments: str, code: str | None = None, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        entry = ["-c", code] if code else ["-m", "cudabench"]
        return subprocess.run(
            [sys.executable, *entry, *arguments],
            cwd=tmp_path,
            env=child_environment(**env),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    return run
