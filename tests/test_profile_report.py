"""The report of a profile: timelines, and tables whose figures are worked out by hand."""

from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cudabench.records import BOTH, NEITHER, Clock
from cudabench.report.profile import pictures_of, profile_report, tables_of
from cudabench.report.timeline.html import Table
from cudabench.trace import Iteration, Span, Trace
from tests.traces import Call, Work, iteration, trace

WIDTHS = pytest.mark.parametrize("width", [80, 140])
LONG = f"void ns::{'very_' * 30}long<float>(float*)"

# Three iterations in each of two modes; launched in 8, 9 and 10 us.
SYNCHRONIZED = [
    iteration(
        index=i, launch=Span(6_000, 14_000 + 1_000 * i), kernels=(Span(16_500, 20_500 + 100 * i),)
    )
    for i in range(3)
]
UNSYNCHRONIZED = [
    iteration(
        index=i, mode=NEITHER, first_sync=None, second_sync=None, backlogged=True, seconds=8.2e-6
    )
    for i in range(3)
]
OURS = trace(
    calls=[Call(6_000, 14_000, 1), Call(30_000, 34_000, 2), Call(34_000, 34_500, 3, "cuInit")],
    work=[
        Work(15_000, 19_000, 1, "void add2<float>(float*)"),
        Work(35_000, 41_000, 2, "void add2<float>(float*)"),
        Work(41_000, 42_000, 3, "memset", "memset"),
    ],
    device="NVIDIA H200",
)
FOREIGN = trace(
    calls=[Call(1_000 * i, 1_000 * i + 400, i, "cudaLaunchKernel_v7000") for i in range(30)],
    work=[Work(1_000 * i + 500, 1_000 * i + 900, i, f"{LONG}{i}") for i in range(30)],
    device="",
)


def printed(made: Trace, iterations: Sequence[Iteration], width: int) -> list[str]:
    console = Console(width=width, markup=False, highlight=False, color_system=None)
    with console.capture() as capture:
        for renderable in profile_report(made, iterations, width):
            console.print(renderable)
    return capture.get().splitlines()


def table(title: str, made: Trace, iterations: Sequence[Iteration] = ()) -> Table:
    (found,) = (one for one in tables_of(made, iterations) if one.title.startswith(title))
    return found


def test_the_modes_table_has_the_medians_of_each_mode() -> None:
    shown = table("medians", OURS, [*SYNCHRONIZED, *UNSYNCHRONIZED])
    assert shown.header == (
        *("operator", "behind", "clock", "syncs"),
        *("launch call", "launch to start", "kernel", "end to return", "clock read"),
    )
    assert shown.rows == (
        ("add2", "idle", "time.time", "both", "9.00", "1.50", "4.10", "1.40", "17.00"),
        ("add2", "a backlog", "time.time", "neither", "8.00", "1.00", "4.00", "", "8.20"),
    )


def test_what_is_unknown_of_an_iteration_is_left_out_of_the_medians() -> None:
    known = iteration(seconds=5e-6, kernels=(Span(15_000, 17_000),))
    (row,) = table("medians", OURS, [known, *[iteration(seconds=None, kernels=())] * 4]).rows
    assert row[4:] == ("8.00", "1.00", "2.00", "5.00", "5.00")


def test_each_operator_clock_backlog_and_mode_has_a_row_in_the_order_seen() -> None:
    changes: list[dict[str, object]] = [
        {"operator": "mul"},
        {"clock": Clock.EVENT},
        {"mode": NEITHER},
        {"backlogged": True},
    ]
    rows = table("medians", OURS, [iteration(**change) for change in [*changes, {}, *changes]]).rows
    assert [row[:4] for row in rows] == [
        ("mul", "idle", "time.time", "both"),
        ("add2", "idle", "events", "both"),
        ("add2", "idle", "time.time", "neither"),
        ("add2", "a backlog", "time.time", "both"),
        ("add2", "idle", "time.time", "both"),
    ]


def test_the_devices_table_says_how_busy_it_was() -> None:
    # From 15 to 42 us; idle from 19 to 35.
    assert table("the device, from", OURS).rows == (
        ("3", "27.0 us", "11.0 us", "40.7%", "1", "16.0 us"),
    )


@pytest.mark.parametrize(("end", "busy"), [(2_010, "100.0%"), (10, "0.0%")])
def test_a_single_work_leaves_no_gap(end: int, busy: str) -> None:
    (row,) = table("the device, from", trace(work=[Work(10, end)])).rows
    assert row[3:] == (busy, "0", "")


