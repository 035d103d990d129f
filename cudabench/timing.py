"""The experiment: one launch, with or without a synchronize before and after, on each clock.

Every iteration has one order:

    [backlog]  [first synchronize]  start  launch  [second synchronize]  end

An event pair is recorded around the launch alone: its end is queued before the second
synchronize, which is there so that the pair can be read.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cudabench.device import Device, Event, Launch
from cudabench.errors import EventNotReadyError
from cudabench.pairs import nothing
from cudabench.ranges import BACKLOG, FIRST_SYNC, LAUNCH, NO_RANGES, SECOND_SYNC, NoRanges, Step
from cudabench.records import Clock, Loop, Mode, Sample

BACKLOG_LAUNCHES = 10

# What reads a host clock, and the seconds in one of its units.
_HOST_CLOCKS: dict[Clock, tuple[Callable[[], float], float]] = {
    Clock.TIME: (time.time, 1.0),
    Clock.PERF_COUNTER: (time.perf_counter_ns, 1e-9),
}


def backlog_of(launch: Launch) -> Callable[[], None]:
    """Return a function that queues the launches of a backlog, unsynchronized."""

    def queue_backlog() -> None:
        for _ in range(BACKLOG_LAUNCHES):
            launch()

    return queue_backlog


def backlog_seconds(device: Device, queue_backlog: Callable[[], None]) -> float:
    """Return how long the device still works once the backlog is queued: the median of five.

    Where the host launches more slowly than the device runs, that is next to nothing, however
    many launches there are.
    """

    def once() -> float:
        device.synchronize()
        queue_backlog()
        queued = time.perf_counter_ns()
        device.synchronize()
        return (time.perf_counter_ns() - queued) * 1e-9

    with device.current():
        once()  # loads the kernel
        return statistics.median(once() for _ in range(5))


def measure(
    device: Device,
    launch: Launch,
    mode: Mode,
    clock: Clock,
    loop: Loop,
    queue_backlog: Callable[[], None] = nothing,
    ranges: NoRanges = NO_RANGES,
) -> tuple[Sample, ...]:
    """Return the raw samples of one mode on one clock, in seconds, in the order taken.

    The queue is empty when it returns, so that the next mode starts with none of this one's
    work. The warm-up calls are not waited for: the first synchronize is there for such work.

    Args:
        device: Where the work is queued.
        launch: Queues one run of the operator and returns.
        mode: Which of the two synchronizes each iteration has.
        clock: What reads the time.
        loop: How many iterations.
        queue_backlog: Queues unsynchronized work before each iteration.
        ranges: Tells a profiler of each iteration and its steps.
    """
    steps = _Steps.of(device, launch, queue_backlog, ranges)
    with device.current(), without_collector():
        pairs = [] if clock.on_host else _event_pairs(device, loop.iterations)
        for _ in range(loop.warmup):
            launch()
        if clock.on_host:
            samples = _on_host_clock(steps, mode, clock, loop)
        else:
            samples = _on_events(device, steps, mode, pairs)
        device.synchronize()
    return samples


@dataclass(frozen=True)
class _Steps:
    """The steps of an iteration, each with a name where a profiler is told."""

    iterations: Callable[[int], Iterable[int]]
    backlog: Step
    first_sync: Step
    launch: Step
    second_sync: Step

    @classmethod
    def of(cls, device: Device, launch: Launch, queue_backlog: Step, ranges: NoRanges) -> "_Steps":
        return cls(
            ranges.iterations,
            nothing if queue_backlog is nothing else ranges.around(BACKLOG, queue_backlog),
            ranges.around(FIRST_SYNC, device.synchronize),
            ranges.around(LAUNCH, launch),
            ranges.around(SECOND_SYNC, device.synchronize),
        )


def _on_host_clock(steps: _Steps, mode: Mode, clock: Clock, loop: Loop) -> tuple[Sample, ...]:
    now, unit = _HOST_CLOCKS[clock]
    launch, second_sync = steps.launch, steps.second_sync
    taken = []
    for _ in steps.iterations(loop.iterations):
        steps.backlog()
        queued = now()
        if mode.first_sync:
            steps.first_sync()
        start = now()
        launch()
        launched = end = now()
        if mode.second_sync:
            second_sync()
            end = now()
        taken.append((queued, start, launched, end))
    began = taken[0][1]
    return tuple(
        Sample(
            seconds=(end - start) * unit,
            launch_seconds=(launched - start) * unit,
            waited_seconds=(start - queued) * unit if mode.first_sync else 0.0,
            start_seconds=(start - began) * unit,
        )
        for queued, start, launched, end in taken
    )


def _event_pairs(device: Device, count: int) -> list[tuple[Event, Event]]:
    pairs = [(device.event(), device.event()) for _ in range(count)]
    device.synchronize()  # making them may queue work
    return pairs


def _on_events(
    device: Device, steps: _Steps, mode: Mode, pairs: Sequence[tuple[Event, Event]]
) -> tuple[Sample, ...]:
    launch = steps.launch
    ready, taken = [], []
    for i in steps.iterations(len(pairs)):
        start, end = pairs[i]
        steps.backlog()
        queued = time.perf_counter_ns()
        if mode.first_sync:
            steps.first_sync()
        waited = time.perf_counter_ns()
        start.record()
        begun = time.perf_counter_ns()
        launch()
        launched = time.perf_counter_ns()
        end.record()
        if mode.second_sync:
            steps.second_sync()
        ready.append(_readable(start, end))
        taken.append((queued, waited, begun, launched))
    device.synchronize()
    began = taken[0][2]
    return tuple(
        Sample(
            seconds=end.seconds_since(start),
            launch_seconds=(launched - begun) * 1e-9,
            waited_seconds=(waited - queued) * 1e-9 if mode.first_sync else 0.0,
            start_seconds=(begun - began) * 1e-9,
            ready=was_ready,
        )
        for (start, end), (queued, waited, begun, launched), was_ready in zip(
            pairs, taken, ready, strict=True
        )
    )


def _readable(start: Event, end: Event) -> bool:
    """Read the pair at once, as the article's reader would, and say whether that worked."""
    try:
        end.seconds_since(start)
    except EventNotReadyError:
        return False
    return True


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's garbage collector out of the timed regions, as timeit does."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
