"""Where the labels of bars go. All three writers place them here, so that none hides another."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from rich.cells import cell_len

from cudabench.report.timeline.axis import EXACT, Axis, cut, plain
from cudabench.trace import Bar, Lane, Role

# Their labels are never left out without a word.
_NAMED = frozenset({Role.LAUNCH, Role.SYNCHRONIZE, Role.KERNEL, Role.TIMED})
# What a label under its bar begins or ends with: a corner and a space.
_CORNER = 2
# With more labels in want of a line than this the lines would be all that one sees.
_MOST_LEADERS = 8
_MOST_COUNTED = 6
# A label in its bar leaves this much of the bar to be seen.
_INSIDE_EXTRA = 6


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
        if end < cells[i + 1][0] and bars[i - 1].role not in EXACT:
            cells[i] = start + 1, end + 1
        elif start > cells[i - 2][1] and bars[i - 2].role not in EXACT:
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
