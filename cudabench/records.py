"""What a session holds, frozen. Seconds and bytes throughout; statistics are derived."""

import statistics
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from functools import cached_property

from cudabench import stats

# 1: the first.
# 2: readings, and the floors that are taken off them; the loop.
# 3: floors from several launches, which are also read beside every sample; the launch call of each
#    sample; the hand-over between host and device; opinions; what the profiler does; clocks beside
#    every measurement and reading.
# 4: floors of two operators; floors of opinions; how long the first synchronize of a sample waited.
SCHEMA_VERSION = 4

# How every table and file names the CPU behind a stream.
HOST_LABEL = "host (CPU stream, no CUDA)"


class Clock(str, Enum):
    """What a timed region is read from."""

    TIME = "time"  # time.time, the article's
    PERF_COUNTER = "perf_counter"  # time.perf_counter_ns, monotonic
    EVENT = "event"  # a pair of device events recorded around the launch

    @property
    def on_host(self) -> bool:
        """Whether the host reads it, rather than the stream."""
        return self is not Clock.EVENT


@dataclass(frozen=True)
class Mode:
    """Which of the two synchronizes an iteration has."""

    first_sync: bool
    second_sync: bool

    @property
    def label(self) -> str:
        """`both`, `first only`, `second only` or `neither`."""
        if self.first_sync:
            return "both" if self.second_sync else "first only"
        return "second only" if self.second_sync else "neither"


BOTH = Mode(first_sync=True, second_sync=True)
FIRST_ONLY = Mode(first_sync=True, second_sync=False)
SECOND_ONLY = Mode(first_sync=False, second_sync=True)
NEITHER = Mode(first_sync=False, second_sync=False)
# In the article's order.
MODES = (BOTH, FIRST_ONLY, SECOND_ONLY, NEITHER)


@dataclass(frozen=True)
class Loop:
    """How many iterations: `warmup` bare calls first, then `iterations` timed ones."""

    iterations: int = 10
    warmup: int = 10


@dataclass(frozen=True)
class Backlog:
    """Work queued, unsynchronized, before every iteration.

    Attributes:
        launches: How many launches of the operator, on buffers of their own.
        n: Elements in each of those buffers.
        seconds: How long the stream still had to work when the last of them had been queued.
    """

    launches: int
    n: int
    seconds: float


@dataclass(frozen=True)
class Sample:
    """One iteration's reading.

    Attributes:
        seconds: The reading. Of events, the one made after the loop.
        launch_seconds: How long the launch call took, by `perf_counter_ns` or the mode's own clock.
        waited_seconds: How long the first synchronize took, 0 where there is none.
        start_seconds: When the iteration's timed region began, since the first one's began.
        ready: Whether it could be read at once, when the iteration ended. A host clock always
            can; an event pair only where the stream had passed it.
    """

    seconds: float
    launch_seconds: float
    waited_seconds: float
    start_seconds: float
    ready: bool = True


@dataclass(frozen=True)
class Measurement:
    """The samples of one operator, size, clock, mode and backlog.

    Attributes:
        correct: Whether the operator's result was PyTorch's.
        clocks: The device's, right after it.
    """

    operator: str
    n: int
    clock: Clock
    mode: Mode
    backlog: Backlog | None
    samples: tuple[Sample, ...]
    correct: bool
    clocks: "ClockRates | None" = None

    @cached_property
    def summary(self) -> stats.Summary:
        """The statistics of the samples, in seconds."""
        return stats.summarise([sample.seconds for sample in self.samples])

    @property
    def not_ready(self) -> int:
        """How many samples could not be read at once."""
        return sum(not sample.ready for sample in self.samples)


class L2(str, Enum):
    """What the device's last cache holds when the operator starts."""

    WARM = "warm"  # what the operator's previous run left
    COLD = "cold"  # nothing of the operator's
    BACKLOG = "backlog"  # what a backlog on other buffers left


class Method(str, Enum):
    """How a reading was taken, which depends on where the operator's work runs."""

    HELD = "held"  # on the current stream: an event pair behind a held stream
    EVENTS = "events"  # there, waited for by the operator: an event pair alone, with launch gaps
    CALLER = "caller"  # in the calling thread: the host clock around it
    ELSEWHERE = "elsewhere"  # on another stream: the host clock, a synchronize of the device too


class Stop(str, Enum):
    """Why sampling ended."""

    PRECISION = "precision"
    TIME = "time"


@dataclass(frozen=True)
class SmallLaunch:
    """One of the small launches that a floor is read from.

    Attributes:
        gross: Readings of it, in seconds, taken as the operators' are.
        kernel_seconds: What its kernel takes itself, by CUPTI; 0 on the host, where nothing can
            tell; None where CUPTI should have told and did not.
    """

    operator: str
    n: int
    gross: tuple[float, ...]
    kernel_seconds: float | None

    @property
    def rest(self) -> float:
        """What its readings hold beyond the kernel, in seconds."""
        return statistics.median(self.gross) - (self.kernel_seconds or 0.0)


