"""What a session holds, frozen. Seconds and bytes throughout; statistics are derived."""

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from functools import cached_property

from cudabench import stats

# 1: the first.
# 2: readings, and the floors that are taken off them; the loop.
SCHEMA_VERSION = 2


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
        ready: Whether it could be read at once, when the iteration ended. A host clock always
            can; an event pair only where the stream had passed it.
    """

    seconds: float
    ready: bool = True


@dataclass(frozen=True)
class Measurement:
    """The samples of one operator, size, clock, mode and backlog.

    Attributes:
        correct: Whether the operator's result was PyTorch's.
    """

    operator: str
    n: int
    clock: Clock
    mode: Mode
    backlog: Backlog | None
    samples: tuple[Sample, ...]
    correct: bool

    @cached_property
    def summary(self) -> stats.Summary:
        """The statistics of the samples, in seconds."""
        return stats.summarise([sample.seconds for sample in self.samples])

    @property
    def not_ready(self) -> int:
        """How many samples could not be read at once."""
        return sum(not sample.ready for sample in self.samples)


class L2(str, Enum):
    """Whether the operator's inputs may lie in the device's last cache when it starts."""

    WARM = "warm"
    COLD = "cold"


class Method(str, Enum):
    """How a reading was taken."""

    HELD = "held"  # an event pair behind a held stream
    EVENTS = "events"  # an event pair alone: launch gaps included
    CALLER = "caller"  # the host clock around an operator that runs in the calling thread


class Stop(str, Enum):
    """Why sampling ended."""

    PRECISION = "precision"
    TIME = "time"


@dataclass(frozen=True)
class Floor:
    """What a reading holds beyond the operator's own time.

    Attributes:
        l2: The state of the cache that it was read in.
        gross: Readings of the smallest launch, in seconds, taken as the operators' are.
        kernel_seconds: What that launch's kernel takes itself; 0 where nothing can tell.
        pair_seconds: What a bare event pair around it reads beyond that.
    """

    l2: L2
    gross: tuple[float, ...]
    kernel_seconds: float
    pair_seconds: float

    @cached_property
    def interval(self) -> stats.Interval:
        """The floor in seconds, with the confidence interval of its median."""
        return stats.median_interval(self.gross) + -self.kernel_seconds

    @cached_property
    def spread(self) -> float:
        """The range of the middle half of its readings, or a step of the clock, in seconds."""
        first, third = stats.quartiles(self.gross)
        return max(third - first, stats.clock_step(self.gross))


@dataclass(frozen=True)
class Reading:
    """The accurate samples of one operator, size and cache state, before the floor is taken off.

    Attributes:
        bytes_moved: What one launch reads and writes.
        gross: The samples, in seconds; behind a held stream each is the mean of several pairs.
    """

    operator: str
    n: int
    bytes_moved: int
    l2: L2
    method: Method
    gross: tuple[float, ...]
    stop: Stop

    def estimate(self, floor: Floor) -> "Estimate":
        """Return the operator's own time, given the floor of the same session."""
        gross = stats.median_interval(self.gross)
        # The launch gaps in an event pair alone hide its floor.
        taken_off = floor.interval if self.method is Method.HELD else stats.Interval(0, 0, 0)
        return Estimate(self, gross, taken_off, floor.spread, floor.pair_seconds)


@dataclass(frozen=True)
class Estimate:
    """An operator's own time on the device, all in seconds.

    Attributes:
        gross: What was read.
        floor: What is taken off it.
        spread: How far the floor's own readings are apart.
        pair_seconds: What a bare event pair reads beyond the operator.
    """

    reading: Reading
    gross: stats.Interval
    floor: stats.Interval
    spread: float
    pair_seconds: float

    @property
    def net(self) -> stats.Interval:
        """The estimate, with its 95 % confidence interval."""
        return self.gross - self.floor

    @property
    def resolved(self) -> bool:
        """Whether the estimate is more than the floor's own spread."""
        return self.net.value > self.spread

    @property
    def bound(self) -> float:
        """What the operator's time is below, where it is not resolved."""
        return max(self.net.high, self.spread)

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second; None where the time cannot be resolved."""
        return self.reading.bytes_moved / self.net.value if self.resolved else None


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
    schema: int = SCHEMA_VERSION

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """Return what the readings come to once the floor is taken off."""
        floors = {floor.l2: floor for floor in self.floors}
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
