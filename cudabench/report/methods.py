"""All methods beside each other: what they agree on, who does not, and why."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cudabench.consensus import SECOND_OPINIONS, Panel, panels
from cudabench.records import (
    L2,
    Estimate,
    Measurement,
    Method,
    Observer,
    Opinion,
    SecondOpinion,
    Session,
)
from cudabench.report.doubts import clock_doubts, doubts, working_set
from cudabench.report.explain import Explainer
from cudabench.report.layout import CLOCK_NAMES, SENTENCES_BESIDE, heading, plain_table, signed
from cudabench.units import duration, microseconds

_NAMES = {
    Opinion.BATCH: "batch",
    Opinion.GRAPH: "CUDA graph",
    Opinion.CUPTI: "CUPTI",
    Opinion.DO_BENCH: "triton do_bench",
    Opinion.DO_BENCH_CUDAGRAPH: "do_bench_cudagraph",
}


@dataclass(frozen=True)
class _Row:
    """A method, its figure in seconds where it has one, and what there is to say of it."""

    name: str
    seconds: float | None
    remark: str
    bound: float | None = None


def methods_report(session: Session, width: int) -> Iterator[RenderableType]:
    """Yield a table and its findings for each operator and state of the cache."""
    for panel, estimate in zip(panels(session), session.estimates, strict=True):
        title = f"{panel.operator}, n = {panel.n:,}, {panel.l2.value} L2, by every method"
        yield from heading(title, session)
        rows = list(_rows(panel, estimate, session))
        beside = width >= SENTENCES_BESIDE
        yield _table(rows, panel, beside)
        yield ""
        if not beside:
            yield from (
                Text.assemble((f"{row.name}: ", "bold"), row.remark) for row in rows if row.remark
            )
            yield ""
        yield from _findings(panel, estimate, session)
        yield ""
    if not any(estimate.reading.l2 is L2.WARM for estimate in session.estimates):
        yield "The eight modes leave the cache warm: they stand in the table of --l2 warm or both."
    yield from clock_doubts(session)


def _rows(panel: Panel, estimate: Estimate, session: Session) -> Iterator[_Row]:
    bound = None if estimate.resolved else estimate.bound
    yield _Row("cudabench's own", panel.own, "", bound)
    for opinion in panel.opinions:
        yield _Row(_NAMES[opinion.opinion], panel.figure(opinion), cause(panel, opinion))
    if panel.l2 is not L2.WARM:
        return  # the modes leave the cache warm
    modes = [m for m in session.measurements if m.operator == panel.operator]
    explainer = Explainer(modes, estimate, session.loop.warmup)
    for m in modes:
        yield _Row(_mode_name(m), m.summary.median, explainer.sentence(m))


def _mode_name(measurement: Measurement) -> str:
    return f"{CLOCK_NAMES[measurement.clock]}, {measurement.mode.label}"


def _table(rows: list[_Row], panel: Panel, beside: bool) -> Table:
    table = plain_table(gap=1)
    table.add_column("method", no_wrap=True)
    for name in ("time", "off by", "%", ""):
        table.add_column(name, justify="right", overflow="fold")
    if beside:
        table.add_column("why", min_width=40)
    for i, row in enumerate(rows):
        if i == 1 + len(panel.opinions):
            table.add_section()
        table.add_row(row.name, *_figures(row, panel), *([row.remark] if beside else []))
    return table


def _figures(row: _Row, panel: Panel) -> tuple[str, str, str, str]:
    """Return the time, its difference from the consensus, that in per cent, and a mark."""
    consensus = panel.consensus
    if row.seconds is None:
        return (f"< {microseconds(row.bound)}" if row.bound else "none", "", "", "")
    if consensus is None or consensus <= 0:
        return microseconds(row.seconds), "", "", ""
    off = row.seconds - consensus
    mark = "agrees" if panel.agrees(row.seconds) else ""
    return microseconds(row.seconds), signed(off), f"{off / consensus:+.1%}".rstrip("%"), mark


def _findings(panel: Panel, estimate: Estimate, session: Session) -> Iterator[RenderableType]:
    """Yield what the methods agree on, and whose disagreement matters."""
    device = session.environment.device
    if panel.consensus is None:
        yield Text("No method that can be trusted has a figure.", style="bold")
    else:
        judged = [o for o in panel.opinions if o.opinion in SECOND_OPINIONS]
        figures = [("cudabench's own", panel.own)]
        figures += [(_NAMES[opinion.opinion], panel.figure(opinion)) for opinion in judged]
        said = [(name, seconds) for name, seconds in figures if seconds is not None]
        others = [name for name, seconds in said if not panel.agrees(seconds)]
        names = ", ".join(name for name, _ in said)
        verdict = "they agree"
        if others:
            verdict = f"{' and '.join(others)} disagree{'s' if len(others) == 1 else ''}"
        if len(said) == 1:
            verdict = "no second opinion"
        yield Text(f"Consensus {duration(panel.consensus)} ({names}): {verdict}.", style="bold")
    if panel.observer:
        yield _observer_line(panel.observer)
    yield working_set(estimate, device)
    yield from doubts(estimate, device)


def _observer_line(observer: Observer) -> str:
    outside, inside = (statistics.median(p) for p in (observer.outside, observer.inside))
    return (
        f"The profiler's own effect: event pairs read {duration(outside)} without it and"
        f" {duration(inside)} while it runs ({observer.effect / outside:+.1%})."
    )


def cause(panel: Panel, opinion: SecondOpinion) -> str:
    """Return why a method's figure is what it is, in one sentence; "" where it agrees."""
    seconds, consensus = panel.figure(opinion), panel.consensus
    if seconds is None or consensus is None:
        return _capital(f"{opinion.why_not}.")
    if panel.agrees(seconds):
        return ""
    if panel.method is Method.ELSEWHERE:
        return "Its events are on the current stream, and nothing of the operator ran there."
    if opinion.opinion is Opinion.CUPTI and panel.observer:
        return _observed(panel.observer, seconds - consensus)
    return _CAUSES.get((opinion.opinion, panel.l2, seconds > consensus), "Unexplained.")


