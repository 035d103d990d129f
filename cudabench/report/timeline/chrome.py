"""A trace as a Chrome trace, which Perfetto opens."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cudabench.ranges import is_step
from cudabench.trace import Iteration, Span, Trace, correlations

if TYPE_CHECKING:
    import pandas as pd

# More of one kind make a file that no browser opens.
MOST_EVENTS = 100_000

_HOST, _DEVICE = 1, 2  # the two processes that the viewer shows
_STEPS, _CALLS, _TIMED = 1, 2, 3  # the host's threads
_THREADS = {_STEPS: "steps", _CALLS: "API calls", _TIMED: "what the clock read"}

_Event = dict[str, Any]


def chrome(trace: Trace, iterations: tuple[Iteration, ...]) -> str:
    """Return the JSON: the experiment's steps, the API calls, and the works that they queued.

    It begins with the trace, at 0. Of calls and of works come the first MOST_EVENTS; an arrow
    leads from each call to its work.
    """
    whole = {
        "traceEvents": list(_Events(trace, iterations).all()),
        "displayTimeUnit": "ns",
        "otherData": {"source": trace.source, "device": trace.device},
    }
    return json.dumps(whole, ensure_ascii=False) + "\n"


class _Events:
    def __init__(self, trace: Trace, iterations: tuple[Iteration, ...]) -> None:
        self._device, self._iterations = trace.device or "device", iterations
        self._ranges = trace.ranges.head(MOST_EVENTS)
        self._calls = trace.calls.head(MOST_EVENTS)
        self._work = trace.work.head(MOST_EVENTS)
        starts = (frame["start"].min() for frame in (trace.ranges, trace.calls, trace.work))
        self._zero = int(min((start for start in starts if start == start), default=0))
        self._joined = set(correlations(self._calls)) & set(correlations(self._work))

    def all(self) -> Iterator[_Event]:
        yield from self._names()
        for start, end, text in _columns(self._ranges, "start", "end", "text"):
            if is_step(text):
                yield self._event(text, "step", Span(start, end), _HOST, _STEPS)
        for one in self._iterations:
            if one.timed:
                yield self._event(_THREADS[_TIMED], "timed", one.timed, _HOST, _TIMED)
        for *span, name, correlation in _columns(
            self._calls, "start", "end", "name", "correlation"
        ):
            yield self._event(name, "call", Span(*span), _HOST, _CALLS)
            yield from self._arrow("s", correlation, span[0], _HOST, _CALLS)
        for *span, name, kind, correlation, stream in _columns(
            self._work, "start", "end", "name", "kind", "correlation", "stream"
        ):
            yield self._event(name, kind, Span(*span), _DEVICE, stream)
            yield from self._arrow("f", correlation, span[0], _DEVICE, stream)

    def _names(self) -> Iterator[_Event]:
        yield _name("process_name", _HOST, 0, "host")
        yield _name("process_name", _DEVICE, 0, self._device)
        for thread, name in _THREADS.items():
            yield _name("thread_name", _HOST, thread, name)
        for stream in self._work["stream"].unique():
            yield _name("thread_name", _DEVICE, int(stream), f"stream {stream}")

    def _event(self, name: str, category: str, span: Span, process: int, thread: int) -> _Event:
        return {
            "ph": "X",
            "name": name,
            "cat": category,
            "ts": (span.start - self._zero) / 1000,
            "dur": (span.end - span.start) / 1000,
            "pid": process,
            "tid": thread,
        }

    def _arrow(
        self, phase: str, correlation: int, at: int, process: int, thread: int
    ) -> Iterator[_Event]:
        if correlation in self._joined:
            yield {
                "ph": phase,
                "bp": "e",
                "id": correlation,
                "name": "launch",
                "cat": "launch",
                "ts": (at - self._zero) / 1000,
                "pid": process,
                "tid": thread,
            }


def _columns(frame: "pd.DataFrame", *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows of Python's own numbers and texts."""
    return zip(*(frame[name].tolist() for name in names), strict=True)


def _name(what: str, process: int, thread: int, name: str) -> _Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
