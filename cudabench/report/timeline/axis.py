"""The scale that the lanes of a picture share, and where on it bars and their labels go.

Places are counted in cells, each as wide as a character of the labels: a terminal's own, or what a
drawing's letters take. All three writers place labels here, so that none hides another.
"""

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from cudabench.trace import Bar, Lane, Picture, Role, Span
from cudabench.units import duration

# Their labels are never left out without a word.
_NAMED = frozenset({Role.LAUNCH, Role.SYNCHRONIZE, Role.KERNEL, Role.TIMED})
# Which of them ends first survives the rounding to cells.
_EXACT = frozenset({Role.KERNEL, Role.TIMED})
ROLE_NAMES = {
    Role.SYNCHRONIZE: "synchronize",
    Role.LAUNCH: "launch call",
    Role.KERNEL: "kernel",
    Role.BACKLOG: "backlog",
    Role.OTHER: "other",
    Role.TIMED: "clock's reading",
}
# What a label under its bar begins or ends with: a corner and a space.
_CORNER = 2
# With more labels in want of a line than this the lines would be all that one sees.
_MOST_LEADERS = 8
_MOST_COUNTED = 6
_CELLS_A_GUIDE = 10
# A label in its bar leaves this much of the bar to be seen.
_INSIDE_EXTRA = 6
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
        if bar.role not in _EXACT:
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

    def clear(self, one: "Placed") -> tuple[float, float]:
        """Return the part of a bar for the label inside: between guides where it fits, as shares.

        The guide is not to be hidden just where the bar goes on after it.
        """
        whole = self.share(one.bar.span.start), self.share(one.bar.span.end)
        start, end = longest_piece(*whole, map(self.share, self.guides))
        return (start, end) if (end - start) * self.width > cell_len(one.label) + 1 else whole

    def clipped(self, bar: Bar) -> tuple[bool, bool]:
        """Return whether a bar reaches out of the window, to its left and to its right."""
        return bar.span.start < self.window.start, bar.span.end > self.window.end

    def told(self, bar: Bar) -> str:
        """Return a bar's label, and when it started, since the window's start, and how long."""
        since = Span(self.window.start, bar.span.start).seconds
        lasted = duration(bar.span.seconds)
        return f"{plain(bar.label)}: from {duration(since)}, for {lasted}"


class Place(Enum):
    """Where a label stands: in, after, before or under its bar (from its start, to its end)."""

    INSIDE = "inside"
    AFTER = "after"
    BEFORE = "before"
    UNDER = "under"
    UNDER_END = "under-end"
    NOWHERE = "nowhere"


@dataclass(frozen=True)
class Placed:
    """A bar, the cells that it takes, and its label.

    Attributes:
        label: In one line, and cut where it is long.
        line: How many lines under the bar the label stands; 0 for the bar's own.
    """

    bar: Bar
    start: int
    end: int
    label: str
    place: Place = Place.NOWHERE
    line: int = 0

    @property
    def anchor(self) -> int:
        """The cell from which a line leads down to the label."""
        return self.end - 1 if self.place is Place.UNDER_END else self.start

    @property
    def text(self) -> tuple[int, int]:
        """The first cell of a label that is not inside, and the one after its last."""
        length = cell_len(self.label)
        if self.place is Place.AFTER:
            return self.end + 1, self.end + 1 + length
        if self.place is Place.BEFORE:
            return self.start - 1 - length, self.start - 1
        if self.place is Place.UNDER:
            return self.start, self.start + _CORNER + length
        return self.end - _CORNER - length, self.end


@dataclass(frozen=True)
class Row:
    """Bars of a lane none of which overlaps another.

    Attributes:
        lines: How many lines of labels are under them.
        unplaced: What is to be said of the labels that found no place; "" where all did.
    """

    bars: tuple[Placed, ...]
    lines: int
    unplaced: str


def rows(lane: Lane, axis: Axis) -> tuple[Row, ...]:
    """Return a lane's bars in as many rows as their overlaps need, at least one, with labels."""
    stacked: list[list[Bar]] = [[]]
    for bar in filter(axis.shows, lane.bars):
        free = (row for row in stacked if not row or row[-1].span.end <= bar.span.start)
        row = next(free, None)
        if row is None:
            stacked.append(row := [])
        row.append(bar)
    return tuple(_labelled(row, axis) for row in stacked)


