"""The accurate estimate: an event pair behind a held stream, less a calibrated floor.

An event pair around a launch on an idle stream holds the gap in which the stream waits for the
host. Here the stream is held while the host queues the pair and the launch, and let go once all
three are there, as NVBench does (`detail/measure_cold.cuh`). What the pair then reads beyond the
operator, its floor, is the device's own handling of a launch between two events; the smallest
launch of add2, measured in the same way, shows it.

add2 and not an empty kernel: a kernel that has written something is followed by a flush that one
which has not is spared. On an H200 the pair read 2.10 us more than CUPTI did for an empty kernel,
and 2.21 to 2.30 us more for every `torch.add` from n = 2^10 to 2^22.

The readings of one kernel lie on a grid of about 0.16 us, whatever it really takes, and where the
floor and an operator lie on it changes from process to process. So each warm sample is the mean of
pairs that also hold a pause, of another length in each: over these the grid averages out, and the
pauses, which are the same for the floor, fall out with it. Cold pairs hold no pause: with one,
some operators read 1.0 us more than CUPTI did and others not. docs/estimate.md has the figures.
"""

import math
import statistics
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from cudabench import stats
from cudabench.device import Device, Launch
from cudabench.errors import DeviceError
from cudabench.records import L2, Floor, Method, Stop
from cudabench.stopping import StoppingRule

# Longer than the host takes to queue one launch, short enough to find out that an operator waits
# for its own stream.
_HOLD_LIMIT = 0.25
_ROUND = 10
_WARM_UP_WINDOW = 6
# How many pairs a sample of an operator below and above so many seconds is the mean of.
_SHORT = 30e-6
_MANY_PAIRS, _FEW_PAIRS = 32, 4
_PAIRS = 64
_STEADY = 0.01
_FLUSH_RATIO = 2  # times the cache's size
_PROFILED_LAUNCHES = 50


class HoldExpiredError(Exception):
    """The hold's limit ended it: what was queued behind it waited for the stream."""


class Flush:
    """Overwrites a buffer of twice the cache's size, so that nothing else stays in the cache."""

    def __init__(self, device: Device) -> None:
        size = _FLUSH_RATIO * (device.properties.l2_bytes or 0)
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device.torch_device)

    def __call__(self) -> None:
        """Queue it."""
        self._buffer.zero_()


def read(
    device: Device, launch: Launch, rule: StoppingRule, flush: Flush | None = None
) -> tuple[tuple[float, ...], Stop, Method]:
    """Return the gross samples of an operator in seconds, why so many, and how they were taken.

    An operator that synchronizes inside itself outlasts the hold. It is then timed by event pairs
    alone, which hold its launch gaps.

    Args:
        device: Where the operator runs.
        launch: Queues one run.
        rule: When to stop.
        flush: Empties the cache before each run, outside the timed span; None leaves it warm.
    """
    with device.current():
        launch()  # may compile or load a module, for which some wait for the device
        device.synchronize()
        try:
            first = _behind_hold(device, launch, flush, (0,))
            count = _MANY_PAIRS if first < _SHORT else _FEW_PAIRS
            pauses = (0,) * count if flush else device.pauses(count)
            sampled = _sampled(lambda: _behind_hold(device, launch, flush, pauses), rule)
            return *sampled, Method.HELD
        except HoldExpiredError:
            device.synchronize()
            return *_sampled(lambda: _unheld(device, launch, flush), rule), Method.EVENTS


def runs_in_caller(device: Device, launch: Launch, result: torch.Tensor) -> bool:
    """Return whether a host operator runs in the calling thread, not on the stream.

    Only work that is not on the stream can finish while the stream is held. On CUDA the result
    could not be looked at without waiting for the hold.

    Args:
        device: Where.
        launch: Queues one run, and returns its result.
        result: Where the result goes, if it is not a new tensor.
    """
    if device.properties.kind != "host":
        return False
    result.fill_(torch.nan)
    device.synchronize()
    with device.held(_HOLD_LIMIT):
        written = launch()
        finished = isinstance(written, torch.Tensor) and not bool(written.isnan().any())
    device.synchronize()
    return finished


