"""When there are samples enough."""

from collections.abc import Sequence
from dataclasses import dataclass

from cudabench import stats
from cudabench.records import Stop

# Two values of a noisy machine may be as far apart as they like; the steps of a clock are not.
_LARGEST_STEP = 0.05


@dataclass(frozen=True)
class StoppingRule:
    """Stop when the median is known well enough, or the time is spent.

    Attributes:
        precision: Half the width of the median's 95 % confidence interval, relative to it.
        max_time: Seconds to spend on one reading, its warm-up included.
        resolution: Half the width, in seconds, that is enough in any case. The pairs of one kernel
            lie 160 ns apart on an H200.
    """

    precision: float = 0.01
    max_time: float = 2.0
    resolution: float = 10e-9

    def verdict(self, samples: Sequence[float], elapsed: float) -> Stop | None:
        """Return why to stop now, or None.

        An interval no wider than a step of the clock does not become narrower: it is precise,
        where the step is small beside the median.
        """
        interval = stats.median_interval(samples)
        step = min(stats.clock_step(samples), _LARGEST_STEP * interval.value)
        enough = max(self.precision * interval.value, step, self.resolution)
        if interval.half_width <= enough:
            return Stop.PRECISION
        return Stop.TIME if elapsed >= self.max_time else None
