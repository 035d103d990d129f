import math

import pytest

from cudabench.records import Stop
from cudabench.stats import (
    Interval,
    Summary,
    clock_step,
    median_interval,
    outliers,
    quartiles,
    summarise,
)
from cudabench.stopping import StoppingRule


def test_summary_of_an_even_number_of_samples() -> None:
    assert summarise([4.0, 1.0, 3.0, 12.0]) == Summary(5.0, 3.5, 1.0, 12.0)


def test_no_samples_have_no_summary() -> None:
    with pytest.raises(ValueError, match="at least one"):
        summarise([])


def test_the_medians_interval_is_of_order_statistics() -> None:
    """For n = 20 the 6th and the 15th value hold the median with at least 95 % (binomial)."""
    assert median_interval([float(i) for i in range(1, 21)]) == Interval(6.0, 10.5, 15.0)


def test_five_samples_say_nothing_of_their_median() -> None:
    assert median_interval([1.0] * 5) == Interval(-math.inf, 1.0, math.inf)


def test_differences_of_intervals_are_as_wide_as_both() -> None:
    assert Interval(9, 10, 12) - Interval(1, 2, 3) == Interval(6, 8, 11)
    assert Interval(1, 2, 3) + 1.0 == Interval(2, 3, 4)
    assert Interval(9, 10, 12).half_width == 1.5


def test_quartiles() -> None:
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)


def test_outliers_are_counted_by_mad() -> None:
    assert outliers([10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 20.0]) == 1


def test_outliers_among_readings_of_a_coarse_clock() -> None:
    assert outliers([2.0] * 8 + [2.5] + [9.0]) == 1


def test_the_step_of_a_coarse_clock() -> None:
    assert clock_step([0.032 * i for i in (5, 7, 5, 6, 12)]) == pytest.approx(0.032)
    assert clock_step([1.0, 1.0]) == 0.0


def test_sampling_stops_once_the_median_is_known() -> None:
    rule = StoppingRule(precision=0.01, max_time=2.0)
    assert rule.verdict([100.0, 100.5] * 10, elapsed=0.1) is Stop.PRECISION


def test_sampling_goes_on_until_then() -> None:
    rule = StoppingRule(precision=0.01, max_time=2.0)
    scattered = [90.0 + i for i in range(20)]
    assert rule.verdict(scattered, elapsed=1.9) is None
    assert rule.verdict(scattered, elapsed=2.0) is Stop.TIME


def test_a_step_of_the_clock_is_as_precise_as_it_gets() -> None:
    rule = StoppingRule(precision=0.01, max_time=2.0)
    assert rule.verdict([1.0] * 10 + [1.04] * 10, elapsed=0.1) is Stop.PRECISION
    assert rule.verdict([1.0] * 10 + [2.0] * 10, elapsed=0.1) is None


def test_too_few_samples_are_never_precise() -> None:
    assert StoppingRule().verdict([1.0] * 5, elapsed=0.1) is None
