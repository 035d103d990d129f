"""A picture in a terminal: lanes of characters on one scale, told apart without colour, too."""

import math
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.text import Text

from cudabench.report.timeline.axis import ROLE_NAMES, Axis, cut, longest_piece, plain, ticks
from cudabench.report.timeline.labels import Place, Placed, Row, rows
from cudabench.trace import Lane, Picture, Role

# As in the error budget: whose parts these are.
_INK = {
    Role.SYNCHRONIZE: ("▓", "blue"),
    Role.LAUNCH: ("▒", "yellow"),
    Role.KERNEL: ("█", "green"),
    Role.BACKLOG: ("░", "magenta"),
    Role.OTHER: ("▄", "bright_black"),
    Role.TIMED: ("─", "bold"),
}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GUIDE = ("┊", "red")
# No terminal is wider; what says so is a pipe, see console.py.
_WIDEST_TERMINAL = 500
_PIPE_WIDTH = 120
_FEWEST_CELLS = 10
# A tick's label and the space to the next.
_CELLS_A_TICK = 11


def picture(picture: Picture, width: int) -> Iterator[RenderableType]:
    """Yield the title, the scale, each lane's bars with the labels under them, and the caption."""
    width = width if width <= _WIDEST_TERMINAL else _PIPE_WIDTH
    longest = max((cell_len(plain(lane.name)) for lane in picture.lanes), default=0)
    names = min(longest, width // 4)
    axis = Axis(picture, max(width - names - 1, _FEWEST_CELLS))
    yield Text(plain(picture.title), style="bold")
    for line in (*_scale(axis), *(line for lane in picture.lanes for line in _lane(lane, axis))):
        yield Text.assemble(_fitted(line.name, names), " ", line.text())
    if picture.caption:
        yield Text(plain(picture.caption), style="italic")


def legend() -> Text:
    """Return what the bars stand for, on a line of less than 80 characters."""
    text = Text()
    for role, name in ROLE_NAMES.items():
        character, style = _INK[role]
        text.append("├─┤" if role is Role.TIMED else character, style)
        text.append(f" {name}  ")
    text.rstrip()
    return text


_BLANK = (" ", "")


class _Line:
    """A line of cells to write on, and the name at its left."""

    def __init__(self, width: int, name: str = "") -> None:
        self.name = name
        self._cells = [_BLANK] * width

    def write(self, column: int, text: str, style: str) -> None:
        """Write from a column on; what falls outside is left out."""
        for character in text:
            size = cell_len(character)
            if column >= 0 and column + size <= len(self._cells) and size:
                self._cells[column] = (character, style)
                self._cells[column + 1 : column + size] = [("", style)] * (size - 1)
            column += size

    def blank(self, column: int) -> bool:
        """Return whether nothing was written there, be it a space."""
        return self._cells[column] is _BLANK

    def text(self) -> Text:
        # Run by run: rich would write the codes of a style around each character.
        runs = groupby(self._cells, key=itemgetter(1))
        text = Text.assemble(*(("".join(c for c, _ in run), style) for style, run in runs))
        text.rstrip()
        return text


def _fitted(name: str, cells: int) -> Text:
    return Text(set_cell_size(cut(plain(name), cells), cells), style="bold")


def _scale(axis: Axis) -> Iterator[_Line]:
    labels, rule = _Line(axis.width), _Line(axis.width)
    rule.write(0, "─" * axis.width, "dim")
    for tick in ticks(axis.length, axis.width // _CELLS_A_TICK + 1):
        column = min(round(axis.at(axis.window.start + tick.ns)), axis.width - 1)
        rule.write(column, "┬", "dim")
        # What reaches out at the right is left out, all of it.
        if column + len(tick.label) <= axis.width:
            labels.write(column, tick.label, "dim")
    yield labels
    yield rule


def _lane(lane: Lane, axis: Axis) -> Iterator[_Line]:
    for number, row in enumerate(rows(lane, axis)):
        yield from _row(row, axis, "" if number else lane.name)


def _row(row: Row, axis: Axis, name: str) -> Iterator[_Line]:
    lines = [_Line(axis.width, name), *(_Line(axis.width) for _ in range(row.lines))]
    guides = axis.guide_cells()
    # The shortest last: a bar of one cell is not to be hidden.
    for one in sorted(row.bars, key=lambda one: one.start - one.end):
        lines[0].write(one.start, _drawn(one, axis), _INK[one.bar.role][1])
    _part(row, lines[0])
    _guide_bars(row, lines[0], guides)
    for one in row.bars:
        _label(one, lines, guides)
    if row.unplaced:
        lines.append(_Line(axis.width))
        lines[-1].write(0, cut(f"not labelled: {row.unplaced}", axis.width), "")
    for line in lines:
        for guide in filter(line.blank, guides):
            line.write(guide, *_GUIDE)
        yield line


def _drawn(one: Placed, axis: Axis) -> str:
    """Return a bar's characters: a bracket for what the clock read, else a filled run."""
    (fill, _), timed = _INK[one.bar.role], one.bar.role is Role.TIMED
    left, right = axis.clipped(one.bar)
    if one.end - one.start == 1:
        return "◀" if left else "▶" if right else "│" if timed else fill
    first = "◀" if left else "├" if timed else fill
    last = "▶" if right else "┤" if timed else _end(one, axis)
    return first + fill * (one.end - one.start - 2) + last


def _end(one: Placed, axis: Axis) -> str:
    """Return a bar's last character: a kernel's, which is solid, ends at an eighth of a cell."""
    if one.bar.role is not Role.KERNEL:
        return _INK[one.bar.role][0]
    return _EIGHTHS[max(math.ceil(8 * (axis.at(one.bar.span.end) - (one.end - 1))), 1)]


def _part(row: Row, line: _Line) -> None:
    """Leave a space between bars of one role that touch; at the start, as ends are looked at."""
    for one, following in pairwise(row.bars):
        alike = one.bar.role is following.bar.role is not Role.TIMED
        touch = one.end >= following.start and following.end - following.start > 2
        # A label may hang from the start.
        if alike and touch and following.place is not Place.UNDER:
            line.write(following.start, " ", "")


def _guide_bars(row: Row, line: _Line, guides: list[int]) -> None:
    """Draw the guides through the bars that they cut, the ends of which stay."""
    for one in row.bars:
        for guide in guides:
            if one.start < guide < one.end - 1 and one.bar.role is not Role.TIMED:
                line.write(guide, *_GUIDE)


def _label(one: Placed, lines: list[_Line], guides: list[int]) -> None:
    style = _INK[one.bar.role][1]
    start, _ = one.text
    if one.place is Place.INSIDE:
        text = f" {one.label} "
        lines[0].write(_middle(one, cell_len(text), guides), text, "bold")
    elif one.place in (Place.AFTER, Place.BEFORE):
        lines[0].write(start, one.label, style)
    elif one.place is not Place.NOWHERE:
        for line in lines[1 : one.line]:
            line.write(one.anchor, "│", style)
        text = f"└ {one.label}" if one.place is Place.UNDER else f"{one.label} ┘"
        lines[one.line].write(start, text, style)


def _middle(one: Placed, size: int, guides: list[int]) -> int:
    """Return where a label of a size begins: midway in the longest piece between guides, if any."""
    start, end = longest_piece(one.start, one.end - 1, guides)
    if end - start - 1 < size:
        start, end = one.start, one.end - 1
    return round(start) + 1 + round(end - start - 1 - size) // 2
