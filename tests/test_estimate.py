"""The accurate estimate, on the host stream and on CUDA alike."""

import itertools
from dataclasses import replace

import pytest

from cudabench import estimate, pairs, runner, stats
from cudabench.device import CudaDevice, Device, Launch
from cudabench.errors import DeviceError
from cudabench.kernels import ADD_OUT, Buffers
from cudabench.records import L2, Floor, Method, Reading, SmallLaunch, Stop
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule
from tests.conftest import bound_add2

RULE = StoppingRule(precision=0.05, max_time=1.0)


def net(bench: Bench, n: int, floor: Floor) -> float:
    launch, _ = bound_add2(bench, n)
    return read(bench, "add2", n, launch, RULE).estimate(floor).net.value


def read(bench: Bench, name: str, n: int, launch: Launch, rule: StoppingRule) -> Reading:
    gross = estimate.read(bench.device, launch, rule, tuple(bench.small.values()))
    return gross.reading(name, n, 12 * n, L2.WARM, None)


@pytest.fixture
def floor(bench: Bench) -> Floor:
    return estimate.floor(bench.device, bench.small, RULE, L2.WARM)


def test_the_operators_time_grows_with_n(bench: Bench, floor: Floor) -> None:
    small, large = net(bench, 2**20, floor), net(bench, 2**24, floor)
    assert 4 * small < large < 80 * small


def test_the_launch_gap_is_not_in_it(bench: Bench) -> None:
    """However long the host dawdles between the events."""
    launch, _ = bound_add2(bench, 2**16)

    def dawdling() -> None:
        sum(range(100_000))  # a millisecond and more
        launch()

    quick = estimate.read(bench.device, launch, RULE)
    slow = estimate.read(bench.device, dawdling, RULE)
    assert slow.method is Method.HELD
    assert min(slow.seconds) < stats.summarise(quick.seconds).median + 0.2e-3


def test_cold_is_slower_and_the_flush_is_not_charged(bench: Bench) -> None:
    n = (bench.device.properties.l2_bytes or 2**24) // 4 // 12
    launch, _ = bound_add2(bench, n)
    flush = estimate.Flush(bench.device)
    warm = estimate.read(bench.device, launch, RULE).seconds
    cold = estimate.read(bench.device, launch, RULE, before=flush).seconds
    flushed = seconds(bench.device, flush)
    assert stats.summarise(warm).median < stats.summarise(cold).median
    assert stats.summarise(cold).median < stats.summarise(warm).median + flushed


def seconds(device: Device, flush: estimate.Flush) -> float:
    """How long the flush itself takes, by the host's clock."""
    return min(pairs.synchronized(device, flush) for _ in range(5))


def test_the_floor_is_positive_and_below_what_it_was_read_from(floor: Floor) -> None:
    for launch in floor.launches:
        assert 0 < launch.rest <= stats.summarise(launch.gross).median


def test_a_cache_of_unknown_size_cannot_be_emptied(
    host_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = replace(host_bench.device.properties, l2_bytes=None)
    monkeypatch.setattr(host_bench.device, "properties", unknown)
    with pytest.raises(DeviceError, match="Use --l2 warm"):
        estimate.Flush(host_bench.device)


def test_the_floor_is_as_uncertain_as_its_launches_are_apart() -> None:
    small = [
        SmallLaunch("add2", n, (us * 1e-6,) * 10, kernel_seconds=1e-6)
        for n, us in ((1, 3.0), (1024, 3.2))
    ]
    floor = Floor(L2.WARM, tuple(small))
    assert floor.uncertainty == pytest.approx(0.1e-6)
    assert floor.spread == pytest.approx(0.2e-6)
    assert floor.pair_seconds == pytest.approx(2.1e-6)
    beside = (3.1e-6,) * 10
    own = Reading("x", 1, 12, L2.WARM, Method.HELD, (5e-6,) * 10, beside, Stop.TIME).estimate(floor)
    assert own.taken_off.value == pytest.approx(2.1e-6)
    assert (own.net.low, own.net.value, own.net.high) == pytest.approx((2.8e-6, 2.9e-6, 3.0e-6))


def test_what_drifts_under_the_operator_and_the_floor_alike_falls_out() -> None:
    drift = [us * 1e-7 for us in range(10)]
    gross, beside = (tuple(base + d for d in drift) for base in (5e-6, 3e-6))
    floor = Floor(L2.WARM, (SmallLaunch("add2", 1, beside, kernel_seconds=1e-6),))
    own = Reading("x", 1, 12, L2.WARM, Method.HELD, gross, beside, Stop.TIME).estimate(floor)
    assert own.net.value == pytest.approx(3e-6)
    assert own.net.half_width == pytest.approx(0.0, abs=1e-12)


def test_the_smallest_launch_cannot_be_resolved_on_the_host(
    host_bench: Bench,
) -> None:
    smallest, _ = bound_add2(host_bench, 1)
    scattered = tuple(us * 1e-6 for us in range(1, 7))
    floor = Floor(L2.WARM, (SmallLaunch("add2", 1, scattered, kernel_seconds=0.0),))
    found = read(host_bench, "add2", 1, smallest, RULE).estimate(floor)
    assert not found.resolved
    assert found.bandwidth is None
    assert found.bound >= floor.spread


def test_the_budget_ends_what_does_not_settle(host_bench: Bench) -> None:
    values = itertools.cycle([1.0, 2.0])
    samples, stop = estimate._sampled(lambda: (next(values), 0.0), StoppingRule(0.01, 0.05))
    assert stop is Stop.TIME
    assert len(samples) >= 10


@pytest.fixture
def cuda() -> CudaDevice:
    device = runner.open_bench("cuda", print).device
    assert isinstance(device, CudaDevice)
    return device


@pytest.mark.gpu
def test_the_estimate_agrees_with_cupti(cuda: CudaDevice) -> None:
    bench = runner.open_bench("cuda", print)
    rule = StoppingRule()
    launch = ADD_OUT.bind(bench.library, Buffers.random(bench.device, 2**24))
    reading = read(bench, "torch.add(out=)", 2**24, launch, rule)
    (floor,) = runner.floors(bench, [reading], rule)
    (times,) = estimate.kernel_seconds(cuda, (launch,))
    cupti = stats.summarise(times).median
    assert reading.estimate(floor).net.value == pytest.approx(cupti, rel=0.03)


@pytest.mark.gpu
def test_cupti_counts_all_kernels_of_a_run_and_none_of_what_comes_before(
    cuda: CudaDevice,
) -> None:
    launch, _ = bound_add2(runner.open_bench("cuda", print), 2**20)

    def twice() -> None:
        launch()
        launch()

    flush = estimate.Flush(cuda)
    once, two = estimate.kernel_seconds(cuda, (launch, twice))
    (cold,) = estimate.kernel_seconds(cuda, (launch,), flush)
    assert stats.summarise(two).median == pytest.approx(2 * stats.summarise(once).median, rel=0.1)
    assert stats.summarise(once).median < stats.summarise(cold).median < 20e-6
