"""Pictures as one SVG: no script, no font, nothing from elsewhere; light or dark as its reader."""

import textwrap
from collections.abc import Sequence
from html import escape

from rich.cells import cell_len

from cudabench.report.timeline.axis import ROLE_NAMES, Axis, cut, plain, ticks
from cudabench.report.timeline.labels import Place, Placed, Row, rows
from cudabench.trace import Bar, Lane, Picture, Role

_WIDTH = 960
_MARGIN = 16
# What a letter of 11 px takes in a font of one width: 0.6 of its size, and a little.
_CELL = 6.7
_MOST_NAME_CELLS = 18
_BAR = 18
_LINE = 15
_GAP = 7
_CELLS_A_TICK = 12
_LETTERS_A_LINE = 140
_STYLE = """
:root { color-scheme: light dark }
svg { --paper: #fff; --ink: #1c2127; --faint: #d5dae0; --guide: #c2255c }
@media (prefers-color-scheme: dark) {
  svg { --paper: #15181c; --ink: #e4e7eb; --faint: #3a4048; --guide: #ff6b9d }
}
text { font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ink) }
.title { font: bold 14px system-ui, sans-serif }
.heading { font: bold 20px system-ui, sans-serif }
.caption { font: 13px system-ui, sans-serif }
.name { font-weight: bold }
.paper { fill: var(--paper) }
.tick { stroke: var(--faint) }
.leader { stroke: var(--ink); stroke-width: 0.7; fill: none }
.guide { stroke: var(--guide); stroke-dasharray: 3 3; stroke-width: 1.5 }
.halo { stroke: var(--paper); stroke-opacity: 0.6; stroke-width: 3.5 }
.synchronize { fill: #3573b5 }
.launch { fill: #f0b429 }
.kernel { fill: #1b7f4b }
.backlog { fill: #b197d6; fill-opacity: 0.4; stroke: #8a63c4; stroke-dasharray: 4 2 }
.other { fill: #8b939c; fill-opacity: 0.35; stroke: #8b939c; stroke-width: 0.7 }
.timed { fill: none; stroke: var(--guide); stroke-width: 2 }
.in-synchronize, .in-kernel { fill: #fff }
.in-launch { fill: #1c2127 }
.in-timed { font-weight: bold }
"""


def svg(pictures: Sequence[Picture], title: str) -> str:
    """Return the pictures below one another, under a title, as a document that needs no other."""
    sheet = _Sheet()
    sheet.write("heading", _MARGIN, title, 22)
    _legend(sheet)
    for picture in pictures:
        _picture(sheet, picture)
    name, height = escape(plain(title)), round(sheet.y + _MARGIN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{name}">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>\n{sheet.drawn()}\n</svg>\n'
    )


class _Sheet:
    """What was drawn so far, in layers, and how far down."""

    def __init__(self) -> None:
        self.y = float(_MARGIN)
        self._behind: list[str] = []
        self._bars: list[str] = []
        self._above: list[str] = []

    def rule(self, element: str) -> None:
        """Draw behind the bars."""
        self._behind.append(element)

    def draw(self, element: str) -> None:
        """Draw on top of the bars that there are."""
        self._bars.append(element)

    def over(self, element: str) -> None:
        """Draw on top of the guides."""
        self._above.append(element)

    def text(self, kind: str, x: float, y: float, text: str, anchor: str = "start") -> None:
        """Write on top of what is drawn, from `x`, or to it, or around it."""
        self.over(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{escape(plain(text))}</text>"
        )

    def write(self, kind: str, x: float, text: str, height: float) -> None:
        """Write a line, and go below it."""
        self.y += height
        self.text(kind, x, self.y - 4, text)

    def drawn(self) -> str:
        return "\n".join((*self._behind, *self._bars, *self._above))


def _legend(sheet: _Sheet) -> None:
    x = float(_MARGIN)
    y = sheet.y + 6
    for role, name in ROLE_NAMES.items():
        outline = _outline(role, x, x + 22, y, (False, False))
        sheet.draw(f'<path class="{role.value}" d="{outline}"/>')
        sheet.text("", x + 28, y + 13, name)
        x += 28 + (len(name) + 3) * _CELL
    sheet.y = y + _BAR


def _picture(sheet: _Sheet, picture: Picture) -> None:
    sheet.y += 18
    sheet.write("title", _MARGIN, picture.title, 20)
    plot = _Plot(picture)
    top = sheet.y + 4
    sheet.y += 24
    for lane in picture.lanes:
        _lane(sheet, plot, lane)
    _lines(sheet, plot, top)
    for line in textwrap.wrap(plain(picture.caption), _LETTERS_A_LINE):
        sheet.write("caption", _MARGIN, line, 18)


