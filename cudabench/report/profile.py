"""`profile` and `timeline`: what ran when, as timelines and tables."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import RenderableType
from rich.text import Text

from cudabench.report.layout import CLOCK_NAMES, plain_table
from cudabench.report.timeline import terminal
from cudabench.report.timeline.html import Table
from cudabench.report.timeline.pictures import of_iteration, of_stretch, short_name, typical
from cudabench.trace import Iteration, Picture, Trace, activities, busy
from cudabench.units import duration, microseconds

_MOST_NAMES = 10


def pictures_of(trace: Trace, iterations: Sequence[Iteration]) -> list[Picture]:
    """Return one picture for each mode, or, where nothing is ours, of how the trace begins."""
    if iterations:
        return [of_iteration(one, trace) for one in typical(iterations)]
    first = of_stretch(trace)
    return [first] if first else []


def profile_report(
    trace: Trace, iterations: Sequence[Iteration], width: int
) -> Iterator[RenderableType]:
    """Yield the timelines, and the tables below them.

    Of our own modes those on the host's clock are drawn, where it was used.
    """
    yield Text(f"{trace.device or 'unknown device'}, recorded by {trace.source}", style="italic")
    yield ""
    drawn = [one for one in iterations if one.clock.on_host] or iterations
    clocks = list(dict.fromkeys(one.clock for one in drawn))
    drawn = [one for one in drawn if one.clock is clocks[0]] if clocks else drawn
    for picture in pictures_of(trace, drawn):
        yield from terminal.picture(picture, width)
        yield ""
    yield terminal.legend()
    yield ""
    for table in tables_of(trace, iterations):
        yield from _table(table)


def tables_of(trace: Trace, iterations: Sequence[Iteration]) -> Iterator[Table]:
    """Yield the modes' parts, the device's time, and what ran by name, as text."""
    if iterations:
        yield _modes_table(iterations)
    if not trace.work.empty:
        yield _busy_table(trace)
        yield _names_table("what the device ran, us", trace, "work")
    if not trace.calls.empty:
        yield _names_table("calls on the host, us", trace, "calls")


def _modes_table(iterations: Iterable[Iteration]) -> Table:
    groups: dict[tuple[str, ...], list[Iteration]] = {}
    for one in iterations:
        backlog = "a backlog" if one.backlogged else "idle"
        key = (one.operator, backlog, CLOCK_NAMES[one.clock], one.mode.label)
        groups.setdefault(key, []).append(one)
    header = ("operator", "behind", "clock", "syncs", "launch call", "launch to start", "kernel")
    return Table(
        "medians of each mode's iterations, us",
        (*header, "end to return", "clock read"),
        tuple((*key, *_parts(group)) for key, group in groups.items()),
    )


def _parts(group: Sequence[Iteration]) -> Iterator[str]:
    yield _median(one.launch.seconds for one in group)
    yield _median(one.launch_to_start for one in group)
    yield _median(one.kernel for one in group)
    yield _median(one.end_to_return for one in group)
    yield _median(one.seconds for one in group)


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return microseconds(median(known)) if known else ""


def _busy_table(trace: Trace) -> Table:
    spent = busy(trace.work)
    whole = max(spent.span.seconds, 1e-9)
    longest = spent.longest_gap
    return Table(
        "the device, from its first work to its last",
        ("works", "in", "busy", "of it", "gaps", "longest gap"),
        (
            (
                f"{len(trace.work):,}",
                duration(whole),
                duration(spent.busy * 1e-9),
                f"{spent.busy * 1e-9 / whole:.1%}",
                f"{spent.gaps:,}",
                duration(longest.seconds) if longest else "",
            ),
        ),
    )


def _names_table(title: str, trace: Trace, which: str) -> Table:
    found = activities(trace.work if which == "work" else trace.calls)
    rows = [
        (
            short_name(one.name),
            f"{one.count:,}",
            *(
                microseconds(ns * 1e-9)
                for ns in (one.total, one.mean, one.median, one.minimum, one.maximum)
            ),
        )
        for one in found[:_MOST_NAMES]
    ]
    if len(found) > _MOST_NAMES:
        title += f" (the {_MOST_NAMES} that took longest, of {len(found):,})"
    return Table(title, ("name", "count", "total", "mean", "median", "min", "max"), tuple(rows))


def _table(table: Table) -> Iterator[RenderableType]:
    shown = plain_table(gap=1)
    for place, name in enumerate(table.header):
        figures = any(row[place][:1].isdigit() or row[place][:1] == "-" for row in table.rows)
        shown.add_column(name, justify="right" if figures else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    yield Text(table.title, style="bold")
    yield shown
    yield ""
