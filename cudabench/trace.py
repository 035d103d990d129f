"""What a profiler recorded, and pictures of parts of it. Integer nanoseconds on its own clock."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cudabench.records import Clock, Mode

if TYPE_CHECKING:
    import pandas as pd


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
        ranges: NVTX ranges: start, end, text, thread. One that was never ended has end == start.
        marks: NVTX marks: start, text.
        calls: API calls on the host: start, end, name, thread, correlation.
        work: What the device ran: start, end, name, kind (`kernel`, `memcpy` or `memset`),
            correlation (to the call that queued it; -1 where there is none), device, stream.
    """

    source: str
    device: str
    ranges: "pd.DataFrame"
    marks: "pd.DataFrame"
    calls: "pd.DataFrame"
    work: "pd.DataFrame"


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
