"""Pure functions over samples."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """What a row of a table says of its samples, in their own unit."""

    mean: float
    median: float
    minimum: float
    maximum: float


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
