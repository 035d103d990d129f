"""The call from Python, and what is public."""

import subprocess
import sys
import warnings

import pytest
import torch

import cudabench
from cudabench import api
from cudabench.errors import BadInputError
from cudabench.kernels import ADD2_DEFAULT_STREAM, Buffers
from cudabench.records import Method
from cudabench.runner import Bench
from tests.conftest import bound_add2, child_environment


def test_the_public_names() -> None:
    assert sorted(cudabench.__all__) == [
        *("Estimate", "MeasurementWarning", "__version__", "measure"),
    ]
    assert all(hasattr(cudabench, name) for name in cudabench.__all__)
    assert not hasattr(cudabench, "nonsense")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, cudabench; print([m for m in ('torch', 'pandas') if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=child_environment(),
    )
    assert ran.stdout == "[]\n"


def spec(bench: Bench) -> str:
    return bench.device.properties.kind


@pytest.mark.parametrize("l2", ["warm", "cold"])
def test_an_operator_is_measured(bench: Bench, l2: str) -> None:
    n = 2**18
    launch, buffers = bound_add2(bench, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cudabench.measure(
            launch, device=spec(bench), l2=l2, bytes_moved=12 * n, max_time=0.5
        )
    assert found.reading.method is Method.HELD
    assert found.resolved
    assert found.net.low <= found.net.value <= found.net.high
    assert found.bandwidth == pytest.approx(12 * n / found.net.value)
    assert torch.equal(buffers.c, buffers.a + buffers.b)


def test_without_the_bytes_there_is_no_bandwidth(bench: Bench) -> None:
    launch, _ = bound_add2(bench, 2**18)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cudabench.measure(launch, device=spec(bench), max_time=0.1).bandwidth is None


def test_what_is_doubtful_is_warned_of(bench: Bench) -> None:
    launch, _ = bound_add2(bench, 2**16)

    def waiting() -> None:
        launch()
        bench.device.synchronize()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cudabench.measure(waiting, device=spec(bench), max_time=0.1)
    said = [str(w.message) for w in caught if w.category is cudabench.MeasurementWarning]
    assert any(text.startswith("waiting, warm L2: its stream could not be held") for text in said)


@pytest.mark.parametrize(("name", "value"), [("l2", "hot"), ("l2", "backlog"), ("device", "tpu")])
def test_bad_arguments_are_refused(bench: Bench, name: str, value: str) -> None:
    with pytest.raises((ValueError, BadInputError)):
        cudabench.measure(lambda: None, **{"device": spec(bench), name: value})  # type: ignore[arg-type]


@pytest.mark.gpu
def test_the_wrong_stream_is_named() -> None:
    bench = api._bench("cuda")
    launch = ADD2_DEFAULT_STREAM.bind(bench.library, Buffers.random(bench.device, 2**20))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = cudabench.measure(launch, device="cuda", max_time=0.2)
    assert any("WRONG STREAM" in str(w.message) for w in caught)
    assert found.reading.method is Method.ELSEWHERE
    assert not found.resolved
    assert found.bound > 3e-6


def test_the_callers_random_numbers_are_not_touched(bench: Bench) -> None:
    launch, _ = bound_add2(bench, 1024)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cudabench.measure(launch, device=spec(bench), max_time=0.1)
    assert torch.equal(torch.rand(3), expected)
