"""The experiment: one launch, with or without a synchronize before and after, on each clock.

Every iteration has one order:

    [backlog]  [first synchronize]  start  launch  [second synchronize]  end

An event pair is recorded around the launch alone: its end is queued before the second
synchronize, which is there so that the pair can be read.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cudabench.device import Device, Event, Launch
from cudabench.errors import EventNotReadyError
from cudabench.pairs import nothing
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
    """
    with device.current(), without_collector():
        if clock.on_host:
            samples = _on_host_clock(device, launch, mode, clock, loop, queue_backlog)
        else:
            samples = _on_events(device, launch, mode, loop, queue_backlog)
        device.synchronize()
    return samples


def _on_host_clock(
    device: Device,
    launch: Launch,
    mode: Mode,
    clock: Clock,
    loop: Loop,
    queue_backlog: Callable[[], None],
) -> tuple[Sample, ...]:
    now, unit = _HOST_CLOCKS[clock]
    taken = []
    for _ in range(loop.warmup):
        launch()
    for _ in range(loop.iterations):
        queue_backlog()
        queued = now()
        if mode.first_sync:
            device.synchronize()
        start = now()
        launch()
        launched = end = now()
        if mode.second_sync:
            device.synchronize()
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


def _on_events(
    device: Device,
    launch: Launch,
    mode: Mode,
    loop: Loop,
    queue_backlog: Callable[[], None],
) -> tuple[Sample, ...]:
    pairs = [(device.event(), device.event()) for _ in range(loop.iterations)]
    ready, taken = [], []
    device.synchronize()
    for _ in range(loop.warmup):
        launch()
    for start, end in pairs:
        queue_backlog()
        queued = time.perf_counter_ns()
        if mode.first_sync:
            device.synchronize()
        waited = time.perf_counter_ns()
        start.record()
        begun = time.perf_counter_ns()
        launch()
        launched = time.perf_counter_ns()
        end.record()
        if mode.second_sync:
            device.synchronize()
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
