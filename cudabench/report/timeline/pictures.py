"""Iterations, and stretches of a trace, as pictures."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from cudabench.report.layout import CLOCK_NAMES
from cudabench.trace import Bar, Iteration, Lane, Picture, Role, Span, Trace, correlations
from cudabench.units import duration

if TYPE_CHECKING:
    import pandas as pd

# Empty room at both ends, as a part of what is shown.
_MARGIN = 0.02
_STRETCH_BARS = 12


def typical(iterations: Iterable[Iteration]) -> list[Iteration]:
    """Return of each operator, mode, clock and backlog the iteration with the median reading.

    The first may wait for the warm-up calls, so it is only taken where it is the only one.
    """
    groups: dict[object, list[Iteration]] = {}
    for one in iterations:
        groups.setdefault((one.operator, one.n, one.backlogged, one.clock, one.mode), []).append(
            one
        )
    later = [group[1:] or group for group in groups.values()]
    return [sorted(group, key=lambda one: one.seconds or 0.0)[len(group) // 2] for group in later]


def of_iteration(one: Iteration, trace: Trace) -> Picture:
    """Return the picture of an iteration: the host's steps, the device's work, what was timed."""
    ends = [one.span.end, *(kernel.end for kernel in one.kernels)]
    starts = [one.span.start, *(span.start for span in (one.timed,) if span)]
    window = _with_margin(Span(min(starts), max(ends)))
    timed = [Bar(one.timed, _read(one), Role.TIMED)] if one.timed else []
    host, device = (
        Lane("host", tuple(_steps(one))),
        Lane("device", tuple(_work(one, trace, window))),
    )
    # What a clock read stands beside the lane that it was read on.
    lanes = (Lane("clock", tuple(timed)), host, device)
    if not one.clock.on_host:
        lanes = (host, device, Lane("events", tuple(timed)))
    backlog = "behind a backlog" if one.backlogged else "idle"
    return Picture(
        title=f"{one.operator}, {_MODES[one.mode.label]}, {CLOCK_NAMES[one.clock]}, {backlog}",
        caption=_caption(one),
        window=window,
        lanes=lanes,
    )


def of_stretch(trace: Trace) -> Picture | None:
    """Return the picture of the first works of a trace, and of the calls around them."""
    first = trace.work.head(_STRETCH_BARS)
    if first.empty:
        return None
    called = trace.calls[trace.calls["correlation"].isin(correlations(first))]
    starts = [int(first["start"].min()), *map(int, called["start"].head(1))]
    window = _with_margin(Span(min(starts), int(first["end"].max())))
    return Picture(
        title=f"the first {len(first)} works on the device",
        caption="",
        window=window,
        lanes=(
            Lane("host", tuple(_bars(trace.calls, window, _call_role))),
            Lane("device", tuple(_bars(trace.work, window, lambda _: Role.KERNEL))),
        ),
    )


def short_name(name: str) -> str:
    """Return a kernel's name without its templates and arguments, or a call's without a version."""
    bare = _VERSIONED.sub(r"\1", _NAMELESS.sub("", name))
    return re.split(r"[<(]", bare, maxsplit=1)[0].split("::")[-1].strip() or name


_NAMELESS = re.compile(r"^void |\(anonymous namespace\)::|<unnamed>::")
# Of CUDA's calls alone: add2_v1 and add2_v2 are two kernels.
_VERSIONED = re.compile(r"^(cu(?:da)?[A-Z]\w*?)(?:_pt[ds][sz])?_v\d+(?:_pt[ds][sz])?$")
_MODES = {
    "both": "both synchronizes",
    "first only": "first synchronize only",
    "second only": "second synchronize only",
    "neither": "neither synchronize",
}


def _with_margin(window: Span) -> Span:
    margin = round((window.end - window.start) * _MARGIN)
    return Span(window.start - margin, window.end + margin)


def _read(one: Iteration) -> str:
    return f"read {duration(one.seconds or 0.0)}"


def _steps(one: Iteration) -> Iterator[Bar]:
    """Yield what the host did."""
    named = (
        (one.backlog, "queue the backlog", Role.BACKLOG),
        (one.first_sync, "first synchronize", Role.SYNCHRONIZE),
        (one.launch, "launch", Role.LAUNCH),
        (one.second_sync, "second synchronize", Role.SYNCHRONIZE),
    )
    for span, label, role in named:
        if span:
            yield Bar(span, label, role)


def _work(one: Iteration, trace: Trace, window: Span) -> Iterator[Bar]:
    """Yield what the device ran in the window: the operator's, the backlog's, and others'."""
    ours = set(one.kernels)
    backlog = set(one.backlog_kernels)
    inside = trace.work[(trace.work["end"] > window.start) & (trace.work["start"] < window.end)]
    for start, end in zip(inside["start"], inside["end"], strict=True):
        span = Span(int(start), int(end))
        if span in ours:
            yield Bar(span, f"kernel {duration(span.seconds)}", Role.KERNEL)
        elif span in backlog:
            yield Bar(span, "backlog", Role.BACKLOG)
        else:
            yield Bar(span, "another iteration's", Role.OTHER)


def _caption(one: Iteration) -> str:
    last = one.done
    if last is None:
        return "Nothing of the operator ran on the device: it runs in the calling thread."
    timed = one.timed
    if timed is None:
        return ""
    kernel = duration(one.kernel or 0.0)
    if not one.clock.on_host:
        return f"The events read {duration(timed.seconds)}; the kernel took {kernel}."
    if timed.end < last:
        before = "started" if timed.end < one.kernels[0].start else "ended"
        late = duration((last - timed.end) * 1e-9)
        return f"The clock stopped before the kernel had {before}, {late} before its end."
    waited = max((span.end for span in one.backlog_kernels), default=timed.start) - timed.start
    if waited > 0:
        return (
            f"The clock started while the backlog still had {duration(waited * 1e-9)} to run;"
            f" the kernel took {kernel}."
        )
    return f"Of the {duration(timed.seconds)} read, the kernel took {kernel}."


def _call_role(name: str) -> Role:
    if "Synchronize" in name:
        return Role.SYNCHRONIZE
    return Role.LAUNCH if "Launch" in name else Role.OTHER


def _bars(frame: "pd.DataFrame", window: Span, role_of: Callable[[str], Role]) -> Iterator[Bar]:
    inside = frame[(frame["end"] > window.start) & (frame["start"] < window.end)]
    for start, end, name in zip(inside["start"], inside["end"], inside["name"], strict=True):
        yield Bar(Span(int(start), int(end)), short_name(name), role_of(name))
