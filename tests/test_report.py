import re

import pytest
from rich.console import Console, RenderableType

from cudabench.records import BOTH, FIRST_ONLY, NEITHER, SECOND_ONLY, Clock, HandOver
from cudabench.report.run import run_report
from cudabench.report.sync_modes import sync_modes_report
from tests.samples import BACKLOG, measurement, reading, session

HOST = "host (CPU stream, no CUDA)"


def shown(renderables: list[RenderableType], width: int) -> str:
    console = Console(width=width, markup=False, highlight=False, color_system=None)
    with console.capture() as capture:
        for renderable in renderables:
            console.print(renderable)
    return capture.get()


def ran(label: str = "cuda:0 (Tested)", correct: bool = True) -> str:
    measured = session(
        measurement(BOTH, [18.0, 19.0, 30.0], correct=correct),
        measurement(BOTH, [10.0, 12.0, 14.0], operator="a + b"),
        measurement(BOTH, [9.0, 9.5, 10.0], operator="torch.add(out=)"),
        reading(4.0),
        reading(3.0, "a + b"),
        reading(2.0, "torch.add(out=)"),
        label=label,
    )
    return shown(list(run_report(measured)), 80)


def test_run_shows_each_operator_with_its_numbers() -> None:
    own, both = (line.split() for line in ran().splitlines() if line.startswith("add2  "))
    assert own == ["add2", "warm", "4.00", "0.00", "22.33", "3.1", "2.00", "10", "(0)", "correct"]
    assert both == ["add2", "22.33", "19.00", "18.00", "30.00", "15.00"]


def test_run_gives_a_bound_where_nothing_can_be_resolved() -> None:
    measured = session(
        measurement(BOTH, 9.0, operator="torch.add(out=)"),
        measurement(BOTH, 9.0, operator="a + b"),
        measurement(BOTH, 9.0),
        reading(-0.5, "torch.add(out=)"),
        reading(1.0),
        reading(1.0, "a + b"),
    )
    lines = shown(list(run_report(measured)), 80).splitlines()
    assert next(line for line in lines if "< " in line).split()[:4] == [
        *("torch.add(out=)", "warm", "<", "0.00"),
    ]


def test_run_prints_the_articles_two_lines() -> None:
    assert ran().splitlines()[-2:] == ["Cuda time: 22.333us", "Torch time: 12.000us"]


def test_what_the_host_measured_is_marked_everywhere() -> None:
    lines = ran(HOST).splitlines()
    assert f"{HOST}, float32, in us" in lines
    assert lines[-2:] == [f"Cuda time: 22.333us  [{HOST}]", f"Torch time: 12.000us  [{HOST}]"]


def test_a_wrong_result_invalidates_the_row() -> None:
    lines = ran(correct=False).splitlines()
    assert "add2's result is WRONG: its times are invalid" in lines
    assert "Cuda time: 22.333us  [WRONG result]" in lines
    assert sum(line.rstrip().endswith(" WRONG") for line in lines) == 1


def modes(width: int) -> str:
    measurements = [
        measurement(mode, value, clock, backlog, not_ready=not_ready)
        for backlog in (None, BACKLOG)
        for clock, mode, value, not_ready in [
            (Clock.TIME, BOTH, 86.0, 0),
            (Clock.TIME, FIRST_ONLY, 8.0, 0),
            (Clock.PERF_COUNTER, BOTH, 86.0, 0),
            (Clock.PERF_COUNTER, SECOND_ONLY, 123_456.78, 0),
            (Clock.PERF_COUNTER, NEITHER, 8.0, 0),
            (Clock.EVENT, BOTH, 81.0, 0),
            (Clock.EVENT, FIRST_ONLY, 80.0, 9),
        ]
    ]
    return shown(list(sync_modes_report(session(*measurements, reading(76)), width)), width)


def test_sync_modes_shows_two_situations_with_the_events_not_ready() -> None:
    text = modes(140)
    assert text.count("no backlog") == 1
    assert text.startswith("add2's own time, warm L2: 76.0 us +/- 0.00 us\n")
    assert text.count("behind a backlog of 10 launches at n = 4,096 (700 us)") == 1
    assert text.count(" 9/10 ") == 2


def test_no_figure_is_cut_at_80_columns() -> None:
    text = modes(80)
    assert "…" not in text
    assert len(re.findall(r"(?<![\d+])123,457(?!\d)", text)) == 2 * 4
    assert "+123,371" in text
    assert "+123,381" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_row_has_its_sentence_below_a_narrow_table() -> None:
    lines = modes(80).splitlines()
    for row in ("time.time, both: ", "perf_counter, neither: ", "events, first only: "):
        assert sum(line.startswith(row) for line in lines) == 2


def test_every_row_has_its_sentence_beside_it_in_a_wide_table() -> None:
    lines = modes(140).splitlines()
    assert sum("The launch call alone" in line for line in lines) == 4
    assert not any(line.startswith("time.time, both: ") for line in lines)


def test_a_budget_is_drawn_to_scale_where_its_parts_were_measured() -> None:
    way = HandOver(start=3e-6, work=4e-6, end=4e-6, pair=6e-6, gap=9e-6, gap_launch=7e-6)
    whole = session(measurement(BOTH, 23), measurement(NEITHER, 8), reading(4.0), way)
    lines = shown(list(sync_modes_report(whole, 80)), 80).splitlines()
    both, neither = (
        next(line for line in lines if line.startswith(f"time.time  {name}") and "▒" in line)
        for name in ("both", "neither")
    )
    drawn = {ink: both.count(ink) for ink in "▒-█▓?"}
    assert drawn["▒"] == neither.count("▒")
    assert drawn["▒"] == pytest.approx(2 * drawn["█"], abs=1)
    assert drawn["-"] > 0
    assert sum(drawn.values()) == pytest.approx(23 / 8 * drawn["▒"], abs=3)
    figures = next(line.split() for line in reversed(lines) if line.startswith("time.time  both"))
    assert figures[2:] == ["23.00", "8.00", "3.00", "4.00", "4.00", "4.00"]
    assert max(map(len, lines)) <= 80


def test_without_the_parts_there_is_no_budget() -> None:
    whole = session(measurement(BOTH, 23), reading(4.0))
    assert "made of" not in shown(list(sync_modes_report(whole, 80)), 80)
