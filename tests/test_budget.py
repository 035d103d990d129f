"""The parts of each mode's reading, from a session whose times are known."""

import pytest

from cudabench import runner
from cudabench.budget import Budget, Part, budget
from cudabench.records import (
    BOTH,
    FIRST_ONLY,
    L2,
    MODES,
    NEITHER,
    SECOND_ONLY,
    Backlog,
    Clock,
    HandOver,
    Loop,
    Measurement,
    Mode,
)
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule
from tests.samples import BACKLOG, measurement, reading, session

# The stamp's work takes 70 us and is on the stream for 1 us more; the floor is 2 us.
WAY = HandOver(
    start=3.5e-6, work=70e-6, end=4.5e-6, pair=73e-6, gap=9e-6, gap_launch=7e-6
)  # fmt: skip
OWN, BEHIND = 70.0, 75.0


def of(subject: Measurement) -> Budget:
    found = budget(session(subject, reading(OWN), reading(BEHIND, l2=L2.BACKLOG), WAY), subject)
    assert found
    return found


def parts(subject: Measurement) -> dict[Part, float]:
    return {part: round(seconds * 1e6, 6) for part, seconds in of(subject).parts}


@pytest.mark.parametrize("mode", [BOTH, SECOND_ONLY])
def test_a_host_clock_sees_the_way_there_and_back(mode: Mode) -> None:
    subject = measurement(mode, 86, launch=8)
    assert parts(subject) == {
        Part.LAUNCH: 8,
        Part.START: 3,
        Part.OPERATOR: 70,
        Part.END: 4,
    }
    assert of(subject).unexplained == pytest.approx(1e-6)


@pytest.mark.parametrize("mode", [FIRST_ONLY, NEITHER])
@pytest.mark.parametrize("backlog", [None, BACKLOG])
def test_without_the_second_synchronize_it_is_the_launch_call(
    mode: Mode, backlog: Backlog | None
) -> None:
    subject = measurement(mode, 8, backlog=backlog, launch=8)
    assert parts(subject) == {Part.LAUNCH: 8}
    assert of(subject).unexplained == pytest.approx(0)


def test_a_backlog_runs_on_while_the_launch_is_called() -> None:
    subject = measurement(SECOND_ONLY, 775, backlog=BACKLOG, launch=8)
    assert parts(subject) == {
        Part.LAUNCH: 8,
        Part.BACKLOG: 700 - 4 - 8,
        Part.OPERATOR: 75,
        Part.END: 4,
    }


def test_a_backlog_is_as_long_as_the_first_synchronize_waited_for_it() -> None:
    """Its length depends on how fast the host queues it: that of the same loop counts."""
    subject = measurement(SECOND_ONLY, 675, backlog=BACKLOG, launch=8)
    both = measurement(BOTH, 90, backlog=BACKLOG, waited=604)
    other_clock = measurement(BOTH, 90, Clock.EVENT, BACKLOG, waited=500)
    found = budget(
        session(*(subject, other_clock, both, reading(OWN), reading(BEHIND, l2=L2.BACKLOG), WAY)),
        subject,
    )
    assert found
    assert found.seconds(Part.BACKLOG) == pytest.approx((604 - 4 - 8) * 1e-6)


def test_a_backlog_that_was_waited_for_is_no_part() -> None:
    assert Part.BACKLOG not in parts(measurement(BOTH, 90, backlog=BACKLOG))


@pytest.mark.parametrize("mode", [BOTH, FIRST_ONLY, SECOND_ONLY])
def test_an_event_pair_on_an_idle_stream_holds_the_launch_gap(mode: Mode) -> None:
    """As long as the stamp's, and by what the launch call takes longer."""
    assert parts(measurement(mode, 82, Clock.EVENT, launch=8)) == {
        Part.GAP: 10,
        Part.OPERATOR: 70,
        Part.PAIR: 2,
    }


def test_a_backlog_hides_the_launch_gap() -> None:
    subject = measurement(SECOND_ONLY, 77, Clock.EVENT, BACKLOG)
    assert parts(subject) == {Part.GAP: 0, Part.OPERATOR: 75, Part.PAIR: 2}


@pytest.mark.parametrize(
    ("period", "gap"),
    [
        (200, 10),  # the stream is idle long before the next launch
        (78, 6),  # 82 us from the first event to the end of the pair: 4 us too long
        (20, 0),  # the stream is always behind
    ],
)
def test_the_operators_own_previous_run_hides_the_launch_gap(period: float, gap: float) -> None:
    subject = measurement(NEITHER, 72, Clock.EVENT, launch=8, period=period)
    assert parts(subject)[Part.GAP] == gap


def test_there_is_no_budget_where_the_parts_were_not_measured() -> None:
    subject = measurement(BOTH, 86)
    assert budget(session(subject, reading(OWN)), subject) is None
    assert budget(session(subject, WAY), subject) is None


def budgets(bench: Bench) -> list[Budget]:
    clocks, loop, rule = (Clock.TIME, Clock.EVENT), Loop(10, 10), StoppingRule(max_time=0.5)
    recorder = runner.Recorder(bench, "x", "sync-modes", loop)
    taken = list(runner.sync_modes(bench, 2**22, clocks, (False, True), loop, rule))
    whole = recorder.session(taken, runner.floors(bench, taken, rule))
    found = [budget(whole, m) for m in whole.measurements]
    assert len(found) == 2 * len(clocks) * len(MODES)
    return [one for one in found if one]


def test_every_mode_has_a_budget(bench: Bench) -> None:
    """How well it adds up depends on how quiet the machine is."""
    found = budgets(bench)
    assert len(found) == 16
    for one in found:
        total = sum(seconds for _, seconds in one.parts)
        assert total + one.unexplained == pytest.approx(one.reading)
    backlogs = [one for one in found if one.seconds(Part.BACKLOG) > one.reading / 2]
    assert len(backlogs) == 1  # the host clock without the first synchronize, behind the backlog


@pytest.mark.gpu
def test_budgets_add_up() -> None:
    """To within 1 us or 5 %; a row or two of ten iterations may be off."""
    found = budgets(runner.open_bench("cuda", print))
    close = [abs(one.unexplained) <= max(1e-6, 0.05 * one.reading) for one in found]
    assert sum(close) >= 14
