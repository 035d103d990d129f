"""What the reports have in common: names, headings, tables, signs."""

from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from cudabench.records import Clock, Measurement, Session
from cudabench.units import microseconds

CLOCK_NAMES = {
    Clock.TIME: "time.time",
    Clock.PERF_COUNTER: "perf_counter",
    Clock.EVENT: "events",
}
FIGURES = ("mean", "median", "min", "max")
# Below this the sentences go under the table.
SENTENCES_BESIDE = 120


def heading(title: str, session: Session) -> Iterator[Text]:
    """Yield what a table shows, where it was measured, and what is wrong with it."""
    yield Text(title, style="bold")
    yield Text(f"{session.environment.device.label}, float32, in us", style="italic")
    for operator in session.wrong():
        yield Text(f"{operator}'s result is WRONG: its times are invalid", style="bold red")


def plain_table(gap: int) -> Table:
    """Return a table with `gap` spaces and the box's one between its columns."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))


def four_figures(measurement: Measurement) -> tuple[str, str, str, str]:
    """Return the cells of FIGURES, in us."""
    summary = measurement.summary
    return (
        microseconds(summary.mean),
        microseconds(summary.median),
        microseconds(summary.minimum),
        microseconds(summary.maximum),
    )


def signed(seconds: float | None) -> str:
    """Return a difference in us with its sign, "" where there is none."""
    if seconds is None:
        return ""
    return f"+{microseconds(seconds)}" if seconds > 0 else microseconds(seconds)
