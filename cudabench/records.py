"""What a session holds, frozen. Seconds and bytes throughout; statistics are derived."""

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from functools import cached_property

from cudabench import stats

# 1: the first.
SCHEMA_VERSION = 1


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
        bytes_moved: What one launch reads and writes.
        correct: Whether the operator's result was PyTorch's; None where it was not checked.
    """

    operator: str
    n: int
    bytes_moved: int
    clock: Clock
    mode: Mode
    backlog: Backlog | None
    samples: tuple[Sample, ...]
    correct: bool | None = None

    @cached_property
    def summary(self) -> stats.Summary:
        """The statistics of the samples, in seconds."""
        return stats.summarise([sample.seconds for sample in self.samples])

    @property
    def not_ready(self) -> int:
        """How many samples could not be read at once."""
        return sum(not sample.ready for sample in self.samples)

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second at the median; None where the reading is not the operator's own time.

        Without the second synchronize the host clock has seen the launch call alone, and with a
        backlog and no first synchronize it has seen the backlog too.
        """
        waited = self.mode.second_sync and (self.mode.first_sync or self.backlog is None)
        if not waited or self.summary.median <= 0:
            return None
        return self.bytes_moved / self.summary.median


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
class Clocks:
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
    clocks_at_start: Clocks | None
    clocks_at_end: Clocks | None


@dataclass(frozen=True)
class Session:
    """One invocation's measurements. `started` and `ended` are UTC, ISO 8601."""

    id: str
    command: str
    started: str
    ended: str
    environment: Environment
    measurements: tuple[Measurement, ...]
    schema: int = SCHEMA_VERSION


def new_session_id(command: str) -> str:
    """Return an id that names the command and the moment, to the millisecond, UTC."""
    now = datetime.now(timezone.utc)
    return f"{command}-{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"