def _labelled(bars: list[Bar], axis: Axis) -> Row:
    longest = axis.width // 2 - _CORNER - 1
    placed = [
        Placed(bar, *taken, cut(plain(bar.label), longest))
        for bar, taken in zip(bars, _parted(bars, axis), strict=True)
    ]
    paper = _Paper(axis.width)
    for one in placed:
        paper.take(0, one.start, one.end)
    # The sort is stable. Those that must be named choose first.
    labelled = (i for i, one in enumerate(placed) if one.label)
    order = sorted(labelled, key=lambda i: bars[i].role not in _NAMED)
    guides = set(axis.guide_cells())
    for i in order:
        placed[i] = _beside(placed[i], paper, guides)
    homeless = [i for i in order if placed[i].place is Place.NOWHERE and bars[i].role in _NAMED]
    if len(homeless) <= _MOST_LEADERS:
        for i, found in _under({i: placed[i] for i in homeless}, paper):
            placed[i] = found
    lost = [placed[i].label for i in homeless if placed[i].place is Place.NOWHERE]
    return Row(tuple(placed), max((one.line for one in placed), default=0), _counted(lost))


def _parted(bars: list[Bar], axis: Axis) -> list[tuple[int, int]]:
    """Return the cells of each bar; where two would share one, the next or the one before, if free.

    Kernels and timed spans keep theirs: which of them ends first is what one looks for.
    """
    cells = [(0, 0), *(axis.cells(bar) for bar in bars), (axis.width, axis.width)]
    for i in range(2, len(bars) + 1):
        start, end = cells[i]
        if cells[i] != cells[i - 1]:
            continue
        if end < cells[i + 1][0] and bars[i - 1].role not in _EXACT:
            cells[i] = start + 1, end + 1
        elif start > cells[i - 2][1] and bars[i - 2].role not in _EXACT:
            cells[i - 1] = start - 1, end - 1
    return cells[1:-1]


def _counted(labels: Iterable[str]) -> str:
    """Return each label once, and how often where that is not once; of many, those seen most."""
    counts = Counter(labels)
    told = [f"{n} x {label}" if n > 1 else label for label, n in counts.most_common(_MOST_COUNTED)]
    others = sum(counts.values()) - sum(n for _, n in counts.most_common(_MOST_COUNTED))
    return ", ".join((*told, f"{others} others") if others else told)


class _Paper:
    """Which cells are taken on the bars' own line, 0, and on the label lines under it."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._taken: dict[int, bytearray] = defaultdict(lambda: bytearray(width))

    def take(self, line: int, start: int, end: int) -> None:
        self._taken[line][start:end] = b"\1" * (end - start)

    def free(self, line: int, start: int, end: int) -> bool:
        """Return whether the cells, and one at either side, are free."""
        inside = start >= 0 and end <= self._width
        return inside and not any(self._taken[line][max(start - 1, 0) : end + 1])

    def leads(self, column: int, lines: range) -> bool:
        """Return whether a line down a column meets nothing."""
        return not any(self._taken[line][column] for line in lines)


def _beside(one: Placed, paper: _Paper, guides: set[int]) -> Placed:
    """Return it with its label in it, after it or before it, where there is room."""
    if cell_len(one.label) + _INSIDE_EXTRA <= one.end - one.start:
        return _at(one, Place.INSIDE)
    for found in (_at(one, Place.AFTER), _at(one, Place.BEFORE)):
        if paper.free(0, *found.text) and guides.isdisjoint(range(*found.text)):
            paper.take(0, *found.text)
            return found
    return one


def _at(one: Placed, place: Place, line: int = 0) -> Placed:
    return Placed(one.bar, one.start, one.end, one.label, place, line)


def _under(homeless: dict[int, Placed], paper: _Paper) -> Iterator[tuple[int, Placed]]:
    """Yield those that find a place on a line under their bars, by their keys.

    From right to left, as labels extend to the right. A label that would cross the column of one
    that waits, and may have to go below it, waits itself for the second round.
    """
    waiting = dict(homeless)
    for key in (*sorted(homeless, reverse=True), *sorted(homeless)):
        one = waiting.pop(key, None)
        if one is None:
            continue
        found = _hung(one, paper, {other.start for other in waiting.values()} - {one.start})
        if found is None:
            waiting[key] = one
        else:
            yield key, found


def _hung(one: Placed, paper: _Paper, reserved: set[int]) -> Placed | None:
    for line in range(1, _MOST_LEADERS + 1):
        for found in (_at(one, Place.UNDER, line), _at(one, Place.UNDER_END, line)):
            start, end = found.text
            clear = paper.free(line, start, end) and paper.leads(found.anchor, range(1, line))
            if clear and reserved.isdisjoint(range(start, end)):
                for above in range(1, line):
                    paper.take(above, found.anchor, found.anchor + 1)
                paper.take(line, start, end)
                return found
    return None
