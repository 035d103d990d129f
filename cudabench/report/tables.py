"""A session as tables and lines for the terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cudabench.records import Clock, Estimate, Measurement, Session
from cudabench.report.explain import Explainer, doubts
from cudabench.units import duration, gigabytes_per_second, microseconds

_CLOCK_NAMES = {
    Clock.TIME: "time.time",
    Clock.PERF_COUNTER: "perf_counter",
    Clock.EVENT: "events",
}
_FIGURES = ("mean", "median", "min", "max")
_SYSTEMATIC = "+/- is the median's scatter; count on 0.15 us besides (docs/estimate.md)."
_BASELINE = "torch.add(out=)"
_HOST_REMARK = (
    "On the host, add2 runs on the stream's one worker thread, PyTorch's add in the calling thread"
    " and PyTorch's own threads; a + b allocates and frees its result there, too."
)
# Below this the sentences go under the table.
_SENTENCES_BESIDE = 120


def run_report(session: Session) -> Iterator[RenderableType]:
    """Yield the operators' own times, their article's times, and the article's two lines."""
    first = session.measurements[0]
    yield from _heading(f"add2 and PyTorch's add, n = {first.n:,}: their own time", session)
    yield _estimates_table(session)
    yield ""
    remarks = list(_estimate_remarks(session))
    if remarks:
        yield from (*remarks, "")
    clock = _CLOCK_NAMES[first.clock]
    yield Text(f"The same between both synchronizes, {clock}", style="bold")
    yield _both_table(session)
    yield ""
    if session.environment.device.kind == "host":
        yield _HOST_REMARK
    yield from _article_lines(session)


