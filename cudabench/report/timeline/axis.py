"""The scale that the lanes of a picture share, and where on it bars go.

Places are counted in cells, each as wide as a character of the labels: a terminal's own, or what a
drawing's letters take.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from cudabench.trace import Bar, Picture, Role, Span
from cudabench.units import duration

# Which of them ends first survives the rounding to cells.
EXACT = frozenset({Role.KERNEL, Role.TIMED})
ROLE_NAMES = {
    Role.SYNCHRONIZE: "synchronize",
    Role.LAUNCH: "launch call",
    Role.KERNEL: "kernel",
    Role.BACKLOG: "backlog",
    Role.OTHER: "other",
    Role.TIMED: "clock's reading",
}
_CELLS_A_GUIDE = 10
_UNITS = ((2_000, "ns", 1), (2_000_000, "us", 10**3), (2_000_000_000, "ms", 10**6))


@dataclass(frozen=True)
class Tick:
    """A round time since the window's start, in ns, and how it is written."""

    ns: int
    label: str


def unit(length: int) -> tuple[str, int]:
    """Return the unit in which times within `length` ns are read, and how many ns it is."""
    return next(((name, ns) for below, name, ns in _UNITS if length < below), ("s", 10**9))


def ticks(length: int, most: int) -> tuple[Tick, ...]:
    """Return round times from 0 to `length` ns, at most `most` of them."""
    name, ns = unit(length)
    times = range(0, length + 1, _step(length / max(most - 1, 1)))
    return tuple(Tick(time, f"{time / ns:g} {name}" if time else "0") for time in times)


def _step(least: float) -> int:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least `least`."""
    power = 1
    while power * 10 < least:
        power *= 10
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least)


def plain(text: str) -> str:
    """Return `text` on one line, without what would steer a terminal or is no valid XML."""
    return "".join(c if c.isprintable() else " " for c in text)


def cut(text: str, longest: int) -> str:
    """Return `text`, its end replaced by an ellipsis where it takes more than `longest` cells."""
    return text if cell_len(text) <= longest else set_cell_size(text, max(longest - 1, 0)) + "…"


def longest_piece(start: float, end: float, cuts: Iterable[float]) -> tuple[float, float]:
    """Return from where to where the longest part of a stretch is that no cut divides."""
    ends = [start, *sorted(at for at in cuts if start < at < end), end]
    return max(pairwise(ends), key=lambda piece: piece[1] - piece[0])


class Axis:
    """Where the times of a picture fall on `width` cells.

    Attributes:
        guides: The times within the window at which what the clock read begins or ends; none where
            they are so many that lines there would hide the bars.
    """

    def __init__(self, picture: Picture, width: int) -> None:
        self.window = picture.window
        self.length = max(picture.window.end - picture.window.start, 1)
        self.width = width
        bars = [bar for lane in picture.lanes for bar in lane.bars if self.shows(bar)]
        self._kernel_ends = sorted(bar.span.end for bar in bars if bar.role is Role.KERNEL)
        self._timed = [bar for bar in bars if bar.role is Role.TIMED]
        ends = {time for bar in self._timed for time in (bar.span.start, bar.span.end)}
        few = len(self._timed) * _CELLS_A_GUIDE <= width
        self.guides = sorted(t for t in ends if few and self.window.start <= t <= self.window.end)

    def shows(self, bar: Bar) -> bool:
        """Return whether any of the bar is within the window."""
        start = max(bar.span.start, self.window.start)
        end = min(bar.span.end, self.window.end)
        return start < end or start == bar.span.start == bar.span.end == end

    def share(self, ns: int) -> float:
        """Return where a time falls, from 0 at the window's start to 1 at its end, clipped."""
        return min(max((ns - self.window.start) / self.length, 0.0), 1.0)

    def at(self, ns: int) -> float:
        """Return where a time falls, in cells from the window's start."""
        return self.share(ns) * self.width

    def cells(self, bar: Bar) -> tuple[int, int]:
        """Return the first cell that a bar takes and the one after its last; at least one cell.

        Which of a timed span and a kernel ends first survives the rounding: kernels' ends go up, a
        timed span's too, but down where a kernel that outlives it ends in the same cell.
        """
        start, exact = round(self.at(bar.span.start)), self.at(bar.span.end)
        if bar.role not in EXACT:
            start = min(start, self.width - 1)
            return start, max(round(exact), start + 1)
        down = bar.role is Role.TIMED and self._outlived(bar.span.end)
        end = max(math.floor(exact) if down else math.ceil(exact), 1)
        return min(start, end - 1), end

    def _outlived(self, ns: int) -> bool:
        after = bisect_right(self._kernel_ends, ns)
        ends = self._kernel_ends[after : after + 1]
        return any(self.at(end) <= math.ceil(self.at(ns)) for end in ends)

    def guide_cells(self) -> list[int]:
        """Return the cells in which what the clock read begins or ends, to be followed by eye."""
        first = (self.cells(bar)[0] for bar in self._timed if bar.span.start in self.guides)
        last = (self.cells(bar)[1] - 1 for bar in self._timed if bar.span.end in self.guides)
        return sorted({*first, *last})

    def clear(self, bar: Bar, label: str) -> tuple[float, float]:
        """Return the part of a bar for a label inside: between guides where it fits, as shares.

        The guide is not to be hidden just where the bar goes on after it.
        """
        whole = self.share(bar.span.start), self.share(bar.span.end)
        start, end = longest_piece(*whole, map(self.share, self.guides))
        return (start, end) if (end - start) * self.width > cell_len(label) + 1 else whole

    def clipped(self, bar: Bar) -> tuple[bool, bool]:
        """Return whether a bar reaches out of the window, to its left and to its right."""
        return bar.span.start < self.window.start, bar.span.end > self.window.end

    def told(self, bar: Bar) -> str:
        """Return a bar's label, and when it started, since the window's start, and how long."""
        since = Span(self.window.start, bar.span.start).seconds
        lasted = duration(bar.span.seconds)
        return f"{plain(bar.label)}: from {duration(since)}, for {lasted}"
