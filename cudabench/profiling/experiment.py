"""The experiment's iterations in a trace, told by the ranges that name its steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pandas as pd

from cudabench.ranges import (
    BACKLOG,
    CLOCK,
    FIRST_SYNC,
    ITERATION,
    LAUNCH,
    LAUNCHED,
    READING,
    SECOND_SYNC,
    TICK,
    ModeName,
    OperatorName,
    numbers_of,
)
from cudabench.records import HOST_LABEL
from cudabench.trace import NO_CORRELATION, Iteration, Span, Trace

_HOST_LAUNCH, _HOST_KERNEL = "launch", "host kernel"


def with_host_launches(trace: Trace) -> Trace:
    """Return the trace with what the program itself told of launches on the host stream.

    No profiler sees those. They were told in the program's clock: the marks that say what it
    read tell by how much the trace's differs.
    """
    ticks = trace.ranges["start"][trace.ranges["text"] == TICK]
    # Where the capture was cut, what is missing are the first ticks, or the last times told.
    told = list(_told(trace.ranges, CLOCK))[-len(ticks) :]
    launches = list(_told(trace.ranges, LAUNCHED))
    if not launches or not told or ticks.empty:
        return trace
    offset = min(tick - clock for tick, (clock,) in zip(ticks, told, strict=False))
    numbers = np.array(launches, dtype=np.int64) + offset
    count = np.arange(len(launches))
    calls = pd.DataFrame({"start": numbers[:, 0], "end": numbers[:, 1]})
    work = pd.DataFrame({"start": numbers[:, 2], "end": numbers[:, 3]})
    calls["name"] = pd.Categorical([_HOST_LAUNCH] * len(launches))
    work["name"] = pd.Categorical([_HOST_KERNEL] * len(launches))
    work["kind"] = pd.Categorical(["kernel"] * len(launches))
    calls["correlation"] = work["correlation"] = count
    work["device"] = work["stream"] = 0
    return replace(trace, device=HOST_LABEL, calls=calls, work=work)


def iterations(trace: Trace) -> tuple[Iteration, ...]:
    """Return every iteration of the experiment that the trace holds, in their order."""
    queue = _Queue(trace)
    return tuple(one for mode in _modes(trace.ranges) for one in _iterations(queue, mode))


class _Queue:
    """The calls of a trace, and the works that each of them queued."""

    def __init__(self, trace: Trace) -> None:
        self._called = trace.calls["start"].to_numpy()
        self._calls = trace.calls["correlation"].to_numpy()
        # Sorted once: looked for among all, for each iteration, they took minutes.
        work = trace.work[trace.work["correlation"] != NO_CORRELATION]
        work = work.sort_values("correlation", kind="stable")
        self._works = work["correlation"].to_numpy()
        self._spans = work[["start", "end"]].to_numpy()

    def inside(self, step: Span) -> tuple[Span, ...]:
        """Return what the device ran because of the calls inside a step, in order."""
        first, last = self._called.searchsorted([step.start, step.end])
        calls = self._calls[first:last]
        begins = self._works.searchsorted(calls, "left")
        ends = self._works.searchsorted(calls, "right")
        found = [self._spans[b:e].tolist() for b, e in zip(begins, ends, strict=True)]
        return tuple(Span(*times) for times in sorted(chain.from_iterable(found)))


@dataclass
class _Turn:
    span: Span
    steps: dict[str, Span] = field(default_factory=dict)


@dataclass
class _ModeSeen:
    """What the ranges inside a mode's say."""

    operator: OperatorName
    name: ModeName
    turns: list[_Turn] = field(default_factory=list)
    readings: list[int] = field(default_factory=list)


def _modes(ranges: pd.DataFrame) -> Iterator[_ModeSeen]:
    operator, mode = None, None
    for start, end, text in _rows(ranges):
        if named := OperatorName.parse(text):
            operator = named
        elif (name := ModeName.parse(text)) and operator:
            if mode:
                yield mode
            mode = _ModeSeen(operator, name)
        elif mode:
            _note(mode, Span(start, end), text)
    if mode:
        yield mode


def _note(mode: _ModeSeen, span: Span, text: str) -> None:
    if text == ITERATION:
        mode.turns.append(_Turn(span))
    elif text in (BACKLOG, FIRST_SYNC, LAUNCH, SECOND_SYNC) and mode.turns:
        mode.turns[-1].steps[text] = span
    elif text.startswith(READING) and (said := numbers_of(READING, text)):
        mode.readings.append(said[0])


def _iterations(queue: _Queue, mode: _ModeSeen) -> Iterator[Iteration]:
    for index, turn in enumerate(mode.turns):
        if LAUNCH not in turn.steps:
            continue  # the capture ended inside it
        read = mode.readings[index] * 1e-9 if index < len(mode.readings) else None
        backlog = turn.steps.get(BACKLOG)
        yield Iteration(
            operator=mode.operator.operator,
            n=mode.operator.n,
            clock=mode.name.clock,
            mode=mode.name.mode,
            backlogged=mode.name.backlogged,
            index=index,
            span=turn.span,
            backlog=backlog,
            first_sync=turn.steps.get(FIRST_SYNC),
            launch=turn.steps[LAUNCH],
            second_sync=turn.steps.get(SECOND_SYNC),
            kernels=queue.inside(turn.steps[LAUNCH]),
            backlog_kernels=queue.inside(backlog) if backlog else (),
            seconds=read,
        )


def _told(ranges: pd.DataFrame, word: str) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of each mark that begins with a word."""
    for text in ranges["text"][ranges["text"].str.startswith(word)]:
        if numbers := numbers_of(word, text):
            yield numbers


def _rows(ranges: pd.DataFrame) -> Iterator[tuple[int, int, str]]:
    for start, end, text in zip(ranges["start"], ranges["end"], ranges["text"], strict=True):
        yield int(start), int(end), str(text)
