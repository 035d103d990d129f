"""The accurate estimate, on the host stream and on CUDA alike."""

import itertools

import pytest

from cudabench import estimate, stats
from cudabench.device import Device
from cudabench.kernels import ADD_OUT, Buffers
from cudabench.records import L2, Floor, Method, Reading, Stop
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule
from tests.conftest import bound_add2

RULE = StoppingRule(precision=0.05, max_time=1.0)


def net(bench: Bench, n: int, floor: Floor) -> float:
    launch, _ = bound_add2(bench, n)
    gross, stop, method = estimate.read(bench.device, launch, RULE)
    return Reading("add2", n, 12 * n, L2.WARM, method, gross, stop).estimate(floor).net.value


@pytest.fixture
def floor(bench: Bench) -> Floor:
    smallest, _ = bound_add2(bench, 1)
    return estimate.floor(bench.device, smallest, RULE)


def test_the_operators_time_grows_with_n(bench: Bench, floor: Floor) -> None:
    small, large = net(bench, 2**20, floor), net(bench, 2**24, floor)
    assert 4 * small < large < 80 * small


def test_the_launch_gap_is_not_in_it(bench: Bench) -> None:
    """However long the host dawdles between the events."""
    launch, _ = bound_add2(bench, 2**16)

    def dawdling() -> None:
        sum(range(100_000))  # a millisecond and more
        launch()

    quick, _, _ = estimate.read(bench.device, launch, RULE)
    slow, _, method = estimate.read(bench.device, dawdling, RULE)
    assert method is Method.HELD
    assert stats.summarise(slow).minimum < stats.summarise(quick).median + 0.2e-3


def test_an_operator_that_waits_for_its_stream_is_timed_another_way(bench: Bench) -> None:
    launch, _ = bound_add2(bench, 2**16)

    def waiting() -> None:
        launch()
        bench.device.synchronize()

    gross, _, method = estimate.read(bench.device, waiting, RULE)
    assert method is Method.EVENTS
    assert min(gross) > 0


def test_cold_is_slower_and_the_flush_is_not_charged(bench: Bench) -> None:
    n = (bench.device.properties.l2_bytes or 2**24) // 4 // 12
    launch, _ = bound_add2(bench, n)
    flush = estimate.Flush(bench.device)
    warm, _, _ = estimate.read(bench.device, launch, RULE)
    cold, _, _ = estimate.read(bench.device, launch, RULE, flush)
    flushed = seconds(bench.device, flush)
    assert stats.summarise(warm).median < stats.summarise(cold).median
    assert stats.summarise(cold).median < stats.summarise(warm).median + flushed


def seconds(device: Device, flush: estimate.Flush) -> float:
    """How long the flush itself takes, by the host's clock."""

    def launch() -> None:
        flush()
        device.synchronize()

    gross, _, _ = estimate.read_in_caller(launch, RULE)
    return stats.summarise(gross).median


def test_only_on_the_host_do_pytorchs_operators_run_in_the_caller(bench: Bench) -> None:
    buffers = Buffers.random(bench.device, 1000)
    launch = ADD_OUT.bind(bench.library, buffers)
    on_host = bench.device.properties.kind == "host"
    assert estimate.runs_in_caller(bench.device, launch, buffers.c) == on_host
    launch, buffers = bound_add2(bench, 1000)
    assert not estimate.runs_in_caller(bench.device, launch, buffers.c)


def test_the_floor_is_positive_and_below_what_it_was_read_from(floor: Floor) -> None:
    assert 0 < floor.interval.value <= stats.summarise(floor.gross).median


def test_the_smallest_launch_cannot_be_resolved_on_the_host(
    host_bench: Bench,
) -> None:
    smallest, _ = bound_add2(host_bench, 1)
    scattered = tuple(us * 1e-6 for us in range(1, 7))
    floor = Floor(L2.WARM, scattered, kernel_seconds=0.0, pair_seconds=0.0)
    gross, stop, method = estimate.read(host_bench.device, smallest, RULE)
    found = Reading("add2", 1, 12, L2.WARM, method, gross, stop).estimate(floor)
    assert not found.resolved
    assert found.bandwidth is None
    assert found.bound >= floor.spread


def test_the_budget_ends_what_does_not_settle(host_bench: Bench) -> None:
    values = itertools.cycle([1.0, 2.0])
    samples, stop = estimate._sampled(lambda: next(values), StoppingRule(0.01, 0.05))
    assert stop is Stop.TIME
    assert len(samples) >= 10


@pytest.mark.gpu
def test_the_estimate_agrees_with_cupti() -> None:
    from cudabench import runner

    bench = runner.open_bench("cuda", print)
    rule = StoppingRule()
    launch = ADD_OUT.bind(bench.library, Buffers.random(bench.device, 2**24))
    gross, stop, method = estimate.read(bench.device, launch, rule)
    reading = Reading("torch.add(out=)", 2**24, 12 * 2**24, L2.WARM, method, gross, stop)
    (floor,) = runner.floors(bench, [reading], rule)
    cupti = estimate.profiled_seconds(bench.device, launch)
    assert reading.estimate(floor).net.value == pytest.approx(cupti, rel=0.03)