def read_in_caller(
    launch: Launch, rule: StoppingRule, flush: Flush | None = None
) -> tuple[tuple[float, ...], Stop, Method]:
    """Return what `read` does, of an operator that has run once its launch returns."""

    def sample() -> float:
        if flush:
            flush()
        start = time.perf_counter_ns()
        launch()
        return (time.perf_counter_ns() - start) * 1e-9

    return *_sampled(sample, rule), Method.CALLER


def floor(
    device: Device, smallest: Launch, rule: StoppingRule, flush: Flush | None = None
) -> Floor:
    """Return what an event pair behind a held stream reads beyond the kernel inside it.

    Its last step runs under the profiler, which can slow what is measured after it: call this
    once everything else has been read.

    Args:
        device: Where.
        smallest: Queues the smallest kernel that writes something.
        rule: When to stop.
        flush: As for the readings that it is the floor of.
    """
    gross, _, _ = read(device, smallest, rule, flush)
    pair = statistics.median(_pair_behind_hold(device, smallest, flush, 0) for _ in range(_PAIRS))
    on_cuda = device.properties.kind == "cuda"
    kernel = profiled_seconds(device, smallest, flush) if on_cuda else 0.0
    return Floor(L2.COLD if flush else L2.WARM, gross, kernel, pair - kernel)


def profiled_seconds(device: Device, launch: Launch, flush: Flush | None = None) -> float:
    """Return the median over launches of the kernel time that CUPTI reports, in seconds.

    Each launch is waited for before the next is queued, as behind a held stream.

    Raises:
        DeviceError: The profiler did not see the same kernels for every launch.
    """
    with device.current(), profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(_PROFILED_LAUNCHES):
            if flush:
                flush()
            launch()
            device.synchronize()
    kernels = sorted(
        (event for event in profiler.events() or () if event.device_type.name == "CUDA"),
        key=lambda event: event.time_range.start,
    )
    each, rest = divmod(len(kernels), _PROFILED_LAUNCHES)
    flushes = 1 if flush else 0
    if rest or each <= flushes:
        raise DeviceError(
            f"the profiler saw {len(kernels)} kernels in {_PROFILED_LAUNCHES} launches"
        )
    times = [float(kernel.time_range.elapsed_us()) * 1e-6 for kernel in kernels]
    starts = range(flushes, len(times), each)
    return statistics.median(sum(times[i : i + each - flushes]) for i in starts)


def _sampled(sample: Callable[[], float], rule: StoppingRule) -> tuple[tuple[float, ...], Stop]:
    started = time.perf_counter()
    _warm_up(sample, until=started + rule.max_time / 2)
    samples: list[float] = []
    while True:
        samples += [sample() for _ in range(_ROUND)]
        stop = rule.verdict(samples, time.perf_counter() - started)
        if stop:
            return tuple(samples), stop


def _warm_up(sample: Callable[[], float], until: float) -> None:
    """Sample until two windows in a row have alike medians, or it is time to begin."""
    before = math.inf
    while time.perf_counter() < until:
        window = [sample() for _ in range(_WARM_UP_WINDOW)]
        now = statistics.median(window)
        if abs(now - before) <= max(_STEADY * now, stats.clock_step(window)):
            return
        before = now


def _behind_hold(
    device: Device, launch: Launch, flush: Flush | None, pauses: tuple[int, ...]
) -> float:
    """Return the mean over the pauses of one pair each; of a pair without one for each 0."""
    return statistics.fmean(_pair_behind_hold(device, launch, flush, pause) for pause in pauses)


def _pair_behind_hold(device: Device, launch: Launch, flush: Flush | None, pause: int) -> float:
    start, end = device.event(), device.event()
    with device.held(_HOLD_LIMIT) as hold:
        if flush:
            flush()
        start.record()
        if pause:
            device.pause(pause)
        launch()
        end.record()
    device.synchronize()
    if hold.expired():
        raise HoldExpiredError
    return end.seconds_since(start)


def _unheld(device: Device, launch: Launch, flush: Flush | None) -> float:
    start, end = device.event(), device.event()
    if flush:
        flush()
    start.record()
    launch()
    end.record()
    device.synchronize()
    return end.seconds_since(start)
