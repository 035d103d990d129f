"""The error budget: a stacked bar for each mode, and the figures that it is drawn from."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cudabench.budget import Budget, Part, budget
from cudabench.records import Measurement, Session
from cudabench.report.layout import CLOCK_NAMES, plain_table
from cudabench.units import microseconds

# Told apart without colour, too.
_INK = {
    Part.LAUNCH: ("▒", "yellow"),
    Part.BACKLOG: ("░", "magenta"),
    Part.START: ("-", "cyan"),
    Part.GAP: ("-", "cyan"),
    Part.OPERATOR: ("█", "green"),
    Part.PAIR: ("▓", "blue"),
    Part.END: ("▓", "blue"),
}
_UNEXPLAINED = ("?", "red")
# The columns of figures: a heading, and the parts that it is the sum of. A reading has at most one
# of each.
_COLUMNS: tuple[tuple[str, tuple[Part, ...]], ...] = (
    ("launch\ncall", (Part.LAUNCH,)),
    ("back-\nlog", (Part.BACKLOG,)),
    ("to start,\ngap", (Part.START, Part.GAP)),
    ("oper-\nator", (Part.OPERATOR,)),
    ("return,\npair", (Part.END, Part.PAIR)),
)
_LEGEND = (
    (
        (_INK[Part.LAUNCH], "launch call"),
        (_INK[Part.BACKLOG], "backlog"),
        (_INK[Part.GAP], "launch to start (events: gap in the pair)"),
    ),
    (
        (_INK[Part.OPERATOR], "operator"),
        (_INK[Part.END], "end to return (events: any pair's own)"),
        (_UNEXPLAINED, "unexplained"),
    ),
)


def budget_table(
    rows: Sequence[Measurement], session: Session, width: int
) -> Iterator[RenderableType]:
    """Yield the bars, all to one scale, their legend, and the figures; nothing without parts."""
    budgets = [(m, found) for m in rows if (found := budget(session, m))]
    if not budgets:
        return
    yield Text("What the medians are made of", style="bold")
    yield _bars(budgets, width)
    yield from map(_legend, _LEGEND)
    yield ""
    yield _figures(budgets)
    yield ""


def _bars(budgets: list[tuple[Measurement, Budget]], width: int) -> Table:
    table = plain_table(gap=1)
    _name_columns(table)
    room = min(width, _WIDEST) - _NAMES_WIDTH
    table.add_column("", no_wrap=True)
    longest = max(found.reading for _, found in budgets)
    for m, found in budgets:
        table.add_row(*_names(m), _bar(found, room / longest))
    return table


def _bar(found: Budget, scale: float) -> Text:
    """Return the parts as runs of characters, each ending where the sum up to it falls.

    Where they come to more than the reading, the last character of it is one of unexplained.
    """
    text, end = Text(), 0.0
    spans = [(_INK[part], seconds) for part, seconds in found.parts]
    for (character, style), seconds in (*spans, (_UNEXPLAINED, found.unexplained)):
        end += max(seconds, 0.0)
        text.append(character * (round(end * scale) - len(text)), style)
    length = max(round(found.reading * scale), 1)
    return text if len(text) <= length else text[: length - 1].append(*_UNEXPLAINED)


def _legend(line: tuple[tuple[tuple[str, str], str], ...]) -> Text:
    legend = Text()
    for (character, style), meaning in line:
        legend.append(character, style)
        legend.append(f" {meaning}  ")
    return legend


def _figures(budgets: list[tuple[Measurement, Budget]]) -> Table:
    table = plain_table(gap=1)
    _name_columns(table)
    for name, _ in _COLUMNS:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("un-\nexpl.", justify="right", overflow="fold")
    for m, found in budgets:
        cells = [sum(found.seconds(part) for part in parts) for _, parts in _COLUMNS]
        shown = [microseconds(seconds) if seconds else "" for seconds in cells]
        table.add_row(*_names(m), *shown, microseconds(found.unexplained))
    return table


def _name_columns(table: Table) -> None:
    table.add_column("clock", no_wrap=True)
    table.add_column("syncs", no_wrap=True)
    table.add_column("reads", justify="right", no_wrap=True)


def _names(measurement: Measurement) -> tuple[str, str, str]:
    return (
        CLOCK_NAMES[measurement.clock],
        measurement.mode.label,
        microseconds(measurement.summary.median),
    )


# What the name columns and the spaces between take, and how wide the whole may be.
_NAMES_WIDTH = 38
_WIDEST = 140
