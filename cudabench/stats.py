"""Pure functions over samples."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# A sample further from the median than this many scaled median absolute deviations is an outlier
# (Leys et al. 2013, doi:10.1016/j.jesp.2013.03.013).
_OUTLIER_DEVIATIONS = 3.0


@dataclass(frozen=True)
class Summary:
    """What a row of a table says of its samples, in their own unit."""

    mean: float
    median: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Interval:
    """A value and the bounds of its confidence interval."""

    low: float
    value: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds."""
        return (self.high - self.low) / 2

    def __sub__(self, other: "Interval") -> "Interval":
        """Return the difference, whose bounds hold wherever both operands' bounds do."""
        return Interval(self.low - other.high, self.value - other.value, self.high - other.low)

    def __add__(self, constant: float) -> "Interval":
        """Return the interval moved by a constant."""
        return Interval(self.low + constant, self.value + constant, self.high + constant)


def summarise(samples: Sequence[float]) -> Summary:
    """Return the summary of at least one sample.

    Raises:
        ValueError: There are no samples.
    """
    if not samples:
        raise ValueError("a summary needs at least one sample")
    return Summary(
        mean=statistics.fmean(samples),
        median=statistics.median(samples),
        minimum=min(samples),
        maximum=max(samples),
    )


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the median and its distribution-free confidence interval.

    The bounds are order statistics (`scipy.stats.quantile_test`). Fewer than six samples have no
    interval at 95 %: its bounds are infinite.
    """
    from scipy.stats import quantile_test

    median = statistics.median(samples)
    found: Any = quantile_test(samples, q=median, p=0.5).confidence_interval(confidence)
    if math.isnan(found.low) or math.isnan(found.high):
        return Interval(-math.inf, median, math.inf)
    return Interval(float(found.low), median, float(found.high))


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile of at least two samples."""
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, third


def outliers(samples: Sequence[float]) -> int:
    """Return how many samples lie more than three scaled MADs from the median.

    Where more than half of the samples are equal, as readings of a coarse clock are, the MAD is
    zero; one step of the clock stands in for it.
    """
    from scipy.stats import median_abs_deviation

    median = statistics.median(samples)
    spread = float(median_abs_deviation(samples, scale="normal")) or clock_step(samples)
    return sum(abs(sample - median) > _OUTLIER_DEVIATIONS * spread for sample in samples)


def clock_step(samples: Sequence[float]) -> float:
    """Return the smallest distance between two different samples, 0 where all are equal.

    Of readings of a coarse clock that is its step.
    """
    ordered = sorted(set(samples))
    # What floating point makes of equal readings, after a scale or a difference, is no step.
    tolerance = 1e-9 * ordered[-1]
    steps = (b - a for a, b in itertools.pairwise(ordered))
    return min((step for step in steps if step > tolerance), default=0.0)
