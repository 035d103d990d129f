"""A session as tables and lines for the terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cudabench.records import Clock, Measurement, Session
from cudabench.report.explain import Explainer
from cudabench.units import duration, gigabytes_per_second, microseconds

_CLOCK_NAMES = {
    Clock.TIME: "time.time",
    Clock.PERF_COUNTER: "perf_counter",
    Clock.EVENT: "events",
}
_FIGURES = ("mean", "median", "min", "max")
_HOST_REMARK = (
    "On the host, add2 runs on the stream's one worker thread, PyTorch's add in the calling thread"
    " with PyTorch's own threads."
)
# Below this the sentences go under the table.
_SENTENCES_BESIDE = 120


def run_report(session: Session) -> Iterator[RenderableType]:
    """Yield the table of `cudabench run` and the article's two lines."""
    measurements = session.measurements
    baseline = next(m for m in measurements if m.operator == "torch.add(out=)").summary.median
    first = measurements[0]
    title = (
        f"add2 and PyTorch's add, n = {first.n:,}, both synchronizes, {_CLOCK_NAMES[first.clock]}"
    )
    yield from _heading(title, session)
    table = _table(gap=1)
    table.add_column("operator", no_wrap=True)
    for name in (*_FIGURES, "GB/s", "x torch.add"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("result")
    for m in measurements:
        bandwidth = "" if m.bandwidth is None else gigabytes_per_second(m.bandwidth)
        ratio = f"{m.summary.median / baseline:.2f}"
        table.add_row(m.operator, *_four(m), bandwidth, ratio, _verdict(m))
    yield table
    yield ""
    if session.environment.device.kind == "host":
        yield _HOST_REMARK
    yield from _article_lines(session)


def sync_modes_report(session: Session, width: int) -> Iterator[RenderableType]:
    """Yield a table for the idle stream and one for the backlog, each row explained.

    The sentences stand in the table where `width` columns have room for them, else below it.
    """
    explainer = Explainer(session.measurements)
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


def _modes_table(rows: list[Measurement], explainer: Explainer, beside: bool) -> Table:
    table = _table(gap=1 if beside else 0)
    table.add_column("clock", no_wrap=True)
    table.add_column("syncs", no_wrap=True)
    for name in (*_FIGURES, "vs both", "not ready"):
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
            name, m.mode.label, *_four(m), _signed(explainer.difference(m)), _ready(m), *sentence
        )
    return table


def _sentence_line(measurement: Measurement, explainer: Explainer) -> Text:
    name = f"{_CLOCK_NAMES[measurement.clock]}, {measurement.mode.label}: "
    return Text.assemble((name, "bold"), explainer.sentence(measurement))


def _situation(measurement: Measurement) -> str:
    backlog = measurement.backlog
    if backlog is None:
        return "nothing queued before (idle)"
    return (
        f"behind a backlog of {backlog.launches} launches at n = {backlog.n:,}"
        f" ({duration(backlog.seconds)})"
    )


def _heading(title: str, session: Session) -> Iterator[Text]:
    yield Text(title, style="bold")
    yield Text(f"{session.environment.device.label}, float32, in us", style="italic")


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
        yield f"{name} time: {mean * 1e6:.3f}us{mark}"