class _Plot:
    """Where the bars of a picture are drawn."""

    def __init__(self, picture: Picture) -> None:
        longest = max((cell_len(plain(lane.name)) for lane in picture.lanes), default=0)
        self.name_cells = min(longest, _MOST_NAME_CELLS)
        self.left = _MARGIN + (self.name_cells + 2) * _CELL
        self.width = _WIDTH - _MARGIN - self.left
        self.axis = Axis(picture, int(self.width / _CELL))

    def x(self, ns: int) -> float:
        return self.left + self.width * self.axis.share(ns)

    def middle(self, one: Placed) -> float:
        """Return around where to write a label that is inside its bar."""
        return self.left + self.width * sum(self.axis.clear(one.bar, one.label)) / 2

    def ends(self, bar: Bar) -> tuple[float, float]:
        """Return from where to where a bar is drawn: at least so much that it is seen."""
        left = min(self.x(bar.span.start), self.left + self.width - 1.5)
        return left, max(self.x(bar.span.end), left + 1.5)


def _lines(sheet: _Sheet, plot: _Plot, top: float) -> None:
    """Draw the scale, and the guides down from where what the clock read begins and ends."""
    axis = plot.axis
    for tick in ticks(axis.length, axis.width // _CELLS_A_TICK):
        x = plot.x(axis.window.start + tick.ns)
        sheet.rule(f'<path class="tick" d="M{x:.1f} {top:.1f}V{sheet.y:.1f}"/>')
        if x + len(tick.label) * _CELL < _WIDTH:
            sheet.text("", x + 3, top + 10, tick.label)
    for time in axis.guides:
        line = f"M{plot.x(time):.1f} {top + 16:.1f}V{sheet.y:.1f}"
        sheet.draw(f'<path class="halo" d="{line}"/><path class="guide" d="{line}"/>')


def _lane(sheet: _Sheet, plot: _Plot, lane: Lane) -> None:
    sheet.text("name", _MARGIN, sheet.y + 13, cut(plain(lane.name), plot.name_cells))
    for row in rows(lane, plot.axis):
        _row(sheet, plot, row)


def _row(sheet: _Sheet, plot: _Plot, row: Row) -> None:
    # The shortest last: it is not to be hidden.
    for one in sorted(row.bars, key=lambda one: one.bar.span.start - one.bar.span.end):
        role, ends = one.bar.role, plot.ends(one.bar)
        outline = _outline(role, *ends, sheet.y, plot.axis.clipped(one.bar))
        told = escape(plot.axis.told(one.bar))
        # A bracket's ends are not to be hidden by its guides.
        draw = sheet.over if role is Role.TIMED else sheet.draw
        draw(f'<path class="{role.value}" d="{outline}"><title>{told}</title></path>')
        _label(sheet, plot, one)
    sheet.y += _BAR + row.lines * _LINE
    if row.unplaced:
        sheet.write("", plot.left, f"not labelled: {row.unplaced}", _LINE)
    sheet.y += _GAP


def _outline(role: Role, left: float, right: float, top: float, clipped: tuple[bool, bool]) -> str:
    """Return the path of a bar, or bracket, with a point where it reaches out of the window."""
    tip = min(6.0, right - left)
    inner = left + tip * clipped[0], right - tip * clipped[1]
    middle, bottom = top + _BAR / 2, top + _BAR
    if role is Role.TIMED:
        ends = [x for x, cut in zip((left, right), clipped, strict=True) if not cut]
        strokes = "".join(f"M{x:.1f} {top + 2}V{bottom - 2}" for x in ends)
        return f"M{left:.1f} {middle}H{right:.1f}{strokes}"
    return (
        f"M{inner[0]:.1f} {top}H{inner[1]:.1f}L{right:.1f} {middle}L{inner[1]:.1f} {bottom}"
        f"H{inner[0]:.1f}L{left:.1f} {middle}Z"
    )


def _label(sheet: _Sheet, plot: _Plot, one: Placed) -> None:
    (left, right), level = plot.ends(one.bar), sheet.y + 13
    if one.place is Place.INSIDE:
        middle, width = plot.middle(one), (cell_len(one.label) + 2) * _CELL
        if one.bar.role is Role.TIMED:
            x, y = f"{middle - width / 2:.1f}", f"{sheet.y:.1f}"
            sheet.over(f'<rect class="paper" x="{x}" y="{y}" width="{width:.1f}" height="{_BAR}"/>')
        sheet.text(f"in-{one.bar.role.value}", middle, level, one.label, "middle")
    elif one.place is Place.AFTER:
        sheet.text("", right + 4, level, one.label)
    elif one.place is Place.BEFORE:
        sheet.text("", left - 4, level, one.label, "end")
    elif one.place is not Place.NOWHERE:
        _hang(sheet, one, left, right)


def _hang(sheet: _Sheet, one: Placed, left: float, right: float) -> None:
    """Draw a label under its bar, and the line that leads to it."""
    at_start = one.place is Place.UNDER
    x, aside, anchor = (left + 0.5, 6, "start") if at_start else (right - 0.5, -6, "end")
    level = sheet.y + _BAR + one.line * _LINE
    sheet.over(f'<path class="leader" d="M{x:.1f} {sheet.y + _BAR}V{level - 6}h{aside / 2}"/>')
    sheet.text("", x + aside, level - 2, one.label, anchor)
