"""Who agrees with whom, and why not, from figures that are known."""

import re

import pytest
from rich.console import Console

from cudabench.consensus import panels
from cudabench.records import (
    BOTH,
    L2,
    Clock,
    Method,
    Observer,
    Opinion,
    SecondOpinion,
    Session,
)
from cudabench.report.methods import methods_report
from tests.samples import FLOOR, measurement, reading, session

N = 1024


def opinion(name: Opinion, *us: float, why_not: str = "", beside: float = 0.0) -> SecondOpinion:
    """Figures in us; `beside` is what its small launches read."""
    small = (beside * 1e-6,) if beside else ()
    seconds = tuple(value * 1e-6 for value in us)
    return SecondOpinion(name, "add2", N, L2.WARM, seconds, small, why_not)


def observer(outside: float, inside: float) -> Observer:
    return Observer("add2", N, L2.WARM, (outside * 1e-6,) * 3, (inside * 1e-6,) * 3)


def usual(cupti: float = 70.5, graph: float = 70.6) -> list[SecondOpinion]:
    return [
        opinion(Opinion.BATCH, 71.4, 71.5, 71.6, beside=2.0),  # 1 us of that is its kernel
        opinion(Opinion.GRAPH, graph),
        opinion(Opinion.DO_BENCH, 76.0),
        opinion(Opinion.DO_BENCH_CUDAGRAPH, 70.7),
        opinion(Opinion.CUPTI, cupti),
    ]


def shown(whole: Session, width: int = 140) -> str:
    console = Console(width=width, markup=False, highlight=False, color_system=None)
    with console.capture() as capture:
        for renderable in methods_report(whole, width):
            console.print(renderable)
    return capture.get()


def test_an_opinion_is_taken_without_its_own_floor() -> None:
    assert opinion(Opinion.BATCH, 71.5, beside=2.0).net(FLOOR) == pytest.approx(70.5e-6)
    assert opinion(Opinion.CUPTI, 70.5).net(FLOOR) == pytest.approx(70.5e-6)
    assert opinion(Opinion.GRAPH, why_not="no").net(FLOOR) is None


def test_the_consensus_is_the_median_of_the_estimate_and_the_second_opinions() -> None:
    (panel,) = panels(session(measurement(BOTH, 86), reading(70.0), *usual()))
    assert panel.consensus == pytest.approx(70.5e-6)
    assert panel.agrees(70.0e-6)
    assert not panel.agrees(76.0e-6)


def test_short_times_agree_within_what_events_resolve() -> None:
    (panel,) = panels(session(measurement(BOTH, 86), reading(1.0), opinion(Opinion.GRAPH, 1.0)))
    assert panel.agrees(1.1e-6)
    assert not panel.agrees(1.2e-6)


def test_an_operator_on_another_stream_is_judged_by_cupti_alone() -> None:
    taken = reading(18.0, method=Method.ELSEWHERE)
    silent = opinion(Opinion.GRAPH, why_not="the capture recorded nothing")
    whole = session(
        measurement(BOTH, 18.4), measurement(BOTH, 15, Clock.EVENT), taken,
        silent, opinion(Opinion.DO_BENCH, 1.8), opinion(Opinion.CUPTI, 3.6),
    )  # fmt: skip
    (panel,) = panels(whole)
    assert panel.own is None
    assert panel.consensus == pytest.approx(3.6e-6)
    text = shown(whole)
    assert re.search(r"^CUDA graph +none +The capture recorded nothing\.", text, re.MULTILINE)
    assert re.search(r"^triton do_bench .*nothing of the operator ran there", text, re.MULTILINE)
    assert re.search(r"^events, both .*Not the operator", text, re.MULTILINE)
    assert "WRONG STREAM" in text


def test_all_that_agree_are_said_to() -> None:
    text = shown(session(measurement(BOTH, 86), reading(70.0), *usual()))
    assert "Consensus 70.5 us (cudabench's own, batch, CUDA graph, CUPTI): they agree." in text


def test_the_profiler_is_named_where_it_slows_the_operator() -> None:
    whole = session(measurement(BOTH, 86), reading(70.0), *usual(cupti=75.3), observer(72.9, 77.8))
    text = shown(whole)
    assert "CUPTI disagrees." in text
    assert "The profiler slows it" in text
    assert "event pairs read 72.9 us without it and 77.8 us while it runs (+6.7%)" in text


def test_the_profiler_is_not_blamed_where_it_changes_nothing() -> None:
    whole = session(measurement(BOTH, 86), reading(70.0), *usual(cupti=75.3), observer(72.9, 72.9))
    text = " ".join(shown(whole, 400).split())
    assert "the profiler's own effect is not the cause" in text


def test_the_modes_are_not_held_against_a_cold_time() -> None:
    text = shown(session(measurement(BOTH, 86), reading(76.0, l2=L2.COLD)))
    assert not re.search(r"^time\.time, both", text, re.MULTILINE)
    assert "The eight modes leave the cache warm" in text


@pytest.mark.parametrize("width", [80, 140])
def test_every_method_has_a_row_and_a_reason(width: int) -> None:
    text = shown(session(measurement(BOTH, 86), reading(70.0), *usual()), width)
    for name in ("cudabench's own", "batch", "CUDA graph", "CUPTI", "triton do_bench"):
        assert re.search(rf"^{re.escape(name)} +\d", text, re.MULTILINE)
    assert re.search(r"^time\.time, both +86\.00 +\+15\.50 +\+22\.0", text, re.MULTILINE)
    assert "it flushes the L2 first" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width
