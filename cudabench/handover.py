"""How long the way from host to device takes, and the way back.

Neither clock sees both ends of it, so work that stamps its own start and end goes that way.
"""

import statistics
import time

import torch

from cudabench.device import Device, Launch
from cudabench.estimate import pairs as held_pairs
from cudabench.records import HandOver
from cudabench.timing import without_collector

_HAND_OVERS = 50


def measure(device: Device, stamp: Launch, stamps: torch.Tensor) -> HandOver:
    """Return how long the way to an idle stream and back takes, from work that stamps itself.

    Args:
        device: Where.
        stamp: Queues a stamp (kernels/stamp.h).
        stamps: Where it writes its start and its end: int64 of shape [2] on the device.
    """
    with device.current(), without_collector():
        stamp()
        device.synchronize()
        offset = device.stamp_offset()
        starts, ends, works = zip(
            *(_stamped(device, stamp, stamps, offset) for _ in range(_HAND_OVERS)), strict=True
        )
        pairs, launches = zip(*(_idle_pair(device, stamp) for _ in range(_HAND_OVERS)), strict=True)
        held = statistics.median(held_pairs(device, stamp))
    return HandOver(
        start=statistics.median(starts),
        work=statistics.median(works),
        end=statistics.median(ends),
        pair=held,
        gap=statistics.median(pairs) - held,
        gap_launch=statistics.median(launches),
    )


def _stamped(
    device: Device, stamp: Launch, stamps: torch.Tensor, offset: int
) -> tuple[float, float, float]:
    """Return seconds from launch to start, from end to return, and from start to end."""
    device.synchronize()
    stamp()
    launched = time.perf_counter_ns()
    device.synchronize()
    returned = time.perf_counter_ns()
    started, ended = stamps.tolist()
    start, end = started - offset - launched, returned - (ended - offset)
    return start * 1e-9, end * 1e-9, (ended - started) * 1e-9


def _idle_pair(device: Device, stamp: Launch) -> tuple[float, float]:
    """Return what an event pair reads on an idle stream, and how long the launch in it took."""
    start, end = device.event(), device.event()
    device.synchronize()
    start.record()
    begun = time.perf_counter_ns()
    stamp()
    launched = time.perf_counter_ns()
    end.record()
    device.synchronize()
    return end.seconds_since(start), (launched - begun) * 1e-9
