"""What a mode's reading is made of: parts that were measured apart from it, and what is left."""

import itertools
import statistics
from dataclasses import dataclass
from enum import Enum

from cudabench.records import BOTH, L2, Estimate, HandOver, Measurement, Session


class Part(str, Enum):
    """A span of time that a mode's clock saw."""

    LAUNCH = "launch call"
    BACKLOG = "backlog"
    START = "launch to start"
    GAP = "launch gap"  # in an event pair: its start waits for the launch
    OPERATOR = "operator"
    PAIR = "event pair"  # what any pair reads beyond what is in it
    END = "end to return"


@dataclass(frozen=True)
class Budget:
    """A median reading in seconds, and its parts in the order in which they passed."""

    reading: float
    parts: tuple[tuple[Part, float], ...]

    @property
    def unexplained(self) -> float:
        """The reading less its parts, in seconds."""
        return self.reading - sum(seconds for _, seconds in self.parts)

    def seconds(self, part: Part) -> float:
        """Return one part, 0 where the reading has none of it."""
        return dict(self.parts).get(part, 0.0)


def budget(session: Session, measurement: Measurement) -> Budget | None:
    """Return what a reading is made of, or None where the session did not measure the parts."""
    estimates = session.estimates_of(measurement.operator)
    if session.hand_over is None or L2.WARM not in estimates:
        return None
    behind = estimates.get(L2.BACKLOG) if measurement.backlog else None
    parts = _Parts(
        measurement,
        session.hand_over,
        behind or estimates[L2.WARM],
        estimates[L2.WARM].floor.pair_seconds,
        _backlog_seconds(session, measurement),
    )
    listed = parts.on_host_clock() if measurement.clock.on_host else parts.on_events()
    return Budget(measurement.summary.median, tuple(listed))


def _backlog_seconds(session: Session, measurement: Measurement) -> float:
    """Return how long a backlog takes once it is queued, until a synchronize returns.

    That depends on how fast the host queues it, so it is what the first synchronize of the row
    with both waited, in the same loop; where there is no such row, what it was found to be before.
    """
    if measurement.backlog is None:
        return 0.0
    for other in session.measurements:
        alike = (other.operator, other.clock) == (measurement.operator, measurement.clock)
        if alike and other.backlog and other.mode == BOTH:
            return statistics.median(sample.waited_seconds for sample in other.samples)
    return measurement.backlog.seconds


class _Parts:
    """The parts of one measurement.

    Args:
        measurement: Whose.
        way: How long the way to the device and back takes.
        estimate: The operator's own time, with the cache as in the measurement.
        pair: What any event pair reads beyond what is in it.
        backlog: How long the backlog takes once it is queued, until a synchronize returns.
    """

    def __init__(
        self,
        measurement: Measurement,
        way: HandOver,
        estimate: Estimate,
        pair: float,
        backlog: float,
    ) -> None:
        self._measurement = measurement
        self._backlog = backlog
        self._way = way
        self._operator = estimate.net.value
        self._pair = pair
        self._launch = statistics.median(s.launch_seconds for s in measurement.samples)
        # A stamp is on the device for longer than from its first to its last instruction, and
        # that is not the way there and back.
        rest = max(way.pair - self._pair - way.work, 0.0)
        self._start, self._end = way.start - rest / 2, way.end - rest / 2

    def on_host_clock(self) -> list[tuple[Part, float]]:
        """Return the parts of a reading by the host's clock."""
        mode, backlog = self._measurement.mode, self._measurement.backlog
        launch = (Part.LAUNCH, self._launch)
        if not mode.second_sync:
            return [launch]
        if backlog is None or mode.first_sync:
            waited = (Part.START, self._start)
        else:
            # The backlog runs on while the launch is called.
            waited = (Part.BACKLOG, max(self._backlog - self._end - self._launch, 0.0))
        return [launch, waited, (Part.OPERATOR, self._operator), (Part.END, self._end)]

    def on_events(self) -> list[tuple[Part, float]]:
        """Return the parts of an event pair's reading."""
        return [(Part.GAP, self._gap()), (Part.OPERATOR, self._operator), (Part.PAIR, self._pair)]

    def _gap(self) -> float:
        """Return for how long the stream, past the first event, waits for the launch.

        As long as a stamp's launch, and longer by what this launch call takes longer; less where
        the stream is still busy with what came before.
        """
        mode = self._measurement.mode
        gap = max(self._way.gap + self._launch - self._way.gap_launch, 0.0)
        if mode.first_sync:
            return gap
        if self._measurement.backlog:
            return 0.0
        if mode.second_sync:
            return gap
        starts = [sample.start_seconds for sample in self._measurement.samples]
        periods = [later - earlier for earlier, later in itertools.pairwise(starts)]
        if not periods:
            return gap
        busy = gap + self._operator + self._pair - statistics.median(periods)
        return min(max(gap - busy, 0.0), gap)
