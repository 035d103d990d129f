"""`sync-modes`: what each mode read, what it measured, and what that is made of."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cudabench.records import L2, Estimate, Measurement, Session
from cudabench.report.bars import budget_table
from cudabench.report.doubts import clock_doubts, doubts, working_set
from cudabench.report.explain import Explainer
from cudabench.report.layout import (
    CLOCK_NAMES,
    FIGURES,
    SENTENCES_BESIDE,
    four_figures,
    heading,
    plain_table,
    signed,
)
from cudabench.units import duration


def sync_modes_report(session: Session, width: int) -> Iterator[RenderableType]:
    """Yield a table for the idle stream and one for the backlog, each row explained.

    The sentences stand in the table where `width` columns have room for them, else below it.
    """
    estimate = next(e for e in session.estimates if e.reading.l2 is L2.WARM)
    explainer = Explainer(session.measurements, estimate, session.loop.warmup)
    yield from _own_time_lines(estimate, session)
    beside = width >= SENTENCES_BESIDE
    for with_backlog in (False, True):
        rows = [m for m in session.measurements if (m.backlog is not None) == with_backlog]
        if not rows:
            continue
        yield from heading(f"add2, n = {rows[0].n:,}, {_situation(rows[0])}", session)
        yield _modes_table(rows, explainer, beside)
        yield ""
        if not beside:
            yield from (_sentence_line(m, explainer) for m in rows)
            yield ""
        yield from budget_table(rows, session, width)
    yield from clock_doubts(session)


def _own_time_lines(estimate: Estimate, session: Session) -> Iterator[RenderableType]:
    """Yield what the modes are held against."""
    net = estimate.net
    time = (
        f"{duration(net.value)} +/- {duration(net.half_width)}"
        if estimate.resolved
        else f"below {duration(estimate.bound)}, which is all that can be resolved"
    )
    yield Text(f"{estimate.reading.operator}'s own time, warm L2: {time}", style="bold")
    device = session.environment.device
    yield working_set(estimate, device)
    yield from doubts(estimate, device)
    yield ""


def _modes_table(rows: list[Measurement], explainer: Explainer, beside: bool) -> Table:
    table = plain_table(gap=1 if beside else 0)
    table.add_column("clock", no_wrap=True)
    table.add_column("syncs", no_wrap=True)
    for name in (*FIGURES, "vs both", "vs own", "not\nready"):
        table.add_column(name, justify="right", overflow="fold")
    if beside:
        table.add_column("what it measured", min_width=40)
    clock = None
    for m in rows:
        if clock not in (None, m.clock):
            table.add_section()
        name = "" if clock == m.clock else CLOCK_NAMES[m.clock]
        clock = m.clock
        sentence = [explainer.sentence(m)] if beside else []
        table.add_row(
            name,
            m.mode.label,
            *four_figures(m),
            signed(explainer.difference(m)),
            signed(explainer.excess(m)),
            _ready(m),
            *sentence,
        )
    return table


def _sentence_line(measurement: Measurement, explainer: Explainer) -> Text:
    name = f"{CLOCK_NAMES[measurement.clock]}, {measurement.mode.label}: "
    return Text.assemble((name, "bold"), explainer.sentence(measurement))


def _situation(measurement: Measurement) -> str:
    backlog = measurement.backlog
    if backlog is None:
        return "no backlog"
    return (
        f"behind a backlog of {backlog.launches} launches at n = {backlog.n:,}"
        f" ({duration(backlog.seconds)})"
    )


def _ready(measurement: Measurement) -> str:
    if measurement.clock.on_host:
        return ""
    return f"{measurement.not_ready}/{len(measurement.samples)}"
