"""The accurate estimate: an event pair behind a held stream, less a calibrated floor.

An event pair around a launch on an idle stream holds the gap in which the stream waits for the
host. Here the stream is held while the host queues the pair and the launch, and let go once all
three are there, as NVBench does (`detail/measure_cold.cuh`). What the pair then reads beyond the
operator, its floor, is the device's own handling of a launch between two events; the smallest
launch of add2, measured in the same way, shows it.

add2 and not an empty kernel: a kernel that has written something is followed by a flush that one
which has not is spared. On an H200 the pair read 2.10 us more than CUPTI did for an empty kernel,
and 2.21 to 2.30 us more for every `torch.add` from n = 2^10 to 2^22.

What a pair reads beyond the kernel in it is not quite one figure. On an H200 its readings cluster
0.16 us apart, so a kernel's are up to 0.08 us off in either direction, much the same way each time:
each sample of a short operator is the mean of many pairs, and the floor the mean over eight small
launches. (Three launches in a pair made it worse: the gaps between them differ by more.) And it
drifts: it rose by 0.5 us when a second stream was used in the process, and stayed 0.3 us higher on
the first. So the small launches take turns with the operator. docs/estimate.md has the figures.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from cudabench import stats
from cudabench.device import CudaDevice, Device, Launch
from cudabench.errors import DeviceError
from cudabench.pairs import Before, behind_hold, called, nothing, synchronized
from cudabench.placement import method_of
from cudabench.records import L2, ClockRates, Floor, Method, Reading, SmallLaunch, Stop
from cudabench.stopping import StoppingRule

_ROUND = 10
_WARM_UP_WINDOW = 6
_FEWEST_SAMPLES = 6  # fewer have no interval
# Where events are coarse and an operator takes less than so many seconds, a sample is the mean of
# so many pairs. Else it is one, and the median that of single runs.
_SHORT = 10e-6
_PAIRS = 32
_OBSERVED_PAIRS = 64
_STEADY = 0.01
_FLUSH_RATIO = 2  # times the cache's size
_PROFILED_RUNS = 50
_MARK = "mark_kernel"  # kernels/hold.cu
_EXPIRED_IN_A_ROW = 3


class HoldExpiredError(DeviceError):
    """The hold's limit ended it, several times in a row."""


class Gross(NamedTuple):
    """Samples in seconds, with the floor still in them, why so many, and how they were taken.

    `beside` has for each of them what the small launches read in turn with it, or nothing.
    """

    seconds: tuple[float, ...]
    beside: tuple[float, ...]
    stop: Stop
    method: Method

    def reading(
        self, operator: str, n: int, bytes_moved: int, l2: L2, clocks: ClockRates | None
    ) -> Reading:
        """Return them as the record of what they are samples of."""
        return Reading(
            operator=operator,
            n=n,
            bytes_moved=bytes_moved,
            l2=l2,
            method=self.method,
            gross=self.seconds,
            beside=self.beside,
            stop=self.stop,
            clocks=clocks,
        )


class Flush:
    """Overwrites a buffer of twice the cache's size, so that nothing else stays in the cache."""

    def __init__(self, device: Device) -> None:
        if not device.properties.l2_bytes:
            raise DeviceError(
                f"the size of the last cache of {device.properties.label} is not known, so that it"
                " cannot be emptied",
                "Use --l2 warm",
            )
        size = _FLUSH_RATIO * device.properties.l2_bytes
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device.torch_device)

    def __call__(self) -> None:
        """Queue it."""
        self._buffer.zero_()


def flush_for(device: Device, l2: L2) -> Flush | None:
    """Return what brings about a state of the cache before a run; None where nothing need."""
    return Flush(device) if l2 is L2.COLD else None


def read(
    device: Device,
    launch: Launch,
    rule: StoppingRule,
    small: Sequence[Launch] = (),
    before: Before | None = None,
) -> Gross:
    """Return accurate samples of an operator.

    Args:
        device: Where the operator runs.
        launch: Queues one run.
        rule: When to stop.
        small: The floor's launches. What a pair reads beyond what is in it drifts, on an H200 by
            0.4 us within a minute, so they are read in turn with the operator.
        before: Queued before each run, outside the timed span, such as a flush of the cache.
    """
    with device.current():
        method = method_of(device, launch)
        if method is Method.HELD:
            try:
                return _read_held(device, launch, rule, small, before)
            except HoldExpiredError:
                device.synchronize()
                method = Method.EVENTS  # it waits for its stream at times, or the host stalls
        sample = _UNHELD[method]
        taken, stop = _sampled(lambda: (sample(device, launch, before), 0.0), rule)
        return Gross(tuple(gross for gross, _ in taken), (), stop, method)


def _read_held(
    device: Device,
    launch: Launch,
    rule: StoppingRule,
    small: Sequence[Launch],
    before: Before | None,
) -> Gross:
    for one in (*small, launch):
        first = _pair_behind_hold(device, one, before)  # what is to be loaded is loaded
    short = first - _pair_behind_hold(device, nothing, before) < _SHORT
    pairs = _PAIRS if short and device.coarse_events else 1
    turns = itertools.cycle(small or (nothing,))

    def sample() -> tuple[float, float]:
        gross, beside = [], []
        # Each small launch at least once: their mean is what is taken off.
        for i in range(max(pairs, len(small))):
            if i < pairs:
                gross.append(_pair_behind_hold(device, launch, before))
            if small:
                beside.append(_pair_behind_hold(device, next(turns), before))
        return statistics.fmean(gross), statistics.fmean(beside or [0.0])

    taken, stop = _sampled(sample, rule)
    seconds, beside = zip(*taken, strict=True)
    return Gross(seconds, beside if small else (), stop, Method.HELD)


