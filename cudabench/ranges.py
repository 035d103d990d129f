"""Names that tell a profiler what the experiment is doing, and how to read them back.

Inside the operator's range lies one for each mode; in that, one for each iteration, and in that
its steps. What only the program knows stands in ranges of no length behind the iterations: what
the mode's clock read, and, of the host stream, when each launch was queued and ran. A capture
explains itself.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

from cudabench.errors import BadInputError
from cudabench.records import MODES, Clock, Mode, Sample

DOMAIN = "cudabench"
CAPTURE = "capture"
ITERATION = "iteration"
BACKLOG = "backlog"
FIRST_SYNC = "first synchronize"
LAUNCH = "launch"
SECOND_SYNC = "second synchronize"
TICK = "tick"
# What a text that only says something begins with.
CLOCK, READING, LAUNCHED = "clock", "reading", "launched"

Step = Callable[[], object]


class Launched(NamedTuple):
    """One launch on the host stream, in ns of `time.perf_counter_ns`."""

    called: int
    returned: int
    start: int
    end: int


class NoRanges:
    """Tells nobody, and costs nothing inside a timed region."""

    told = False

    def capture(self) -> AbstractContextManager[object]:
        """Return a context for what a profiler is to record."""
        return nullcontext()

    def range(self, _: str) -> AbstractContextManager[None]:
        """Return a context that has a name."""
        return nullcontext()

    def around(self, _: str, step: Step) -> Step:
        """Return a step that has a name."""
        return step

    def iterations(self, count: int) -> Iterable[int]:
        """Return numbers to loop over, each of whose turns has a name."""
        return range(count)

    def mark(self, _: str) -> None:
        """Say something that has no length."""


NO_RANGES = NoRanges()


class Ranges(NoRanges):
    """Tells a profiler.

    Args:
        push: Begins a range inside the last one that has not ended.
        pop: Ends the last one.
        capture: Returns a context for what the profiler is to record.
    """

    told = True

    def __init__(
        self,
        push: Callable[[str], object],
        pop: Callable[[], object],
        capture: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._push, self._pop, self._capture = push, pop, capture

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Return a context for what a profiler is to record."""
        with self._capture():
            self._tell_the_time()
            yield

    def _tell_the_time(self) -> None:
        """Let the capture's clock be compared with `time.perf_counter_ns`."""
        told = []
        for _ in range(_TICKS):
            told.append(time.perf_counter_ns())
            self.mark(TICK)
        for now in told:  # only now: a new text takes some us to be made
            self.mark(f"{CLOCK} {now}")

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """Return a context that has a name."""
        self._push(name)
        try:
            yield
        finally:
            self._pop()

    def around(self, name: str, step: Step) -> Step:
        """Return a step that has a name."""

        def named() -> None:
            self._push(name)
            step()
            self._pop()

        return named

    def iterations(self, count: int) -> Iterator[int]:
        """Return numbers to loop over, each of whose turns has a name."""
        for i in range(count):
            with self.range(ITERATION):
                yield i

    def mark(self, text: str) -> None:
        """Say something that has no length."""
        self._push(text)
        self._pop()


# The least of so many differences between two clocks is the true one, nearly.
_TICKS = 20


def nvtx_ranges() -> Ranges:
    """Return ranges for Nsight tools.

    Raises:
        BadInputError: The package nvtx is not installed.
    """
    try:
        import nvtx
    except ImportError as error:
        raise BadInputError(
            "NVTX ranges need the package nvtx, which is not installed",
            "Install it with: pip install 'nvtx<0.2.12'",
        ) from error

    @cache  # making one takes longer than entering it
    def named(name: str) -> AbstractContextManager[object]:
        return cast(AbstractContextManager[object], nvtx.annotate(name, domain=DOMAIN))

    def push(name: str) -> None:
        named(name).__enter__()

    def pop() -> None:
        nvtx.pop_range(domain=DOMAIN)

    return Ranges(push, pop, lambda: named(CAPTURE))


def torch_ranges(file: Path) -> Ranges:
    """Return ranges for torch.profiler, which writes what it recorded to `file`, a Chrome trace."""
    import torch
    from torch._C._profiler import _RecordFunctionFast
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    # torch.profiler.record_function, the public one, takes several times as long to enter.
    inside: list[_RecordFunctionFast] = []

    def push(name: str) -> None:
        inside.append(_RecordFunctionFast(name))
        inside[-1].__enter__()

    def pop() -> None:
        inside.pop().__exit__(None, None, None)

    @contextmanager
    def capture() -> Iterator[None]:
        with profile(activities=activities) as profiler:
            yield
        profiler.export_chrome_trace(str(file))

    return Ranges(push, pop, capture)


class OperatorName(NamedTuple):
    """What the range around an operator says."""

    operator: str
    n: int

    def __str__(self) -> str:
        return f"operator {self.operator}, n = {self.n}"

    @classmethod
    def parse(cls, text: str) -> "OperatorName | None":
        """Return what a text says, or None where it is none of these."""
        said = re.fullmatch(r"operator (.*), n = (\d+)", text)
        return cls(said[1], int(said[2])) if said else None


class ModeName(NamedTuple):
    """What the range around a mode says."""

    mode: Mode
    clock: Clock
    backlogged: bool

    def __str__(self) -> str:
        backlog = "a backlog" if self.backlogged else "no backlog"
        return f"mode {self.mode.label}, clock {self.clock.value}, {backlog}"

    @classmethod
    def parse(cls, text: str) -> "ModeName | None":
        """Return what a text says, or None where it is none of these."""
        said = _MODE.fullmatch(text)
        return cls(_MODES[said[1]], Clock(said[2]), said[3] == "a") if said else None


_MODES = {mode.label: mode for mode in MODES}
_MODE = re.compile(
    f"mode ({'|'.join(_MODES)}), clock ({'|'.join(clock.value for clock in Clock)}), (a|no) backlog"
)


def reading_mark(sample: Sample) -> str:
    """Return what is said of a sample: what its clock read."""
    return f"{READING} {round(sample.seconds * 1e9)} ns"


def launched_mark(launched: Launched) -> str:
    """Return what is said of a launch on the host stream."""
    return f"{LAUNCHED} " + " ".join(map(str, launched))


def is_step(text: str) -> bool:
    """Return whether a range has a length to be shown, and does not only say something."""
    return text != TICK and text.split(" ", 1)[0] not in (CLOCK, READING, LAUNCHED)


def numbers_of(word: str, text: str) -> tuple[int, ...] | None:
    """Return the numbers behind the word that a mark begins with, or None."""
    first, *rest = text.split() or [""]
    if first != word:
        return None
    return tuple(int(number) for number in rest if number.lstrip("-").isdecimal())