def _observed(observer: Observer, difference: float) -> str:
    """Say whether the profiler explains that CUPTI's figure differs."""
    outside, inside = (statistics.median(pairs) for pairs in (observer.outside, observer.inside))
    pairs = (
        f"the same event pairs read {duration(outside)} outside the profiler and"
        f" {duration(inside)} inside"
    )
    if difference > 0 and observer.effect >= difference / 2:
        return f"The profiler slows it: {pairs}. CUPTI is right for the run that it saw."
    return f"Unexplained; the profiler's own effect is not the cause: {pairs}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_PAIRS_SHARE = "What any event pair reads beyond the kernel is still in it"
_NEXT_LAUNCH = (
    "From one launch to the next the device takes that much longer than with small ones, whose time"
    " between is taken off."
)
_BEFORE_EACH = "The flush before each launch, whose time is taken off, overlaps with it."
# By method, state of the cache, and whether its figure is above the consensus.
_CAUSES = {
    (Opinion.BATCH, L2.WARM, True): _NEXT_LAUNCH,
    (Opinion.GRAPH, L2.WARM, True): _NEXT_LAUNCH,
    (Opinion.BATCH, L2.COLD, True): _NEXT_LAUNCH,
    (Opinion.GRAPH, L2.COLD, True): _NEXT_LAUNCH,
    (Opinion.BATCH, L2.COLD, False): _BEFORE_EACH,
    (Opinion.GRAPH, L2.COLD, False): _BEFORE_EACH,
    (Opinion.DO_BENCH, L2.WARM, True): f"{_PAIRS_SHARE}, and it flushes the L2 first.",
    (Opinion.DO_BENCH, L2.COLD, True): f"{_PAIRS_SHARE}.",
    (Opinion.DO_BENCH_CUDAGRAPH, L2.WARM, True): (
        "What passes between two launches, and what a replay costs, are still in it."
    ),
    (Opinion.DO_BENCH_CUDAGRAPH, L2.COLD, False): "It leaves the L2 warm.",
}
