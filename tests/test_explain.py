"""Each sentence follows from what was measured, not from the mode's name."""

import pytest

from cudabench.records import BOTH, FIRST_ONLY, NEITHER, SECOND_ONLY, Clock, Measurement, Mode
from cudabench.report.explain import Explainer
from tests.samples import BACKLOG, measurement

EVENT = Clock.EVENT


def sentence(subject: Measurement, *others: Measurement) -> str:
    return Explainer([subject, *others]).sentence(subject)


@pytest.mark.parametrize("mode", [FIRST_ONLY, NEITHER])
def test_launch_alone(mode: Mode) -> None:
    subject = measurement(mode, 8.4)
    said = sentence(subject, measurement(BOTH, 86))
    assert said.startswith("The launch call alone, 8.40 us: nothing waited")


def test_launch_as_long_as_the_operator() -> None:
    said = sentence(measurement(NEITHER, 88), measurement(BOTH, 86))
    assert said.startswith("As long as with both")


def test_launch_held_up_by_a_full_queue() -> None:
    said = sentence(measurement(NEITHER, 186), measurement(BOTH, 86))
    assert "held up: 100 us longer" in said


def test_both_where_the_operator_dominates() -> None:
    subject = measurement(BOTH, 86)
    said = sentence(subject, measurement(SECOND_ONLY, 76, EVENT, BACKLOG))
    assert said.startswith("The operator, and about 10.0 us of launch call")


def test_both_where_the_launch_dominates() -> None:
    subject = measurement(BOTH, 18.4)
    said = sentence(subject, measurement(SECOND_ONLY, 7.9, EVENT, BACKLOG))
    assert said == (
        "Mostly not the operator: launch call and return of synchronize are about 10.5 us of it."
    )


def test_both_without_events_to_compare_with() -> None:
    said = sentence(measurement(BOTH, 18.4))
    assert said == "The launch call, the operator and the return of synchronize."


def test_second_only_on_an_idle_stream() -> None:
    said = sentence(measurement(SECOND_ONLY, 87), measurement(BOTH, 86))
    assert said == "As with both: nothing was queued before it."


def test_second_only_whose_first_iteration_met_the_warm_up() -> None:
    subject = measurement(SECOND_ONLY, [700.0] + [87.0] * 9)
    said = sentence(subject, measurement(BOTH, 86))
    assert said.endswith("but for the first iteration (700 us), which met the warm-up calls.")


def test_second_only_behind_a_backlog() -> None:
    subject = measurement(SECOND_ONLY, 786, backlog=BACKLOG)
    said = sentence(subject, measurement(BOTH, 86, backlog=BACKLOG), measurement(BOTH, 700))
    assert said == (
        "The operator and 700 us of what was queued before it (the backlog lasts 700 us)."
    )


def test_second_only_that_reads_less() -> None:
    said = sentence(measurement(SECOND_ONLY, 50), measurement(BOTH, 86))
    assert said.startswith("36.0 us less than with both")


def test_events_not_ready_are_counted() -> None:
    said = sentence(measurement(NEITHER, 80, EVENT, not_ready=9))
    assert said.startswith("Not readable at once in 9 of 10")


def test_events_ready_by_luck() -> None:
    assert "by luck" in sentence(measurement(FIRST_ONLY, 4, EVENT))


def test_events_with_a_launch_gap() -> None:
    subject = measurement(BOTH, 21.6, EVENT)
    said = sentence(subject, measurement(SECOND_ONLY, 7.9, EVENT, BACKLOG))
    assert said == "The operator and 13.7 us in which the idle stream waited for its launch."


def test_events_of_a_long_operator() -> None:
    subject = measurement(BOTH, 78, EVENT)
    said = sentence(subject, measurement(SECOND_ONLY, 76, EVENT, BACKLOG))
    assert said == "The operator: the launch gap is small beside it."


def test_events_behind_a_backlog() -> None:
    subject = measurement(SECOND_ONLY, 7.9, EVENT, BACKLOG)
    assert "no launch gap is in it" in sentence(subject)


def test_events_without_a_backlog_to_compare_with() -> None:
    said = sentence(measurement(BOTH, 21.6, EVENT))
    assert said == "The operator, and the gap in which an idle stream waits for its launch."


def test_difference_is_from_both_on_the_same_clock_and_backlog() -> None:
    subject = measurement(SECOND_ONLY, 786, backlog=BACKLOG)
    others = [
        measurement(BOTH, 1),
        measurement(BOTH, 2, EVENT, BACKLOG),
        measurement(BOTH, 86, backlog=BACKLOG),
    ]
    assert Explainer([*others, subject]).difference(subject) == pytest.approx(700e-6)
    assert Explainer([subject]).difference(subject) is None
