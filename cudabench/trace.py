"""What a profiler recorded, and pictures of parts of it. Integer nanoseconds on its own clock."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cudabench.records import Clock, Mode

if TYPE_CHECKING:
    import pandas as pd

NO_CORRELATION = -1  # of a work that no call is known to have queued


@dataclass(frozen=True)
class Span:
    """From when to when something lasted, in ns."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        """Its length, in seconds."""
        return (self.end - self.start) * 1e-9


@dataclass(frozen=True)
class Trace:
    """One capture: what ran when, each table in the order of its starts.

    Columns, where not said otherwise, are int64; `start` and `end` are ns, texts are categories.

    Attributes:
        source: What recorded it, such as `Nsight Systems 2025.3.1`.
        device: The device's name, or "" where the capture does not say.
        ranges: cudabench's own (cudabench/ranges.py): start, end, text.
        calls: API calls on the host: start, end, name, correlation.
        work: What the device ran: start, end, name, kind (`kernel`, `memcpy` or `memset`),
            correlation (to the call that queued it; -1 where there is none), device, stream.
    """

    source: str
    device: str
    ranges: "pd.DataFrame"
    calls: "pd.DataFrame"
    work: "pd.DataFrame"


def correlations(frame: "pd.DataFrame") -> "pd.Series[int]":
    """Return those of a table of works or calls, of the rows that have one."""
    found: pd.Series[int] = frame["correlation"]
    return found[found != NO_CORRELATION]


@dataclass(frozen=True)
class Iteration:
    """One iteration of the experiment as a profiler saw it.

    Attributes:
        backlogged: Whether work was queued before it.
        index: Its place among the timed iterations of its mode, from 0.
        span: From its first step to its last, on the host.
        backlog: The queueing of the backlog, on the host; None where there is none.
        first_sync: The first synchronize; None where the mode leaves it out.
        launch: The launch call.
        second_sync: The second synchronize; None where the mode leaves it out.
        kernels: What the launch made the device run.
        backlog_kernels: What the backlog did.
        seconds: What the mode's clock read; None where the capture does not say.
    """

    operator: str
    n: int
    clock: Clock
    mode: Mode
    backlogged: bool
    index: int
    span: Span
    backlog: Span | None
    first_sync: Span | None
    launch: Span
    second_sync: Span | None
    kernels: tuple[Span, ...]
    backlog_kernels: tuple[Span, ...]
    seconds: float | None

    @property
    def launch_to_start(self) -> float | None:
        """Seconds from the return of the launch call to the start of its work; may be negative."""
        return (self.kernels[0].start - self.launch.end) * 1e-9 if self.kernels else None

    @property
    def kernel(self) -> float | None:
        """Seconds that its work took."""
        return sum(kernel.seconds for kernel in self.kernels) if self.kernels else None

    @property
    def done(self) -> int | None:
        """When the last of its work ended, which need not be the last to start."""
        return max((kernel.end for kernel in self.kernels), default=None)

    @property
    def end_to_return(self) -> float | None:
        """Seconds from the end of its work to the return of the second synchronize."""
        if self.done is None or not self.second_sync:
            return None
        return (self.second_sync.end - self.done) * 1e-9

    @property
    def timed(self) -> Span | None:
        """What the clock read, as nearly as the trace can place it; None where it does not say.

        A host clock's lies about the steps that it was read around. An event pair's ends with the
        work: when the device passed the events is not recorded.
        """
        if self.seconds is None:
            return None
        length = round(self.seconds * 1e9)
        if self.clock.on_host:
            last = self.second_sync or self.launch
            before = (length - (last.end - self.launch.start)) // 2
            return Span(self.launch.start - before, self.launch.start - before + length)
        end = self.launch.end if self.done is None else self.done
        return Span(end - length, end)


class Role(str, Enum):
    """What a bar of a picture stands for."""

    BACKLOG = "backlog"  # queued, or run, before the operator
    SYNCHRONIZE = "synchronize"
    LAUNCH = "launch"
    KERNEL = "kernel"  # the operator's work on the device
    OTHER = "other"  # of another iteration, or none of ours
    TIMED = "timed"  # what the clock read


@dataclass(frozen=True)
class Bar:
    """Something that lasted, in a picture."""

    span: Span
    label: str
    role: Role


@dataclass(frozen=True)
class Lane:
    """Bars on one line, in the order of their starts."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Picture:
    """A stretch of a trace: lanes one above the other, on one scale.

    Attributes:
        title: What is shown.
        caption: What to see in it, in a sentence or two; may be "".
        window: From when to when; bars may reach out of it.
        lanes: The host's, the device's, and what the clock read between the two.
    """

    title: str
    caption: str
    window: Span
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class Activity:
    """All that bears one name in a trace, in ns."""

    name: str
    count: int
    total: int
    mean: float
    median: float
    minimum: int
    maximum: int


def activities(frame: "pd.DataFrame") -> list[Activity]:
    """Return what a table of works or calls comes to by name, what took longest first."""
    lengths = (frame["end"] - frame["start"]).groupby(frame["name"], observed=True)
    figures = lengths.agg(["count", "sum", "mean", "median", "min", "max"])
    rows = figures.sort_values("sum", ascending=False).itertuples()
    return [
        Activity(str(name), int(count), int(total), mean, median, int(least), int(most))
        for name, count, total, mean, median, least, most in rows
    ]


@dataclass(frozen=True)
class Busy:
    """How a device spent its time from its first work to its last, in ns."""

    span: Span
    busy: int
    gaps: int
    longest_gap: Span | None


def busy(work: "pd.DataFrame") -> Busy:
    """Return that, given at least one work; works that overlap count once."""
    starts, ends = work["start"].to_numpy(), work["end"].cummax().to_numpy()
    idle = starts[1:] - ends[:-1]
    between = idle > 0
    span = Span(int(starts[0]), int(ends[-1]))
    longest = int(idle.argmax()) if between.any() else None
    return Busy(
        span=span,
        busy=span.end - span.start - int(idle[between].sum()),
        gaps=int(between.sum()),
        longest_gap=None if longest is None else Span(int(ends[longest]), int(starts[longest + 1])),
    )
