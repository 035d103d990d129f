"""One reading of launches: an event pair behind a held stream, or a clock around them."""

import time
from collections.abc import Callable

from cudabench.device import Device, Launch

# Longer than the host takes to queue one launch, short enough to find out that an operator waits
# for its own stream.
HOLD_LIMIT = 0.25

# Queues what comes before a launch and is not timed.
Before = Callable[[], object]


def nothing() -> None:
    """Queue nothing."""


def behind_hold(
    device: Device,
    launch: Launch,
    count: int = 1,
    before: Before | None = None,
    limit: float = HOLD_LIMIT,
) -> tuple[float, bool]:
    """Return what an event pair around `count` launches reads, in seconds, behind a held stream.

    With it comes whether the hold expired: the pair then holds launch gaps.

    Args:
        device: Where; its context must be the current one.
        launch: Queues one run.
        count: How many runs stand between the two events.
        before: Queued once, before the first event.
        limit: After how many seconds the hold ends by itself.
    """
    start, end = device.event(), device.event()
    with device.held(limit) as hold:
        if before:
            before()
        start.record()
        for _ in range(count):
            launch()
        end.record()
    device.synchronize()
    return end.seconds_since(start), hold.expired()


def called(launch: Launch, count: int = 1) -> float:
    """Return the seconds that `count` launch calls take, by the host's clock."""
    start = time.perf_counter_ns()
    for _ in range(count):
        launch()
    return (time.perf_counter_ns() - start) * 1e-9


def synchronized(device: Device, launch: Launch) -> float:
    """Return the seconds from a launch call to the return of a synchronize of the device."""
    start = time.perf_counter_ns()
    launch()
    device.synchronize()
    return (time.perf_counter_ns() - start) * 1e-9