def floor(
    device: Device,
    small: Mapping[tuple[str, int], Launch],
    rule: StoppingRule,
    l2: L2,
    before: Before | None = None,
) -> Floor:
    """Return what an event pair behind a held stream reads beyond the kernel inside it.

    Its last step runs under the profiler, which can slow what is measured after it: call this
    once everything else has been read.

    Args:
        device: Where.
        small: What queues each of a few small operators, by its name and n.
        rule: When to stop.
        l2: The state of the cache.
        before: As for the readings that it is the floor of.
    """
    launches = tuple(small.values())
    gross = [read(device, launch, rule, before=before).seconds for launch in launches]
    kernels: list[float | None] = [0.0] * len(launches)
    if isinstance(device, CudaDevice):
        kernels = _kernel_means(device, launches, before)
    names, sizes = zip(*small, strict=True)
    return Floor(l2, tuple(map(SmallLaunch, names, sizes, gross, kernels)))


def _kernel_means(
    device: CudaDevice, launches: Sequence[Launch], before: Before | None
) -> list[float | None]:
    """Return CUPTI's times: their mean, since they step by 0.03 us. None where it gives none."""
    try:
        return [statistics.fmean(times) for times in kernel_seconds(device, launches, before)]
    except (DeviceError, RuntimeError):  # another profiler may have it
        return [None] * len(launches)


def pairs(device: Device, launch: Launch, before: Before | None = None) -> tuple[float, ...]:
    """Return what a number of event pairs behind a held stream read, in seconds."""
    with device.current():
        return tuple(_pair_behind_hold(device, launch, before) for _ in range(_OBSERVED_PAIRS))


def kernel_seconds(
    device: CudaDevice,
    launches: Sequence[Launch],
    before: Before | None = None,
    elsewhere: bool = False,
) -> list[tuple[float, ...]]:
    """Return, for each launch, what CUPTI says its kernels took in each of fifty runs, in seconds.

    Each run is waited for, so that it counts on whichever stream it is.

    Args:
        device: Where.
        launches: Each queues one run.
        before: Queued before each run, and left out.
        elsewhere: The launches go to another stream, which does not wait for what comes before.

    Raises:
        DeviceError: The profiler saw no kernel of a run, as under another profiler.
    """
    with device.current(), profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for launch in launches:
            for _ in range(_PROFILED_RUNS):
                if before:
                    before()
                device.mark()
                if elsewhere:
                    device.synchronize()
                launch()
                device.synchronize()
                device.mark()
        device.synchronize()
    events = (event for event in profiler.events() or () if event.device_type.name == "CUDA")
    runs = list(_between_marks(sorted(events, key=lambda event: event.time_range.start)))
    if len(runs) != len(launches) * _PROFILED_RUNS or min(runs) == 0:
        raise DeviceError("torch.profiler saw no kernels", "Is another profiler running?")
    starts = range(0, len(runs), _PROFILED_RUNS)
    return [tuple(runs[start : start + _PROFILED_RUNS]) for start in starts]


def _between_marks(events: Iterable[Any]) -> Iterator[float]:
    """Yield the seconds of all that ran from the first mark to the second, and so on."""
    inside, seconds = False, 0.0
    for event in events:
        if event.name.startswith(_MARK):
            if inside:
                yield seconds
            inside, seconds = not inside, 0.0
        else:
            seconds += float(event.time_range.elapsed_us()) * 1e-6


def _sampled(
    sample: Callable[[], tuple[float, float]], rule: StoppingRule
) -> tuple[list[tuple[float, float]], Stop]:
    """Return samples, and what was read beside each, until the rule says stop."""
    started = time.perf_counter()
    _warm_up(sample, until=started + rule.max_time / 2)
    taken: list[tuple[float, float]] = []
    while True:
        for _ in range(_ROUND):
            taken.append(sample())
            spent = time.perf_counter() - started
            if spent > rule.max_time and len(taken) >= _FEWEST_SAMPLES:
                break
        stop = rule.verdict([gross - beside for gross, beside in taken], spent)
        if stop:
            return taken, stop


def _warm_up(sample: Callable[[], tuple[float, float]], until: float) -> None:
    """Sample until two windows in a row have alike medians, or it is time to begin."""
    before = math.inf
    while time.perf_counter() < until:
        window = [gross for gross, _ in (sample() for _ in range(_WARM_UP_WINDOW))]
        now = statistics.median(window)
        if abs(now - before) <= max(_STEADY * now, stats.clock_step(window)):
            return
        before = now


def _pair_behind_hold(device: Device, launch: Launch, before: Before | None) -> float:
    """Return what one pair reads.

    Where the host was stopped for so long that the hold expired, the pair holds a launch gap and
    is taken again.
    """
    for _ in range(_EXPIRED_IN_A_ROW):
        seconds, expired = behind_hold(device, launch, before=before)
        if not expired:
            return seconds
    raise HoldExpiredError("the stream could not be held while one launch was queued")


def _between_events(device: Device, launch: Launch, before: Before | None) -> float:
    start, end = device.event(), device.event()
    if before:
        before()
    start.record()
    launch()
    end.record()
    device.synchronize()
    return end.seconds_since(start)


def _in_caller(_: Device, launch: Launch, before: Before | None) -> float:
    if before:
        before()
    return called(launch)


def _elsewhere(device: Device, launch: Launch, before: Before | None) -> float:
    if before:
        before()
    device.synchronize()
    return synchronized(device, launch)


_UNHELD = {
    Method.EVENTS: _between_events,
    Method.CALLER: _in_caller,
    Method.ELSEWHERE: _elsewhere,
}
