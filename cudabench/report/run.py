"""`run`: the operators' own times, and what the article's loop says of the same."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cudabench import stats
from cudabench.records import L2, Estimate, Measurement, Session
from cudabench.report.doubts import clock_doubts, doubts, working_set
from cudabench.report.layout import CLOCK_NAMES, FIGURES, four_figures, heading, plain_table
from cudabench.units import gigabytes_per_second, microseconds

_BASELINE = "torch.add(out=)"
_HOST_REMARK = (
    "On the host, add2 runs on the stream's one worker thread, PyTorch's add in the calling thread"
    " and PyTorch's own threads; a + b allocates and frees its result there, too. Where other work"
    " takes a core, those threads wait for each other, often for milliseconds: OMP_NUM_THREADS=1"
    " makes them one."
)


def run_report(session: Session) -> Iterator[RenderableType]:
    """Yield the operators' own times, their article's times, and the article's two lines."""
    first = session.measurements[0]
    operators = ", ".join(dict.fromkeys(m.operator for m in session.measurements))
    yield from heading(f"{operators}, n = {first.n:,}: their own time", session)
    yield _estimates_table(session)
    yield ""
    remarks = list(_estimate_remarks(session))
    if remarks:
        yield from (*remarks, "")
    clock = CLOCK_NAMES[first.clock]
    yield Text(f"The same between both synchronizes, {clock}", style="bold")
    yield _both_table(session)
    yield ""
    if session.environment.device.kind == "host":
        yield _HOST_REMARK
    yield from _article_lines(session)


def _estimates_table(session: Session) -> Table:
    table = plain_table(gap=1)
    table.add_column("operator", no_wrap=True)
    table.add_column("L2")
    for name in ("time", "+/-", "both\nsyncs", "GB/s", "x torch\n.add", "samples\n(outliers)"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("result")
    baseline = session.estimates_of(_BASELINE)
    for m in session.measurements:
        for l2, estimate in session.estimates_of(m.operator).items():
            time, scatter, *rest = _estimated(estimate, baseline.get(l2))
            both = microseconds(m.summary.mean)
            table.add_row(m.operator, l2.value, time, scatter, both, *rest, _verdict(m))
    return table


def _estimated(estimate: Estimate, baseline: Estimate | None) -> tuple[str, str, str, str, str]:
    gross = estimate.reading.gross
    samples = f"{len(gross):,} ({stats.outliers(gross)})"
    if not estimate.resolved:
        return f"< {microseconds(estimate.bound)}", "", "", "", samples
    net = estimate.net
    ratio = f"{net.value / baseline.net.value:.2f}" if baseline and baseline.resolved else ""
    bandwidth = gigabytes_per_second(estimate.bandwidth or 0.0)
    return microseconds(net.value), microseconds(net.half_width), bandwidth, ratio, samples


def _estimate_remarks(session: Session) -> Iterator[str]:
    """Yield a line for everything that makes an estimate other than it looks."""
    device = session.environment.device
    yield from dict.fromkeys(working_set(estimate, device) for estimate in session.estimates)
    yield from sorted(line for estimate in session.estimates for line in doubts(estimate, device))
    yield from clock_doubts(session)


def _both_table(session: Session) -> Table:
    table = plain_table(gap=1)
    table.add_column("operator", no_wrap=True)
    for name in (*FIGURES, "of that not the operator"):
        table.add_column(name, justify="right", overflow="fold")
    for m in session.measurements:
        # The loop leaves the cache warm.
        own = session.estimates_of(m.operator).get(L2.WARM)
        rest = microseconds(m.summary.median - own.net.value) if own and own.resolved else ""
        table.add_row(m.operator, *four_figures(m), rest)
    return table


def _verdict(measurement: Measurement) -> Text:
    return Text("correct") if measurement.correct else Text("WRONG", "bold red")


def _article_lines(session: Session) -> Iterator[str]:
    """Yield the article's two lines, the mean of the timed calls, marked where not from CUDA."""
    device = session.environment.device
    mark = "" if device.kind == "cuda" else f"  [{device.label}]"
    names = {"add2": "Cuda", "a + b": "Torch"}
    for m in session.measurements:
        if m.operator in names:
            wrong = "" if m.correct else "  [WRONG result]"
            yield f"{names[m.operator]} time: {m.summary.mean * 1e6:.3f}us{mark}{wrong}"
