"""Where an operator's work runs, which settles how it can be timed.

Work on the current stream waits while that stream is held; whatever else an operator does shows in
that it does not: it runs in the calling thread, launches on another stream, or waits for its own
stream and so for the hold's limit.
"""

import math

from cudabench.device import Device, Launch
from cudabench.pairs import HOLD_LIMIT, behind_hold, nothing, synchronized
from cudabench.records import Method

# So many seconds' launches stand between a pair of events, but 5 to 50 of them; of an operator
# that takes longer than that, one.
_ENOUGH = 1e-3
_FEWEST, _MOST = 5, 50
_LONG = 20e-3
# A pair around launches that are not on the stream reads what an empty pair does. On an H200 that
# is 1.25 us, and 3.1 us and more where a single element is added.
_EMPTY = 2.0
_TRIES = 3


def method_of(device: Device, launch: Launch) -> Method:
    """Return how `launch` is to be timed.

    Args:
        device: Where the operator is meant to run; its context must be the current one.
        launch: Queues one run. It is run some twenty to two hundred times.
    """
    launch()  # may compile or load a module, for which some wait for the device
    device.synchronize()
    once = min(synchronized(device, launch) for _ in range(_TRIES))
    count = 1 if once > _LONG else min(max(_FEWEST, math.ceil(_ENOUGH / once)), _MOST)
    limit = HOLD_LIMIT + 2 * count * once
    if device.queued() is not None and not _queues(device, launch):
        return Method.CALLER
    # Many launches may be more than a stream has room for; one that does not fit waits for it.
    spans = _unexpired(device, launch, count, limit) or _unexpired(device, launch, 1, limit)
    if not spans:
        return Method.EVENTS
    empty = min(behind_hold(device, nothing, limit=limit)[0] for _ in range(_TRIES))
    if device.queued() is None and min(spans) <= _EMPTY * empty:
        return Method.ELSEWHERE
    return Method.HELD


def _unexpired(device: Device, launch: Launch, count: int, limit: float) -> list[float]:
    """Return the spans of the tries whose hold did not expire."""
    tries = [behind_hold(device, launch, count, limit=limit) for _ in range(_TRIES)]
    return [span for span, expired in tries if not expired]


def _queues(device: Device, launch: Launch) -> bool:
    """Return whether a launch queues anything, on a stream that counts."""
    before = device.queued()
    launch()
    return device.queued() != before
