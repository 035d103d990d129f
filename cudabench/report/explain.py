"""What a mode measured, in one sentence chosen by what was measured."""

from collections.abc import Sequence

from cudabench.records import BOTH, SECOND_ONLY, Clock, Measurement, Mode
from cudabench.units import duration

# Two medians of ten nearer than this are called alike.
_ALIKE = 0.15


class Explainer:
    """Reads one session's measurements of one operator and size against each other."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self._measurements = measurements

    def difference(self, measurement: Measurement) -> float | None:
        """Return its median less that of the row with both synchronizes, in seconds."""
        both = self._median(BOTH, measurement.clock, measurement.backlog is not None)
        return None if both is None else measurement.summary.median - both

    def sentence(self, measurement: Measurement) -> str:
        """Return what the measurement's clock saw."""
        if not measurement.clock.on_host:
            return self._events(measurement)
        if not measurement.mode.second_sync:
            return self._launch_alone(measurement)
        if measurement.mode.first_sync:
            return self._both_on_host(measurement)
        return self._without_first(measurement)

    def _launch_alone(self, measurement: Measurement) -> str:
        read = measurement.summary.median
        both = self._median(BOTH, measurement.clock, measurement.backlog is not None)
        if both is None:
            return "The launch call: nothing waited for the operator."
        if read < both * (1 - _ALIKE):
            return (
                f"The launch call alone, {duration(read)}: nothing waited for the operator."
                " No speed follows from it."
            )
        if read <= both * (1 + _ALIKE):
            return (
                "As long as with both: when the launch call returned, nothing was left to wait for."
            )
        return (
            f"The launch call, held up: {duration(read - both)} longer than launch and operator"
            " together, as when the launch queue is full."
        )

    def _both_on_host(self, measurement: Measurement) -> str:
        read = measurement.summary.median
        operator = self._operator_seconds()
        if operator is None or operator > read:
            return "The launch call, the operator and the return of synchronize."
        rest = read - operator
        if rest > operator:
            return (
                f"Mostly not the operator: launch call and return of synchronize are about"
                f" {duration(rest)} of it."
            )
        return f"The operator, and about {duration(rest)} of launch call and return of synchronize."

    def _without_first(self, measurement: Measurement) -> str:
        difference = self.difference(measurement)
        if difference is None:
            return "The operator, and whatever was queued before it."
        both = measurement.summary.median - difference
        if difference > both * _ALIKE:
            return (
                f"The operator and {duration(difference)} of what was queued before it"
                f"{_backlog_words(measurement)}."
            )
        if difference < -both * _ALIKE:
            return f"{duration(-difference)} less than with both; nothing was queued before it."
        return f"As with both: nothing was queued before it{_first_iteration(measurement)}."

    def _events(self, measurement: Measurement) -> str:
        read = measurement.summary.median
        if measurement.not_ready:
            return (
                f"Not readable at once in {measurement.not_ready} of {len(measurement.samples)}:"
                " the events had not completed. The figures were read after the loop."
            )
        if not measurement.mode.second_sync:
            return "Readable each time by luck: the operator was over before the events were read."
        behind_backlog = self._median(SECOND_ONLY, Clock.EVENT, True)
        if behind_backlog is None:
            return "The operator, and the gap in which an idle stream waits for its launch."
        gap = read - behind_backlog
        if gap > behind_backlog * _ALIKE:
            return (
                f"The operator and {duration(gap)} in which the idle stream waited for its launch."
            )
        if measurement.mode == SECOND_ONLY and measurement.backlog:
            return "The operator: the stream was busy until it began, so no launch gap is in it."
        return "The operator: the launch gap is small beside it."

    def _operator_seconds(self) -> float | None:
        """Return the nearest thing to the operator's own time: events without a launch gap."""
        behind_backlog = self._median(SECOND_ONLY, Clock.EVENT, True)
        return behind_backlog or self._median(BOTH, Clock.EVENT, False)

    def _median(self, mode: Mode, clock: Clock, with_backlog: bool) -> float | None:
        for measurement in self._measurements:
            found = (measurement.mode, measurement.clock, measurement.backlog is not None)
            if found == (mode, clock, with_backlog):
                return measurement.summary.median
        return None


def _backlog_words(measurement: Measurement) -> str:
    if measurement.backlog is None:
        return ""
    return f" (the backlog lasts {duration(measurement.backlog.seconds)})"


def _first_iteration(measurement: Measurement) -> str:
    """Tell of the warm-up calls, which the first iteration waits for where it shows."""
    first = measurement.samples[0].seconds
    if first <= 2 * measurement.summary.median:
        return ""
    return f", but for the first iteration ({duration(first)}), which met the warm-up calls"
