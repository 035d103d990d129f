"""The experiment's iterations, told by hand-built ranges, calls and works."""

from collections.abc import Iterable

import pytest

from cudabench.profiling.experiment import iterations, with_host_launches
from cudabench.ranges import (
    BACKLOG,
    CLOCK,
    FIRST_SYNC,
    ITERATION,
    LAUNCH,
    SECOND_SYNC,
    TICK,
    Launched,
    ModeName,
    OperatorName,
    launched_mark,
)
from cudabench.records import BOTH, HOST_LABEL, MODES, NEITHER, Clock, Mode
from cudabench.trace import Iteration, Span
from tests.traces import Call, Range, Work, columns, trace

ADD2 = OperatorName("add2", 1024)
SIMPLE = ModeName(NEITHER, Clock.TIME, False)
# When the steps of an iteration happen, since its start.
STEPS = {BACKLOG: (10, 100), FIRST_SYNC: (110, 200), LAUNCH: (210, 300), SECOND_SYNC: (310, 400)}


def turn(at: int, *steps: str) -> list[Range]:
    """An iteration of 500 ns."""
    inside = [Range(at + STEPS[step][0], at + STEPS[step][1], step) for step in steps]
    return [Range(at, at + 500, ITERATION), *inside]


def marks(at: int, *texts: str) -> list[Range]:
    return [Range(at + i, at + i, text) for i, text in enumerate(texts)]


def measured(
    inside: Iterable[Range], name: ModeName = SIMPLE, operator: OperatorName = ADD2
) -> list[Range]:
    """Ranges within a mode's and an operator's."""
    ranges = list(inside)
    start, end = ranges[0].start - 2, max(one.end for one in ranges) + 2
    return [Range(start, end, str(operator)), Range(start + 1, end - 1, str(name)), *ranges]


def only(found: tuple[Iteration, ...]) -> Iteration:
    (one,) = found
    return one


@pytest.mark.parametrize("clock", [Clock.PERF_COUNTER, Clock.EVENT])
@pytest.mark.parametrize("backlogged", [False, True])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_each_step_is_found(mode: Mode, backlogged: bool, clock: Clock) -> None:
    steps = [
        *([BACKLOG] if backlogged else []),
        *([FIRST_SYNC] if mode.first_sync else []),
        LAUNCH,
        *([SECOND_SYNC] if mode.second_sync else []),
    ]
    ranges = measured(
        [*turn(1000, *steps), *marks(1600, "reading 234 ns")], ModeName(mode, clock, backlogged)
    )
    calls = [Call(1020, 1030, 1), Call(1220, 1290, 2)]
    work = [Work(1040, 1140, 1), Work(1280, 1380, 2)]
    one = only(iterations(trace(ranges, calls, work)))
    assert one == Iteration(
        operator="add2",
        n=1024,
        clock=clock,
        mode=mode,
        backlogged=backlogged,
        index=0,
        span=Span(1000, 1500),
        backlog=Span(1010, 1100) if backlogged else None,
        first_sync=Span(1110, 1200) if mode.first_sync else None,
        launch=Span(1210, 1300),
        second_sync=Span(1310, 1400) if mode.second_sync else None,
        kernels=(Span(1280, 1380),),
        backlog_kernels=(Span(1040, 1140),) if backlogged else (),
        seconds=234 * 1e-9,
    )


def test_iterations_are_numbered_within_their_mode_and_get_their_readings_in_order() -> None:
    first = [*turn(1000, LAUNCH), *turn(2000, LAUNCH), *marks(2600, "reading 5 ns", "reading 6 ns")]
    second = [*turn(4000, LAUNCH), *marks(4600, "reading 7 ns")]
    event = ModeName(BOTH, Clock.EVENT, True)
    mul = OperatorName("mul, n = 5", 7)
    ranges = [*measured(first), *measured(second, event, mul)]
    found = iterations(trace(ranges))
    assert [(one.operator, one.n, one.clock, one.index) for one in found] == [
        ("add2", 1024, Clock.TIME, 0),
        ("add2", 1024, Clock.TIME, 1),
        ("mul, n = 5", 7, Clock.EVENT, 0),
    ]
    assert [one.seconds for one in found] == [pytest.approx(ns * 1e-9) for ns in (5, 6, 7)]


def test_a_mode_that_is_measured_twice_begins_anew() -> None:
    ranges = [*measured(turn(1000, LAUNCH)), *measured(turn(3000, LAUNCH))]
    assert [one.index for one in iterations(trace(ranges))] == [0, 0]