def _estimates_table(session: Session) -> Table:
    table = _table(gap=1)
    table.add_column("operator", no_wrap=True)
    table.add_column("L2")
    for name in ("time", "+/-", "GB/s", "x torch.add", "samples"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("result")
    baseline = session.estimates_of(_BASELINE)
    for m in session.measurements:
        for l2, estimate in session.estimates_of(m.operator).items():
            table.add_row(m.operator, l2.value, *_estimated(estimate, baseline[l2]), _verdict(m))
    return table


def _estimated(estimate: Estimate, baseline: Estimate) -> tuple[str, str, str, str, str]:
    samples = f"{len(estimate.reading.gross):,}"
    if not estimate.resolved:
        return f"< {microseconds(estimate.bound)}", "", "", "", samples
    net = estimate.net
    ratio = f"{net.value / baseline.net.value:.2f}" if baseline.resolved else ""
    bandwidth = gigabytes_per_second(estimate.bandwidth or 0.0)
    return microseconds(net.value), microseconds(net.half_width), bandwidth, ratio, samples


def _estimate_remarks(session: Session) -> Iterator[str]:
    """Yield a line for everything that makes an estimate other than it looks."""
    device = session.environment.device
    yield from sorted(line for estimate in session.estimates for line in doubts(estimate, device))
    if device.kind == "cuda":
        yield _SYSTEMATIC


def _both_table(session: Session) -> Table:
    table = _table(gap=1)
    table.add_column("operator", no_wrap=True)
    for name in (*_FIGURES, "of that not the operator"):
        table.add_column(name, justify="right", overflow="fold")
    for m in session.measurements:
        estimate = next(iter(session.estimates_of(m.operator).values()), None)
        rest = microseconds(m.summary.median - estimate.net.value) if estimate else ""
        table.add_row(m.operator, *_four(m), rest)
    return table


def sync_modes_report(session: Session, width: int) -> Iterator[RenderableType]:
    """Yield a table for the idle stream and one for the backlog, each row explained.

    The sentences stand in the table where `width` columns have room for them, else below it.
    """
    (estimate,) = session.estimates
    explainer = Explainer(session.measurements, estimate, session.loop.warmup)
    yield from _own_time_lines(estimate, session)
    beside = width >= _SENTENCES_BESIDE
    for with_backlog in (False, True):
        rows = [m for m in session.measurements if (m.backlog is not None) == with_backlog]
        if not rows:
            continue
        yield from _heading(f"add2, n = {rows[0].n:,}, {_situation(rows[0])}", session)
        yield _modes_table(rows, explainer, beside)
        yield ""
        if not beside:
            yield from (_sentence_line(m, explainer) for m in rows)
            yield ""


def _own_time_lines(estimate: Estimate, session: Session) -> Iterator[RenderableType]:
    """Yield what the modes are held against."""
    net = estimate.net
    time = (
        f"{duration(net.value)} +/- {duration(net.half_width)}"
        if estimate.resolved
        else f"below {duration(estimate.bound)}, which is all that can be resolved"
    )
    yield Text(f"{estimate.reading.operator}'s own time, warm L2: {time}", style="bold")
    yield from doubts(estimate, session.environment.device)
    yield ""


def _modes_table(rows: list[Measurement], explainer: Explainer, beside: bool) -> Table:
    table = _table(gap=1 if beside else 0)
    table.add_column("clock", no_wrap=True)
    table.add_column("syncs", no_wrap=True)
    for name in (*_FIGURES, "vs both", "vs own", "not\nready"):
        table.add_column(name, justify="right", overflow="fold")
    if beside:
        table.add_column("what it measured", min_width=40)
    clock = None
    for m in rows:
        if clock not in (None, m.clock):
            table.add_section()
        name = "" if clock == m.clock else _CLOCK_NAMES[m.clock]
        clock = m.clock
        sentence = [explainer.sentence(m)] if beside else []
        table.add_row(
            name,
            m.mode.label,
            *_four(m),
            _signed(explainer.difference(m)),
            _signed(explainer.excess(m)),
            _ready(m),
            *sentence,
        )
    return table


def _sentence_line(measurement: Measurement, explainer: Explainer) -> Text:
    name = f"{_CLOCK_NAMES[measurement.clock]}, {measurement.mode.label}: "
    return Text.assemble((name, "bold"), explainer.sentence(measurement))


def _situation(measurement: Measurement) -> str:
    backlog = measurement.backlog
    if backlog is None:
        return "no backlog"
    return (
        f"behind a backlog of {backlog.launches} launches at n = {backlog.n:,}"
        f" ({duration(backlog.seconds)})"
    )


def _heading(title: str, session: Session) -> Iterator[Text]:
    yield Text(title, style="bold")
    yield Text(f"{session.environment.device.label}, float32, in us", style="italic")
    for operator in session.wrong():
        yield Text(f"{operator}'s result is WRONG: its times are invalid", style="bold red")


def _table(gap: int) -> Table:
    """Return a table with `gap` spaces and the box's one between its columns."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))


def _four(measurement: Measurement) -> tuple[str, str, str, str]:
    summary = measurement.summary
    return (
        microseconds(summary.mean),
        microseconds(summary.median),
        microseconds(summary.minimum),
        microseconds(summary.maximum),
    )


def _signed(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"+{microseconds(seconds)}" if seconds > 0 else microseconds(seconds)


def _ready(measurement: Measurement) -> str:
    if measurement.clock.on_host:
        return ""
    return f"{measurement.not_ready}/{len(measurement.samples)}"


def _verdict(measurement: Measurement) -> Text:
    return Text("correct") if measurement.correct else Text("WRONG", "bold red")


def _article_lines(session: Session) -> Iterator[str]:
    """Yield the article's two lines, the mean of the timed calls, marked where not from CUDA."""
    device = session.environment.device
    mark = "" if device.kind == "cuda" else f"  [{device.label}]"
    for name, operator in (("Cuda", "add2"), ("Torch", "a + b")):
        mean = next(m for m in session.measurements if m.operator == operator).summary.mean
        wrong = "  [WRONG result]" if operator in session.wrong() else ""
        yield f"{name} time: {mean * 1e6:.3f}us{mark}{wrong}"
