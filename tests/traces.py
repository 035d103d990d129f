"""Made-up traces and iterations, in the shape that the readers return. All in ns."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from cudabench.records import BOTH, Clock
from cudabench.trace import Iteration, Span, Trace


class Call(NamedTuple):
    start: int
    end: int
    correlation: int = -1
    name: str = "cudaLaunchKernel_v7000"


class Work(NamedTuple):
    start: int
    end: int
    correlation: int = -1
    name: str = "add2"
    kind: str = "kernel"
    device: int = 0
    stream: int = 7


class Range(NamedTuple):
    start: int
    end: int
    text: str


def trace(
    ranges: Iterable[tuple[int, int, str]] = (),
    calls: Iterable[Call] = (),
    work: Iterable[Work] = (),
    device: str = "a GPU",
) -> Trace:
    return Trace(
        source="a test",
        device=device,
        ranges=frame(Range, ranges),
        calls=frame(Call, calls),
        work=frame(Work, work),
    )


def frame(kind: type[NamedTuple], rows: Iterable[tuple[object, ...]]) -> pd.DataFrame:
    """The rows in the order of their starts, with the types that `Trace` promises."""
    texts = {"name": "category", "kind": "category", "text": "str"}
    made: pd.DataFrame = pd.DataFrame([tuple(row) for row in rows], columns=list(kind._fields))
    typed = made.astype({column: texts.get(column, "int64") for column in kind._fields})
    ordered: pd.DataFrame = typed.sort_values("start", kind="stable", ignore_index=True)
    return ordered


# Synchronized on both sides: launched in 8 us, begun 1 us later, 4 us long, seen 3 us after that.
SIMPLE = Iteration(
    operator="add2",
    n=1024,
    clock=Clock.TIME,
    mode=BOTH,
    backlogged=False,
    index=0,
    span=Span(1_000, 25_000),
    backlog=None,
    first_sync=Span(2_000, 5_000),
    launch=Span(6_000, 14_000),
    second_sync=Span(14_500, 22_000),
    kernels=(Span(15_000, 19_000),),
    backlog_kernels=(),
    seconds=17e-6,
)


def iteration(**changes: object) -> Iteration:
    return replace(SIMPLE, **changes)  # type: ignore[arg-type]


def columns(table: pd.DataFrame, *names: str) -> list[tuple[object, ...]]:
    """A table's rows as Python's own values."""
    return list(zip(*(table[name].tolist() for name in names), strict=True))