@pytest.mark.parametrize(
    ("readings", "seconds"),
    [([], [None, None]), (["reading 5 ns"], [5e-9, None]), (["reading", "reading x"], [None] * 2)],
)
def test_readings_may_be_missing(readings: list[str], seconds: list[float | None]) -> None:
    ranges = measured([*turn(1000, LAUNCH), *turn(2000, LAUNCH), *marks(2600, *readings)])
    found = [one.seconds for one in iterations(trace(ranges))]
    assert found == [s if s is None else pytest.approx(s) for s in seconds]


@pytest.mark.parametrize(
    "cut", [[Range(3000, 3000, ITERATION)], turn(3000, BACKLOG), turn(3000, BACKLOG, FIRST_SYNC)]
)
def test_an_iteration_in_which_the_capture_ended_is_left_out(cut: list[Range]) -> None:
    ranges = measured([*turn(1000, LAUNCH), *turn(2000, LAUNCH), *cut])
    assert [one.span.start for one in iterations(trace(ranges))] == [1000, 2000]


def test_an_iteration_whose_launch_was_lost_leaves_the_others_their_numbers_and_readings() -> None:
    turns = [*turn(1000, LAUNCH), *turn(2000, SECOND_SYNC), *turn(3000, LAUNCH)]
    readings = marks(3600, "reading 5 ns", "reading 6 ns", "reading 7 ns")
    found = iterations(trace(measured([*turns, *readings])))
    assert [(one.index, one.seconds) for one in found] == [(0, 5 * 1e-9), (2, 7 * 1e-9)]


def test_what_comes_before_the_first_iteration_belongs_to_none() -> None:
    ranges = measured([Range(900, 950, LAUNCH), Range(960, 970, SECOND_SYNC), *turn(1000, LAUNCH)])
    one = only(iterations(trace(ranges)))
    assert one.launch == Span(1210, 1300)
    assert one.second_sync is None


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [Range(0, 9, "aten::add")],
        turn(1000, LAUNCH),
        [Range(0, 5000, str(SIMPLE)), *turn(1000, LAUNCH)],
        [Range(0, 5000, str(ADD2)), *turn(1000, LAUNCH)],
        measured([Range(10, 20, "aten::add")]),
    ],
    ids=["none", "foreign", "bare", "no operator", "no mode", "no iteration"],
)
def test_a_trace_without_the_experiment_has_no_iterations(ranges: list[Range]) -> None:
    assert iterations(trace(ranges, [Call(0, 1, 1)], [Work(2, 3, 1)])) == ()


def test_what_others_tell_within_an_iteration_is_passed_over() -> None:
    ranges = [*turn(1000, LAUNCH), Range(1215, 1290, "aten::add"), Range(1220, 1230, "")]
    assert only(iterations(trace(measured(ranges)))).launch == Span(1210, 1300)


def kernels_of(calls: list[Call], work: list[Work]) -> tuple[Span, ...]:
    """What the launch from 1210 to 1300 made the device run."""
    return only(iterations(trace(measured(turn(1000, LAUNCH)), calls, work))).kernels


def test_kernels_belong_to_the_launch_that_queued_them_whenever_they_ran() -> None:
    work = [Work(1220, 1230, 1), Work(9000, 9100, 2), Work(1250, 1260, 3)]
    calls = [Call(1100, 1110, 1), Call(1220, 1290, 2), Call(1305, 1309, 3)]
    assert kernels_of(calls, work) == (Span(9000, 9100),)


def test_a_call_is_inside_from_the_first_nanosecond_of_its_step_to_the_one_before_the_end() -> None:
    work = [Work(2000 + i, 2001 + i, i) for i in range(4)]
    calls = [Call(1209, 1299, 0), Call(1210, 1211, 1), Call(1299, 1400, 2), Call(1300, 1301, 3)]
    assert kernels_of(calls, work) == (Span(2001, 2002), Span(2002, 2003))


def test_a_launch_may_queue_several_works_of_any_kind_on_any_stream() -> None:
    calls = [Call(1220, 1230, 1), Call(1240, 1250, 2), Call(1260, 1270, 3)]
    work = [
        Work(1500, 1600, 2, stream=13),
        Work(1550, 1700, 1, stream=7),
        Work(1650, 1660, 1, stream=7),
        Work(1800, 1810, 3, kind="memset"),
    ]
    assert kernels_of(calls, work) == (
        Span(1500, 1600),
        Span(1550, 1700),
        Span(1650, 1660),
        Span(1800, 1810),
    )


def test_work_and_calls_without_a_correlation_are_never_joined() -> None:
    calls = [Call(1220, 1230), Call(1240, 1250, 1)]
    assert kernels_of(calls, [Work(1500, 1600), Work(1700, 1800, 1)]) == (Span(1700, 1800),)
    assert kernels_of([Call(1220, 1230)], [Work(1500, 1600)]) == ()


