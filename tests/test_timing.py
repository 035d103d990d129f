"""The relations that the article is about, on the host stream and on CUDA alike."""

import gc

import pytest

from cudabench import runner, timing
from cudabench.pairs import nothing
from cudabench.records import BOTH, FIRST_ONLY, MODES, NEITHER, SECOND_ONLY, Clock, Loop, Mode
from cudabench.runner import Bench
from tests.conftest import bound_add2

SMALL, LARGE = 2**10, 2**24
HOST_CLOCKS = (Clock.TIME, Clock.PERF_COUNTER)


def median(bench: Bench, n: int, mode: Mode, clock: Clock, backlog: bool = False) -> float:
    launch, _ = bound_add2(bench, n)
    queue = timing.backlog_of(launch) if backlog else nothing
    samples = timing.measure(bench.device, launch, mode, clock, Loop(), queue)
    return sorted(sample.seconds for sample in samples)[5]


class Log:
    """A device, a launch and clocks that write down the order in which they are used."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.device = bench.device
        monkeypatch.setattr(self.device, "synchronize", lambda: self.calls.append("synchronize"))
        monkeypatch.setitem(timing._HOST_CLOCKS, Clock.TIME, (self.clock, 1.0))

    def clock(self) -> float:
        self.calls.append("clock")
        return float(len(self.calls))

    def launch(self) -> None:
        self.calls.append("launch")

    def backlog(self) -> None:
        self.calls.append("backlog")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_an_iteration_has_the_articles_order(
    host_bench: Bench, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    log = Log(host_bench, monkeypatch)
    samples = timing.measure(
        log.device, log.launch, mode, Clock.TIME, Loop(iterations=2, warmup=3), log.backlog
    )
    first = ["synchronize"] if mode.first_sync else []
    second = ["synchronize", "clock"] if mode.second_sync else []
    iteration = ["backlog", "clock", *first, "clock", "launch", "clock", *second]
    # Warm-up calls are bare; the last synchronize drains the queue for the next mode.
    assert log.calls == ["launch"] * 3 + iteration * 2 + ["synchronize"]
    assert [s.seconds for s in samples] == [len(second) + 2.0] * 2
    assert [s.launch_seconds for s in samples] == [2.0] * 2
    assert [s.waited_seconds for s in samples] == [2.0 if mode.first_sync else 0.0] * 2
    assert [s.start_seconds for s in samples] == [0.0, len(iteration)]


def test_the_collector_rests_and_resumes(host_bench: Bench) -> None:
    seen = []
    timing.measure(
        host_bench.device, lambda: seen.append(gc.isenabled()), BOTH, Clock.TIME, Loop(1, 0)
    )
    assert seen == [False]
    assert gc.isenabled()


def test_a_failing_launch_leaves_the_collector_on(host_bench: Bench) -> None:
    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        timing.measure(host_bench.device, fail, BOTH, Clock.TIME, Loop())
    assert gc.isenabled()


@pytest.mark.parametrize("clock", HOST_CLOCKS)
def test_without_the_second_synchronize_the_operator_is_not_seen(
    bench: Bench, clock: Clock
) -> None:
    both = median(bench, LARGE, BOTH, clock)
    for mode in (FIRST_ONLY, NEITHER):
        assert median(bench, LARGE, mode, clock) < both / 5


def test_without_the_second_synchronize_the_time_does_not_grow_with_n(bench: Bench) -> None:
    clock = Clock.PERF_COUNTER
    operator = median(bench, LARGE, BOTH, clock) - median(bench, SMALL, BOTH, clock)
    for mode in (FIRST_ONLY, NEITHER):
        growth = median(bench, LARGE, mode, clock) - median(bench, SMALL, mode, clock)
        assert growth < operator / 10


@pytest.mark.parametrize("clock", HOST_CLOCKS)
def test_without_the_first_synchronize_the_backlog_is_charged(bench: Bench, clock: Clock) -> None:
    both = median(bench, LARGE, BOTH, clock, backlog=True)
    assert median(bench, LARGE, SECOND_ONLY, clock, backlog=True) > 5 * both


def test_events_without_the_second_synchronize_are_not_ready(bench: Bench) -> None:
    launch, _ = bound_add2(bench, LARGE)
    for mode in (FIRST_ONLY, NEITHER):
        samples = timing.measure(bench.device, launch, mode, Clock.EVENT, Loop())
        assert sum(not sample.ready for sample in samples) >= 9
        assert all(sample.seconds > 0 for sample in samples)


def test_events_with_the_second_synchronize_are_ready(bench: Bench) -> None:
    launch, _ = bound_add2(bench, LARGE)
    for mode in (BOTH, SECOND_ONLY):
        samples = timing.measure(bench.device, launch, mode, Clock.EVENT, Loop())
        assert all(sample.ready for sample in samples)


def test_events_do_not_charge_the_backlog(bench: Bench) -> None:
    both = median(bench, LARGE, BOTH, Clock.EVENT)
    assert median(bench, LARGE, SECOND_ONLY, Clock.EVENT, backlog=True) < 3 * both


def test_a_mode_leaves_an_empty_queue(bench: Bench) -> None:
    launch, _ = bound_add2(bench, LARGE)
    last = bench.device.event()

    def launch_and_mark() -> None:
        launch()
        last.record()

    timing.measure(bench.device, launch_and_mark, NEITHER, Clock.TIME, Loop())
    assert last.complete()


@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_a_backlog_outlasts_the_operator(bench: Bench, n: int) -> None:
    """Also where one launch is over before the next is queued: its buffers are then larger."""
    launch, _ = bound_add2(bench, n)
    backlog, queue = runner._backlog(bench, n, launch)
    operator = median(bench, n, BOTH, Clock.PERF_COUNTER)
    assert backlog.n >= n
    assert backlog.seconds > operator
    assert timing.backlog_seconds(bench.device, queue) > operator
