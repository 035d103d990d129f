"""Each sentence follows from what was measured, not from the mode's name."""

import pytest

from cudabench.records import (
    BOTH,
    FIRST_ONLY,
    NEITHER,
    SECOND_ONLY,
    Clock,
    Measurement,
    Method,
    Mode,
)
from cudabench.report.explain import Explainer
from tests.samples import BACKLOG, FLOOR, measurement, reading

EVENT = Clock.EVENT


def explainer(*measurements: Measurement, own: float = 76.0, warmup: int = 10) -> Explainer:
    return Explainer(measurements, reading(own).estimate(FLOOR), warmup)


def sentence(
    subject: Measurement, *others: Measurement, own: float = 76.0, warmup: int = 10
) -> str:
    return explainer(subject, *others, own=own, warmup=warmup).sentence(subject)


@pytest.mark.parametrize("mode", [FIRST_ONLY, NEITHER])
def test_launch_alone(mode: Mode) -> None:
    said = sentence(measurement(mode, 8.4))
    assert said.startswith("The launch call alone, 8.40 us: nothing waited")


def test_launch_calls_that_wait_for_room_in_the_queue() -> None:
    subject = measurement(NEITHER, [2.0] * 10 + [76.0] * 20)
    said = sentence(subject, measurement(BOTH, 86))
    assert said == (
        "The launch call, 2.00 us at first; then the launch queue was full and each call waited"
        " for room, 76.0 us."
    )


def test_both_where_the_operator_dominates() -> None:
    said = sentence(measurement(BOTH, 86))
    assert said == "The operator, and 10.0 us of launch call and return of synchronize."


def test_both_where_the_launch_dominates() -> None:
    said = sentence(measurement(BOTH, 18.4), own=3.6)
    assert said == (
        "Mostly not the operator: launch call and return of synchronize are 14.8 us of it."
    )


@pytest.mark.parametrize("both", [70.0, 76.5])
def test_both_that_cannot_be_told_from_the_operator(both: float) -> None:
    assert sentence(measurement(BOTH, both)).endswith("are lost in the noise.")


@pytest.mark.parametrize("value", [50.0, 87.0, 110.0])
def test_second_only_without_a_backlog_never_tells_of_queued_work(value: float) -> None:
    said = sentence(measurement(SECOND_ONLY, value), measurement(BOTH, 86))
    assert said.startswith("As with both")
    assert said.endswith(": nothing waited but for the operator.")
    assert (" apart)" in said) == (value != 87.0)


def test_second_only_whose_first_iteration_met_the_warm_up() -> None:
    subject = measurement(SECOND_ONLY, [700.0] + [87.0] * 9)
    assert "in the first iteration (700 us) for the warm-up calls too" in sentence(subject)
    assert "warm-up" not in sentence(subject, warmup=0)


def test_second_only_behind_a_backlog() -> None:
    subject = measurement(SECOND_ONLY, 786, backlog=BACKLOG)
    said = sentence(subject, measurement(BOTH, 86, backlog=BACKLOG), measurement(BOTH, 700))
    assert said == (
        "The operator and 700 us of what was queued before it (the backlog lasts 700 us)."
    )


def test_second_only_behind_a_backlog_that_was_over() -> None:
    subject = measurement(SECOND_ONLY, 90, backlog=BACKLOG)
    said = sentence(subject, measurement(BOTH, 86, backlog=BACKLOG))
    assert said.startswith("The operator, and less than half of the backlog")


def test_events_not_ready_are_counted() -> None:
    said = sentence(measurement(NEITHER, 80, EVENT, not_ready=9))
    assert said.startswith("Not readable at once in 9 of 10")


def test_events_ready_by_luck() -> None:
    assert "by luck" in sentence(measurement(FIRST_ONLY, 4, EVENT))


def test_events_with_a_launch_gap() -> None:
    said = sentence(measurement(BOTH, 21.6, EVENT), own=3.6)
    assert said == (
        "The operator, and 2.00 us that any event pair reads, and 16.0 us in which the idle"
        " stream waited for the launch."
    )


@pytest.mark.parametrize("backlog", [None, BACKLOG])
def test_events_without_a_launch_gap(backlog: None) -> None:
    said = sentence(measurement(SECOND_ONLY, 79, EVENT, backlog))
    assert said.endswith("2.00 us that any event pair reads; no launch gap that shows.")


def test_events_that_a_backlog_made_longer() -> None:
    said = sentence(measurement(SECOND_ONLY, 98, EVENT, BACKLOG))
    assert said.endswith("and 20.0 us more than when measured alone.")


def test_difference_is_from_both_on_the_same_clock_and_backlog() -> None:
    subject = measurement(SECOND_ONLY, 786, backlog=BACKLOG)
    others = [
        measurement(BOTH, 1),
        measurement(BOTH, 2, EVENT, BACKLOG),
        measurement(BOTH, 86, backlog=BACKLOG),
    ]
    assert explainer(*others, subject).difference(subject) == pytest.approx(700e-6)
    assert explainer(subject).difference(subject) is None


def test_excess_is_from_the_operators_own_time() -> None:
    subject = measurement(NEITHER, 10)
    assert explainer(subject, own=76.0).excess(subject) == pytest.approx(-66e-6)


def test_an_operator_in_the_calling_thread_needs_no_synchronize() -> None:
    own = reading(5.0, method=Method.CALLER).estimate(FLOOR)
    host, events = measurement(NEITHER, 5.1), measurement(BOTH, 25, EVENT)
    found = Explainer([events, host], own, 10)
    assert "runs in the calling thread" in found.sentence(host)
    assert "nothing of it on the stream" in found.sentence(events)


def test_an_operator_on_another_stream_is_not_what_its_events_read() -> None:
    own = reading(18.0, method=Method.ELSEWHERE).estimate(FLOOR)
    events, host = measurement(BOTH, 15, EVENT), measurement(BOTH, 18.4)
    found = Explainer([events, host], own, 10)
    assert found.sentence(events).startswith("Not the operator")
    assert "waits for every stream" in found.sentence(host)