@dataclass(frozen=True)
class Floor:
    """What a reading holds beyond the operator's own time, as small launches show it.

    Attributes:
        l2: The state of the cache that it was read in.
        launches: What it was read from.
    """

    l2: L2
    launches: tuple[SmallLaunch, ...]

    @cached_property
    def known(self) -> bool:
        """Whether it is known how much of its readings are the kernels."""
        return all(launch.kernel_seconds is not None for launch in self.launches)

    @cached_property
    def kernel_seconds(self) -> float:
        """What the small launches' kernels take themselves, in the mean."""
        return statistics.fmean(launch.kernel_seconds or 0.0 for launch in self.launches)

    @cached_property
    def uncertainty(self) -> float:
        """Half of what its launches are apart, in seconds: an error that no sampling removes."""
        rests = [launch.rest for launch in self.launches]
        return (max(rests) - min(rests)) / 2

    @cached_property
    def pair_seconds(self) -> float:
        """What any event pair reads beyond what is in it."""
        return statistics.fmean(launch.rest for launch in self.launches)

    @cached_property
    def spread(self) -> float:
        """How far its readings are apart, in seconds: what is less cannot be resolved."""
        scatters = [_scatter(launch.gross) for launch in self.launches]
        return max(*scatters, 2 * self.uncertainty)


def _scatter(samples: tuple[float, ...]) -> float:
    """Return the range of the middle half of the samples, or a step of their clock."""
    first, third = stats.quartiles(samples)
    return max(third - first, stats.clock_step(samples))


@dataclass(frozen=True)
class Reading:
    """The accurate samples of one operator, size and cache state, before the floor is taken off.

    Attributes:
        bytes_moved: What one launch reads and writes.
        gross: The samples, in seconds a launch; of a short operator each is the mean of many.
        beside: For each of them what the floor's small launches read, taken in turn with it; none
            where no floor is to be taken off.
        clocks: The device's, right after it.
    """

    operator: str
    n: int
    bytes_moved: int
    l2: L2
    method: Method
    gross: tuple[float, ...]
    beside: tuple[float, ...]
    stop: Stop
    clocks: "ClockRates | None" = None

    def estimate(self, floor: Floor) -> "Estimate":
        """Return the operator's own time, given the floor of the same session."""
        gross = stats.median_interval(self.gross)
        if not self.beside or not floor.known:
            return Estimate(self, gross, stats.Interval(0, 0, 0), gross, floor)
        off = statistics.median(self.beside) - floor.kernel_seconds
        differences = [g - b for g, b in zip(self.gross, self.beside, strict=True)]
        net = stats.median_interval(differences) + floor.kernel_seconds
        uncertain = stats.Interval(-floor.uncertainty, 0, floor.uncertainty)
        return Estimate(self, gross, uncertain + off, net - uncertain, floor)


@dataclass(frozen=True)
class Estimate:
    """An operator's own time on the device, all in seconds.

    Attributes:
        gross: What was read.
        taken_off: What is taken off it.
        net: The estimate. Its bounds are those of the median's 95 % confidence interval, and as
            far beyond them as the floor's own launches are apart.
        floor: What it was taken off by.
    """

    reading: Reading
    gross: stats.Interval
    taken_off: stats.Interval
    net: stats.Interval
    floor: Floor

    @property
    def resolved(self) -> bool:
        """Whether it is the operator's time, and not only what that time is below.

        It is not where it is less than the floor's own spread, where the floor is not known, or
        where it holds launch and synchronize.
        """
        held, elsewhere = (self.reading.method is m for m in (Method.HELD, Method.ELSEWHERE))
        whole = elsewhere or (held and not self.floor.known)
        return not whole and self.net.value > self.floor.spread

    @property
    def bound(self) -> float:
        """What the operator's time is below, where it is not resolved."""
        return max(self.net.high, self.floor.spread)

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second; None where the time cannot be resolved or nothing is said to move."""
        moved = self.reading.bytes_moved
        return moved / self.net.value if moved and self.resolved else None


class Opinion(str, Enum):
    """Another way to an operator's own time. The first three are second opinions; others judge."""

    BATCH = "batch"  # launches back to back behind a held stream
    GRAPH = "graph"  # launches in a CUDA graph
    CUPTI = "cupti"  # kernel time by torch.profiler
    DO_BENCH = "do_bench"  # triton's
    DO_BENCH_CUDAGRAPH = "do_bench_cudagraph"  # triton's


