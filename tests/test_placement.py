"""Where an operator's work runs is seen from outside."""

import itertools

import pytest
import torch

from cudabench import estimate, placement
from cudabench.device import Launch
from cudabench.kernels import ADD2_DEFAULT_STREAM, ADD_OUT, Buffers
from cudabench.records import Method
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule
from tests.conftest import bound_add2

RULE = StoppingRule(precision=0.05, max_time=0.5)
SIZES = [1, 1000, 2**20]


def method_of(bench: Bench, launch: Launch) -> Method:
    with bench.device.current():
        return placement.method_of(bench.device, launch)


@pytest.mark.parametrize("n", SIZES)
def test_work_on_the_stream(bench: Bench, n: int) -> None:
    launch, _ = bound_add2(bench, n)
    assert method_of(bench, launch) is Method.HELD


@pytest.mark.parametrize("n", SIZES)
def test_only_on_the_host_do_pytorchs_operators_run_in_the_caller(bench: Bench, n: int) -> None:
    launch = ADD_OUT.bind(bench.library, Buffers.random(bench.device, n))
    on_host = bench.device.properties.kind == "host"
    assert method_of(bench, launch) is (Method.CALLER if on_host else Method.HELD)


def test_an_operator_that_waits_for_its_stream(bench: Bench) -> None:
    launch, _ = bound_add2(bench, 2**16)

    def waiting() -> None:
        launch()
        bench.device.synchronize()

    gross = estimate.read(bench.device, waiting, RULE)
    assert gross.method is Method.EVENTS
    assert min(gross.seconds) > 0


def test_an_operator_that_begins_to_wait_later(bench: Bench) -> None:
    """Not seen at first; the holds that expire tell."""
    launch, _ = bound_add2(bench, 2**16)
    calls = itertools.count()

    def later_waiting() -> None:
        launch()
        if next(calls) > 200:
            bench.device.synchronize()

    endless = StoppingRule(precision=1e-9, max_time=0.5)
    assert estimate.read(bench.device, later_waiting, endless).method is Method.EVENTS


def test_an_operator_of_many_launches(bench: Bench) -> None:
    """Five of it are more than a stream has room for; one is not."""
    launch, _ = bound_add2(bench, 64)

    def many() -> None:
        for _ in range(300):
            launch()

    assert method_of(bench, many) is Method.HELD


@pytest.mark.gpu
@pytest.mark.parametrize("n", SIZES)
def test_the_articles_launcher_is_on_the_wrong_stream(n: int) -> None:
    from cudabench import runner

    bench = runner.open_bench("cuda", print)
    buffers = Buffers.random(bench.device, n)
    launch = ADD2_DEFAULT_STREAM.bind(bench.library, buffers)
    gross = estimate.read(bench.device, launch, RULE)
    assert gross.method is Method.ELSEWHERE
    assert min(gross.seconds) > 1e-6
    assert torch.equal(buffers.c, buffers.a + buffers.b)


@pytest.mark.gpu
def test_a_stream_of_its_own_is_the_wrong_one() -> None:
    from cudabench import runner

    bench = runner.open_bench("cuda", print)
    launch, _ = bound_add2(bench, 2**20)
    own = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def elsewhere() -> None:
        with torch.cuda.stream(own):
            launch()

    assert method_of(bench, elsewhere) is Method.ELSEWHERE
