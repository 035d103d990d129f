"""What the methods for an operator's own time agree on, and which of them does not."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from cudabench.records import L2, Floor, Method, Observer, Opinion, SecondOpinion, Session

# Two figures nearer than this, or than this part of the consensus, agree: what an event pair's
# grid and the gap between two nodes of a graph leave open.
_ALIKE_SECONDS = 0.15e-6
_ALIKE = 0.03

# What is asked; triton's two are judged.
SECOND_OPINIONS = (Opinion.BATCH, Opinion.GRAPH, Opinion.CUPTI)


@dataclass(frozen=True)
class Panel:
    """The figures for one operator and cache state, in seconds.

    Attributes:
        method: How the operator was read, which says where it runs.
        own: The accurate estimate; None where it has only a bound.
        opinions: All of them, those that could not say too.
        floor: Of the session in that state.
        observer: What the profiler does; None where that was not measured.
    """

    operator: str
    n: int
    l2: L2
    method: Method
    own: float | None
    opinions: tuple[SecondOpinion, ...]
    floor: Floor
    observer: Observer | None

    @property
    def consensus(self) -> float | None:
        """The median of the estimate and the second opinions; None where nobody can say."""
        said = [self.figure(one) for one in self.opinions if one.opinion in SECOND_OPINIONS]
        figures = [value for value in (self.own, *said) if value is not None]
        return statistics.median(figures) if figures else None

    def figure(self, opinion: SecondOpinion) -> float | None:
        """Return what an opinion comes to without its floor.

        None where it cannot say, or is not known better than to within the floor's spread.
        """
        net = opinion.net(self.floor)
        return None if net is None or net <= self.floor.spread else net

    def agrees(self, seconds: float) -> bool:
        """Return whether a figure is what the consensus is, as far as can be told."""
        consensus = self.consensus
        if consensus is None:
            return False
        return abs(seconds - consensus) <= max(_ALIKE_SECONDS, _ALIKE * consensus)


def panels(session: Session) -> Iterator[Panel]:
    """Yield a panel for each operator and cache state of a session."""
    for estimate in session.estimates:
        reading = estimate.reading
        key = (reading.operator, reading.n, reading.l2)
        # Event pairs that hold launch gaps are no better than the modes they are to judge.
        trusted = estimate.resolved and reading.method is not Method.EVENTS
        yield Panel(
            *key,
            method=reading.method,
            own=estimate.net.value if trusted else None,
            opinions=tuple(o for o in session.opinions if (o.operator, o.n, o.l2) == key),
            floor=estimate.floor,
            observer=next((o for o in session.observers if (o.operator, o.n, o.l2) == key), None),
        )
