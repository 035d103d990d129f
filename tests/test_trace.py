"""What an iteration, and a table of works, come to: every figure worked out by hand."""

import random

import pytest

from cudabench.records import BOTH, FIRST_ONLY, MODES, NEITHER, SECOND_ONLY, Clock, Mode
from cudabench.trace import Activity, Span, activities, busy, correlations
from tests.traces import Call, Work, iteration, trace

NS = 1e-9
exactly = pytest.approx


def test_a_span_lasts_from_its_start_to_its_end() -> None:
    assert Span(1_000, 4_500).seconds == exactly(3.5e-6)
    assert Span(7, 7).seconds == 0


def test_the_parts_of_an_iteration() -> None:
    one = iteration()
    assert one.launch.seconds == exactly(8_000 * NS)
    assert one.launch_to_start == exactly(1_000 * NS)
    assert one.kernel == exactly(4_000 * NS)
    assert one.end_to_return == exactly(3_000 * NS)
    assert one.done == 19_000


def test_the_parts_between_the_launch_and_the_return_add_up() -> None:
    one = iteration()
    parts = (one.launch.seconds, one.launch_to_start, one.kernel, one.end_to_return)
    assert one.second_sync
    whole = Span(one.launch.start, one.second_sync.end)
    assert sum(part or 0 for part in parts) == exactly(whole.seconds)


def test_work_may_start_before_the_launch_call_returns() -> None:
    assert iteration(kernels=(Span(13_400, 17_000),)).launch_to_start == exactly(-600 * NS)


def test_without_work_nothing_is_said_of_it() -> None:
    one = iteration(kernels=())
    assert (one.launch_to_start, one.kernel, one.end_to_return, one.done) == (None,) * 4


def test_without_a_second_synchronize_nothing_returns() -> None:
    one = iteration(second_sync=None)
    assert one.end_to_return is None
    assert one.kernel == exactly(4_000 * NS)


def test_of_several_kernels_the_first_start_the_last_end_and_the_sum_count() -> None:
    one = iteration(kernels=(Span(15_000, 16_000), Span(16_500, 18_500)))
    assert one.launch_to_start == exactly(1_000 * NS)
    assert one.kernel == exactly(3_000 * NS)
    assert one.end_to_return == exactly(3_500 * NS)


def test_work_is_done_when_its_last_kernel_ends_which_may_have_started_first() -> None:
    one = iteration(kernels=(Span(15_000, 19_000), Span(16_000, 17_000)), clock=Clock.EVENT)
    assert one.done == 19_000
    assert one.end_to_return == exactly(3_000 * NS)
    assert one.timed == Span(2_000, 19_000)


@pytest.mark.parametrize("clock", [Clock.TIME, Clock.PERF_COUNTER])
@pytest.mark.parametrize(
    ("mode", "seconds", "timed"),
    [
        # Around launch and second synchronize, 16_000 ns: 1_000 are left, half of them before.
        (BOTH, 17e-6, Span(5_500, 22_500)),
        (SECOND_ONLY, 17e-6, Span(5_500, 22_500)),
        # Around the launch alone, 8_000 ns.
        (FIRST_ONLY, 8.2e-6, Span(5_900, 14_100)),
        (NEITHER, 8.2e-6, Span(5_900, 14_100)),
        # A clock that reads less than lies between its readings, as time.time sometimes does.
        (BOTH, 15e-6, Span(6_500, 21_500)),
        (NEITHER, 0.0, Span(10_000, 10_000)),
    ],
)
def test_a_host_clocks_reading_lies_about_the_steps_that_it_was_read_around(
    clock: Clock, mode: Mode, seconds: float, timed: Span
) -> None:
    first = Span(2_000, 5_000) if mode.first_sync else None
    second = Span(14_500, 22_000) if mode.second_sync else None
    one = iteration(clock=clock, mode=mode, first_sync=first, second_sync=second, seconds=seconds)
    assert one.timed == timed


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
@pytest.mark.parametrize(
    ("kernels", "timed"),
    [
        ((Span(15_000, 19_000),), Span(13_000, 19_000)),
        ((Span(15_000, 16_000), Span(17_000, 21_000)), Span(15_000, 21_000)),
        ((), Span(8_000, 14_000)),
    ],
    ids=["one", "two", "none"],
)
def test_an_event_pairs_reading_ends_with_the_work_or_with_the_launch_where_there_is_none(
    mode: Mode, kernels: tuple[Span, ...], timed: Span
) -> None:
    second = Span(14_500, 22_000) if mode.second_sync else None
    one = iteration(clock=Clock.EVENT, mode=mode, second_sync=second, kernels=kernels, seconds=6e-6)
    assert one.timed == timed


@pytest.mark.parametrize("clock", Clock)
def test_a_clock_whose_reading_is_unknown_is_not_placed(clock: Clock) -> None:
    assert iteration(clock=clock, seconds=None).timed is None


def test_activities_are_summed_up_by_name_and_what_took_longest_comes_first() -> None:
    work = trace(
        work=[
            Work(0, 10, name="short"),
            Work(20, 120, name="long"),
            Work(130, 132, name="short"),
            Work(140, 200, name="long"),
            Work(210, 213, name="short"),
        ]
    ).work
    assert activities(work) == [
        Activity("long", 2, 160, 80.0, 80.0, 60, 100),
        Activity("short", 3, 15, 5.0, 3.0, 2, 10),
    ]


def test_only_names_that_occur_are_activities() -> None:
    work = trace(work=[Work(0, 10, name="a"), Work(20, 30, name="b")]).work
    assert [one.name for one in activities(work.head(1))] == ["a"]


def test_an_empty_table_has_no_activities() -> None:
    assert activities(trace().work) == []
    assert activities(trace().calls) == []


def test_only_rows_that_have_a_correlation_are_joined_by_it() -> None:
    calls = trace(calls=[Call(0, 1, 7), Call(2, 3), Call(4, 5, 0)]).calls
    assert correlations(calls).tolist() == [7, 0]


@pytest.mark.parametrize(
    ("spans", "spent", "gaps", "longest"),
    [
        ([(10, 30)], 20, 0, None),
        ([(10, 10)], 0, 0, None),
        ([(10, 30), (30, 40)], 30, 0, None),
        ([(10, 30), (35, 40), (47, 50)], 28, 2, (40, 47)),
        ([(10, 30), (20, 40)], 30, 0, None),
        ([(10, 30), (10, 30)], 20, 0, None),
        ([(10, 90), (20, 30), (50, 60), (95, 99)], 84, 1, (90, 95)),
        ([(10, 50), (20, 30), (40, 60), (70, 80), (90, 95)], 65, 2, (60, 70)),
    ],
    ids=["one", "empty", "touch", "gaps", "overlap", "same", "nested", "all"],
)
def test_a_device_is_busy_where_any_work_runs(
    spans: list[tuple[int, int]], spent: int, gaps: int, longest: tuple[int, int] | None
) -> None:
    found = busy(trace(work=[Work(*span) for span in spans]).work)
    assert found.span == Span(10, max(end for _, end in spans))
    assert (found.busy, found.gaps) == (spent, gaps)
    assert found.longest_gap == (Span(*longest) if longest else None)


@pytest.mark.parametrize("seed", range(20))
def test_busy_counts_each_nanosecond_in_which_something_ran_once(seed: int) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(300) for _ in range(30)]
    spans = [(start, start + chance.randrange(1, 12)) for start in starts]
    ran = {ns for start, end in spans for ns in range(start, end)}
    assert busy(trace(work=[Work(*span) for span in spans]).work).busy == len(ran)