def test_a_launch_that_called_nothing_ran_nothing() -> None:
    assert kernels_of([], [Work(1500, 1600, 1)]) == ()
    assert kernels_of([Call(1220, 1230, 1)], []) == ()


OFFSET = 5_000_000  # what the trace's clock shows when the program's shows 0
LAUNCHES = [Launched(100, 180, 190, 250), Launched(300, 310, 400, 450)]


def told(delays: Iterable[int]) -> list[Range]:
    """Ticks that follow each telling of the time by these delays, and then what was told."""
    times = [10 * i for i in range(len(list(delays)))]
    ticks = [
        Range(OFFSET + t + d, OFFSET + t + d, TICK) for t, d in zip(times, delays, strict=True)
    ]
    return [*ticks, *marks(OFFSET + 500, *(f"{CLOCK} {time}" for time in times))]


def host_trace(ticks: list[Range]) -> list[Range]:
    return [*ticks, *marks(OFFSET + 900, *map(launched_mark, LAUNCHES))]


def test_the_host_streams_launches_are_placed_by_the_least_delay_of_a_tick() -> None:
    placed = with_host_launches(trace(host_trace(told([7, 3, 9]))))
    at = OFFSET + 3
    assert placed.device == HOST_LABEL
    assert columns(placed.calls, "start", "end", "name", "correlation") == [
        (at + 100, at + 180, "launch", 0),
        (at + 300, at + 310, "launch", 1),
    ]
    assert columns(
        placed.work, "start", "end", "name", "kind", "correlation", "device", "stream"
    ) == [
        (at + 190, at + 250, "host kernel", "kernel", 0, 0, 0),
        (at + 400, at + 450, "host kernel", "kernel", 1, 0, 0),
    ]


def test_the_tables_of_the_host_stream_are_like_a_profilers() -> None:
    profiled = trace(host_trace(told([3])), [Call(0, 1, 1)], [Work(0, 1, 1)])
    placed = with_host_launches(profiled)
    for name in ("calls", "work"):
        found, expected = getattr(placed, name).dtypes, getattr(profiled, name).dtypes
        assert {c: str(t) for c, t in found.items()} == {c: str(t) for c, t in expected.items()}


@pytest.mark.parametrize("missing", [1, 2])
def test_where_the_last_times_were_not_told_the_first_ticks_count(missing: int) -> None:
    # The first tick is the nearest of all.
    ticks = told([3, 9, 9, 9])[:-missing]
    placed = with_host_launches(trace(host_trace(ticks)))
    assert placed.calls["start"].tolist() == [OFFSET + 3 + 100, OFFSET + 3 + 300]


@pytest.mark.parametrize("missing", [1, 2])
def test_where_the_first_ticks_were_not_recorded_the_last_times_count(missing: int) -> None:
    ticks = told([9, 9, 3, 9])[missing:]
    placed = with_host_launches(trace(host_trace(ticks)))
    assert placed.calls["start"].tolist() == [OFFSET + 3 + 100, OFFSET + 3 + 300]


@pytest.mark.parametrize(
    "ranges",
    [
        told([3, 5]),
        marks(0, *map(launched_mark, LAUNCHES)),
        [*marks(0, TICK, TICK), *marks(9, *map(launched_mark, LAUNCHES))],
        [*marks(0, f"{CLOCK} 5"), *marks(9, *map(launched_mark, LAUNCHES))],
        [],
    ],
    ids=["no launches", "no clocks", "ticks alone", "times alone", "nothing"],
)
def test_a_trace_that_does_not_tell_of_the_host_stream_stays_as_it_is(ranges: list[Range]) -> None:
    profiled = trace(ranges, [Call(0, 1, 1)], [Work(0, 1, 1)])
    assert with_host_launches(profiled) is profiled


def test_iterations_on_the_host_stream_are_complete() -> None:
    at = OFFSET + 3
    inside = [
        Range(at + 90, at + 260, ITERATION),
        Range(at + 95, at + 185, LAUNCH),
        Range(at + 190, at + 258, SECOND_SYNC),
        Range(at + 290, at + 460, ITERATION),
        Range(at + 295, at + 315, LAUNCH),
        *marks(at + 600, "reading 170 ns", "reading 165 ns"),
    ]
    ranges = [*measured(inside), *host_trace(told([7, 3, 9]))]
    first, second = iterations(with_host_launches(trace(ranges)))
    assert first.kernels == (Span(at + 190, at + 250),)
    assert second.kernels == (Span(at + 400, at + 450),)
    assert first.end_to_return == pytest.approx(8e-9)