@dataclass(frozen=True)
class SecondOpinion:
    """What another method says of one operator, size and cache state.

    Attributes:
        seconds: Its figures for one launch; none where it cannot say.
        beside: What the floor's small launches take by the same method, one figure for each; none
            where it claims to need no floor.
        why_not: Why not, in a sentence; "" where it can.
    """

    opinion: Opinion
    operator: str
    n: int
    l2: L2
    seconds: tuple[float, ...]
    beside: tuple[float, ...] = ()
    why_not: str = ""

    def net(self, floor: Floor) -> float | None:
        """Return its median less its own floor, in seconds, or None where it cannot say."""
        if not self.seconds:
            return None
        off = statistics.fmean(self.beside) - floor.kernel_seconds if self.beside else 0.0
        return statistics.median(self.seconds) - off


@dataclass(frozen=True)
class Observer:
    """What the profiler does to an operator: event pairs behind a held stream, in seconds.

    Attributes:
        outside: Without the profiler.
        inside: While it runs.
    """

    operator: str
    n: int
    l2: L2
    outside: tuple[float, ...]
    inside: tuple[float, ...]

    @property
    def effect(self) -> float:
        """How many seconds longer a launch took while the profiler ran, in the median."""
        return statistics.median(self.inside) - statistics.median(self.outside)


@dataclass(frozen=True)
class HandOver:
    """How long work takes from host to device and back, each in seconds, in the median.

    It is that of a stamp (kernels/stamp.h), which does nothing itself, on an idle stream.

    Attributes:
        start: From the return of the launch call to the start of the work.
        work: From its start to its end, by its own stamps.
        end: From the end of the work to the return of a synchronize.
        pair: What an event pair reads around it behind a held stream.
        gap: How long the stream waits between the first event of a pair and the work.
        gap_launch: How long the launch call took in such a pair.
    """

    start: float
    work: float
    end: float
    pair: float
    gap: float
    gap_launch: float


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is. None where it could not be read.

    Attributes:
        label: How every table and file names it.
        memory_bytes: Its whole memory.
        l2_bytes: L2 of a GPU, the last cache level of a CPU.
        peak_bandwidth: Bytes a second, from the memory clock and the bus width.
    """

    label: str
    kind: str
    memory_bytes: int
    l2_bytes: int | None = None
    peak_bandwidth: float | None = None
    compute_capability: str | None = None
    multiprocessors: int | None = None
    driver: str | None = None


@dataclass(frozen=True)
class ClockRates:
    """A GPU's clocks at one moment, and why they are not higher (NVML's reasons)."""

    sm_mhz: int
    memory_mhz: int
    throttle_reasons: tuple[str, ...]


@dataclass(frozen=True)
class Environment:
    """Where and with what a session was measured."""

    cudabench: str
    command: str
    python: str
    platform: str
    cpu: str
    torch: str
    torch_cuda: str | None
    cxx: str
    nvcc: str | None
    device: DeviceProperties
    clocks_at_start: ClockRates | None
    clocks_at_end: ClockRates | None


@dataclass(frozen=True)
class Session:
    """One invocation's measurements. `started` and `ended` are UTC, ISO 8601.

    Attributes:
        readings: The accurate ones; `estimates` takes the floors off them.
        hand_over: Where the modes' readings are split into parts.
        opinions: Of `methods`, as are the observers.
    """

    id: str
    command: str
    started: str
    ended: str
    environment: Environment
    loop: Loop
    measurements: tuple[Measurement, ...]
    readings: tuple[Reading, ...]
    floors: tuple[Floor, ...]
    hand_over: HandOver | None = None
    opinions: tuple[SecondOpinion, ...] = ()
    observers: tuple[Observer, ...] = ()
    schema: int = SCHEMA_VERSION

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """Return what the readings come to once the floor is taken off."""
        floors = {floor.l2: floor for floor in self.floors}
        # A backlog on other buffers leaves the cache cold for the small launches, too.
        if self.floors:
            floors.setdefault(L2.BACKLOG, floors.get(L2.COLD, self.floors[0]))
        return tuple(reading.estimate(floors[reading.l2]) for reading in self.readings)

    def estimates_of(self, operator: str) -> dict[L2, Estimate]:
        """Return one operator's estimates by the state of the cache."""
        return {e.reading.l2: e for e in self.estimates if e.reading.operator == operator}

    def wrong(self) -> tuple[str, ...]:
        """Return the operators whose result was not PyTorch's: their times are invalid."""
        return tuple(dict.fromkeys(m.operator for m in self.measurements if not m.correct))


def new_session_id(command: str) -> str:
    """Return an id that names the command and the moment, to the millisecond, UTC."""
    now = datetime.now(timezone.utc)
    return f"{command}-{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"