def test_names_are_summed_up_on_the_device_and_on_the_host() -> None:
    assert table("what the device ran, us", OURS).rows == (
        ("add2", "2", "10.00", "5.00", "5.00", "4.00", "6.00"),
        ("memset", "1", "1.00", "1.00", "1.00", "1.00", "1.00"),
    )
    assert table("calls on the host, us", OURS).rows == (
        ("cudaLaunchKernel", "2", "12.00", "6.00", "6.00", "4.00", "8.00"),
        ("cuInit", "1", "0.50", "0.50", "0.50", "0.50", "0.50"),
    )


def test_of_many_names_those_that_took_longest_are_listed() -> None:
    work = [Work(100 * i, 100 * i + i + 1, name=f"kernel{i}") for i in range(25)]
    shown = table("what the device ran, us (the 10 that took longest, of 25)", trace(work=work))
    assert [row[0] for row in shown.rows] == [f"kernel{i}" for i in range(24, 14, -1)]


def test_tables_of_what_was_not_recorded_are_left_out() -> None:
    titles = [one.title for one in tables_of(trace(work=[Work(0, 1)]), ())]
    assert titles == ["the device, from its first work to its last", "what the device ran, us"]
    assert list(tables_of(trace(), ())) == []


@WIDTHS
@pytest.mark.parametrize(
    ("made", "iterations"),
    [
        (OURS, [*SYNCHRONIZED, *UNSYNCHRONIZED]),
        (FOREIGN, []),
        (trace(work=FOREIGN.work.itertuples(index=False)), []),  # type: ignore[arg-type]
        (OURS, [iteration(operator="加算カーネル" * 20)]),
        (trace(), []),
    ],
    ids=["ours", "foreign", "no calls", "wide", "empty"],
)
def test_no_line_is_wider_than_asked(made: Trace, iterations: list[Iteration], width: int) -> None:
    assert max(cell_len(line.rstrip()) for line in printed(made, iterations, width)) <= width


@WIDTHS
def test_timelines_are_as_wide_as_asked_so_that_no_line_is_folded(width: int) -> None:
    report = profile_report(OURS, [*SYNCHRONIZED, *UNSYNCHRONIZED], width)
    assert max(line.cell_len for line in report if isinstance(line, Text)) == width


@WIDTHS
def test_the_report_holds_the_device_the_timelines_the_legend_and_every_figure(width: int) -> None:
    lines = printed(OURS, [*SYNCHRONIZED, *UNSYNCHRONIZED], width)
    text = "\n".join(lines)
    assert lines[0] == "NVIDIA H200, recorded by a test"
    assert "add2, both synchronizes, time.time, idle" in text
    assert "add2, neither synchronize, time.time, behind a backlog" in text
    assert text.count("clock's reading") == 1
    assert "9.00 1.50 4.10 1.40 17.00" in " ".join(text.split())
    assert "40.7%" in text


@WIDTHS
def test_each_mode_is_drawn_once_on_the_first_of_the_hosts_clocks(width: int) -> None:
    clocks = (Clock.EVENT, Clock.PERF_COUNTER, Clock.TIME)
    every = [
        iteration(clock=clock, mode=mode, index=i)
        for clock in clocks
        for mode in (BOTH, NEITHER)
        for i in range(3)
    ]
    lines = printed(OURS, every, width)
    titles = [line for line in lines if line.startswith("add2, ")]
    assert titles == [
        "add2, both synchronizes, perf_counter, idle",
        "add2, neither synchronize, perf_counter, idle",
    ]
    assert sum(line.startswith("clock ") for line in lines) == 2


def test_where_only_events_were_used_they_are_drawn() -> None:
    lines = printed(OURS, [iteration(clock=Clock.EVENT)], 80)
    assert "add2, both synchronizes, events, idle" in lines
    assert any(line.startswith("events ") for line in lines)


@WIDTHS
def test_a_long_name_is_folded_and_nothing_of_it_lost(width: int) -> None:
    name = "very_" * 30 + "long"
    made = trace(work=[Work(0, 1_000, name=f"void ns::{name}<float>(float*)")])
    below = printed(made, [], width)
    below = below[below.index(next(line for line in below if "what the device ran" in line)) :]
    assert name in "".join(line.split()[0] for line in below[3:] if line.strip())


@WIDTHS
def test_a_trace_of_another_program_is_shown_from_its_first_work_on(width: int) -> None:
    lines = printed(FOREIGN, [], width)
    assert lines[0] == "unknown device, recorded by a test"
    assert "the first 12 works on the device" in lines
    assert not any("medians" in line for line in lines)


def test_pictures_are_one_for_each_mode_and_one_of_a_foreign_trace() -> None:
    assert len(pictures_of(OURS, [*SYNCHRONIZED, *UNSYNCHRONIZED])) == 2
    (first,) = pictures_of(FOREIGN, [])
    assert first.title == "the first 12 works on the device"
    assert pictures_of(trace(), []) == []
