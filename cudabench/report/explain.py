"""What a mode measured, in one sentence chosen by what was measured."""

import statistics
from collections.abc import Sequence

from cudabench.records import BOTH, Clock, Estimate, Measurement, Method, Mode
from cudabench.units import duration

# Two medians of ten nearer than this are called alike.
_ALIKE = 0.15
# How often the last readings of a loop are the first ones where its launch queue filled up.
_FILLED = 3
# Host clocks read the same twice within about this; less is not told apart.
_HOST_NOISE = 1e-6

_EVENTS_ELSEWHERE = (
    "Not the operator: the events are on the current stream, and nothing of it ran there. What is"
    " between them is the launch call."
)
_BOTH_ELSEWHERE = (
    "Launch call, operator and return of synchronize, which waits for every stream of the device."
)

_IN_CALLER = "The operator, which runs in the calling thread: no synchronize changes that."
_EVENTS_IN_CALLER = (
    "The calling thread between two events: the operator ran there, and nothing of it on the"
    " stream."
)


class Explainer:
    """Reads one session's measurements of one operator and size against each other.

    Args:
        measurements: All of them.
        estimate: The operator's own time.
        warmup: How many calls were queued before each mode's first iteration.
    """

    def __init__(
        self, measurements: Sequence[Measurement], estimate: Estimate, warmup: int
    ) -> None:
        self._measurements = measurements
        self._operator = max(estimate.net.value, 0.0)
        self._floor = max(estimate.floor.pair_seconds, 0.0)
        self._method = estimate.reading.method
        self._warmup = warmup

    def excess(self, measurement: Measurement) -> float:
        """Return its median less the operator's own time, in seconds."""
        return measurement.summary.median - self._operator

    def difference(self, measurement: Measurement) -> float | None:
        """Return its median less that of the row with both synchronizes, in seconds."""
        both = self._median(BOTH, measurement.clock, measurement.backlog is not None)
        return None if both is None else measurement.summary.median - both

    def sentence(self, measurement: Measurement) -> str:
        """Return what the measurement's clock saw."""
        if self._method is Method.CALLER:
            return _IN_CALLER if measurement.clock.on_host else _EVENTS_IN_CALLER
        elsewhere = self._method is Method.ELSEWHERE
        if not measurement.clock.on_host:
            return _EVENTS_ELSEWHERE if elsewhere else self._events(measurement)
        if not measurement.mode.second_sync:
            return self._launch_alone(measurement)
        if elsewhere:
            return _BOTH_ELSEWHERE
        if measurement.mode.first_sync:
            return self._both_on_host(measurement)
        return self._without_first(measurement)

    def _launch_alone(self, measurement: Measurement) -> str:
        early, late = _ends(measurement)
        if late > _FILLED * early and late > self._operator * (1 - _ALIKE):
            return (
                f"The launch call, {duration(early)} at first; then the launch queue was full and"
                f" each call waited for room, {duration(late)}."
            )
        return (
            f"The launch call alone, {duration(measurement.summary.median)}: nothing waited for"
            " the operator. No speed follows from it."
        )

    def _both_on_host(self, measurement: Measurement) -> str:
        rest = self.excess(measurement)
        if rest < _HOST_NOISE:
            return "The operator: launch call and return of synchronize are lost in the noise."
        if rest > self._operator:
            return (
                "Mostly not the operator: launch call and return of synchronize are"
                f" {duration(rest)} of it."
            )
        return f"The operator, and {duration(rest)} of launch call and return of synchronize."

    def _without_first(self, measurement: Measurement) -> str:
        difference = self.difference(measurement)
        if measurement.backlog is None:
            apart = difference is not None and abs(difference) > _ALIKE * measurement.summary.median
            how_far = f" (but {duration(abs(difference or 0.0))} apart)" if apart else ""
            return (
                f"As with both{how_far}: nothing waited but for the operator"
                f"{self._first(measurement)}."
            )
        lasts = duration(measurement.backlog.seconds)
        if difference is None or difference < measurement.backlog.seconds / 2:
            return f"The operator, and less than half of the backlog (which lasts {lasts})."
        return (
            f"The operator and {duration(difference)} of what was queued before it"
            f" (the backlog lasts {lasts})."
        )

    def _first(self, measurement: Measurement) -> str:
        """Tell of the warm-up calls, which the first iteration waits for where it shows."""
        first = measurement.samples[0].seconds
        if self._warmup == 0 or first <= 2 * measurement.summary.median:
            return ""
        return f", and in the first iteration ({duration(first)}) for the warm-up calls too"

    def _events(self, measurement: Measurement) -> str:
        if measurement.not_ready:
            return (
                f"Not readable at once in {measurement.not_ready} of {len(measurement.samples)}:"
                " the events had not completed. The figures were read after the loop."
            )
        if not measurement.mode.second_sync:
            return "Readable each time by luck: the operator was over before the events were read."
        gap = measurement.summary.median - self._operator - self._floor
        own = f"The operator, and {duration(self._floor)} that any event pair reads"
        if gap <= _ALIKE * (self._operator + self._floor):
            return f"{own}; no launch gap that shows."
        if measurement.backlog:
            return f"{own}, and {duration(gap)} more than when measured alone."
        return f"{own}, and {duration(gap)} in which the idle stream waited for the launch."

    def _median(self, mode: Mode, clock: Clock, with_backlog: bool) -> float | None:
        for measurement in self._measurements:
            found = (measurement.mode, measurement.clock, measurement.backlog is not None)
            if found == (mode, clock, with_backlog):
                return measurement.summary.median
        return None


def _ends(measurement: Measurement) -> tuple[float, float]:
    """Return the medians of the first and of the last third of the samples."""
    seconds = [sample.seconds for sample in measurement.samples]
    third = max(len(seconds) // 3, 1)
    return statistics.median(seconds[:third]), statistics.median(seconds[-third:])
