"""Each doubt follows from what was seen."""

import pytest

from cudabench.records import (
    BOTH,
    L2,
    ClockRates,
    DeviceProperties,
    Floor,
    Method,
    Reading,
    SmallLaunch,
    Stop,
)
from cudabench.report.doubts import clock_doubts, doubts, working_set
from tests.samples import FLOOR, measurement, reading, session

DEVICE = DeviceProperties("x", "cuda", 2**34, l2_bytes=2**20, peak_bandwidth=1e12)


def doubted(taken: Reading) -> list[str]:
    return list(doubts(taken.estimate(FLOOR), DEVICE))


def drifting(*us: float) -> Reading:
    gross = tuple(value * 1e-6 for value in us)
    beside = (3e-6,) * len(gross)
    return Reading("add2", 1024, 12, L2.WARM, Method.HELD, gross, beside, Stop.PRECISION)


def test_a_good_estimate_leaves_no_doubt() -> None:
    assert doubted(reading(76)) == []


def test_an_operator_that_waits_for_its_stream_is_named() -> None:
    (said,) = doubted(reading(76, method=Method.EVENTS))
    assert said.startswith("add2, warm L2: its stream could not be held")


def test_an_operator_on_another_stream_is_named_with_the_remedy() -> None:
    (said,) = doubted(reading(18, method=Method.ELSEWHERE))
    assert said.startswith("add2, warm L2: WRONG STREAM.")
    assert "getCurrentCUDAStream" in said


def test_a_spent_budget_is_told() -> None:
    (said,) = doubted(reading(76, l2=L2.COLD, stop=Stop.TIME))
    assert said == (
        "add2, cold L2: the time for it (--max-time) was spent before --precision was reached."
    )


def test_more_than_the_memory_gives_is_explained() -> None:
    (said,) = doubted(reading(0.012))  # 12,288 bytes: 1.02 TB/s
    assert "more than the memory's 1,000 GB/s" in said
    assert "(12.0 KiB) stays in the L2 (1.0 MiB)" in said


def test_samples_that_drift_are_told() -> None:
    (said,) = doubted(drifting(*[83.0] * 10, *[81.0] * 10, *[78.0] * 10))
    assert "its samples drifted, from 81.0 us at first to 76.0 us" in said


def test_what_cannot_be_faster_than_the_memory_is_doubted() -> None:
    (cold,) = doubted(reading(0.012, l2=L2.COLD))
    assert "It cannot be right" in cold


def test_without_kernel_times_there_is_only_a_bound() -> None:
    floor = Floor(L2.WARM, (SmallLaunch("add2", 1, (3e-6,) * 10, None),))
    found = reading(76).estimate(floor)
    assert not found.resolved
    assert found.bound == pytest.approx(78e-6)
    (said,) = doubts(found, DEVICE)
    assert "gave no kernel times" in said


@pytest.mark.parametrize("jitter", [0.0, 3.0])
def test_samples_that_scatter_do_not_drift(jitter: float) -> None:
    assert doubted(drifting(*[80.0, 80.0 + jitter] * 15)) == []


@pytest.mark.parametrize(("moved", "verdict"), [(2**20, "fits"), (2**20 + 1, "does not fit")])
def test_whether_the_working_set_fits_is_said(moved: int, verdict: str) -> None:
    taken = Reading("x", 1, moved, L2.WARM, Method.CALLER, (1e-6,) * 6, (), Stop.TIME)
    assert f"which {verdict} the L2 (1.0 MiB)" in working_set(taken.estimate(FLOOR), DEVICE)


def clocked(*clocks: ClockRates | None, label: str = "cuda:0 (Tested)") -> str:
    measurements = [measurement(BOTH, 1.0, clocks=one) for one in clocks]
    return "\n".join(clock_doubts(session(*measurements, reading(1.0), label=label)))


def test_steady_clocks_are_not_mentioned() -> None:
    idle = ClockRates(1980, 3201, ("gpu idle",))
    assert clocked(idle, ClockRates(1965, 3201, ())) == ""


def test_throttling_is_marked_with_its_reason() -> None:
    hot = ClockRates(1980, 3201, ("hardware thermal", "gpu idle"))
    said = clocked(ClockRates(1980, 3201, ()), hot)
    assert said.startswith("THROTTLED: the device was slowed down (hardware thermal) after 1 of 2")


def test_clocks_that_moved_are_told() -> None:
    said = clocked(ClockRates(1980, 3201, ()), ClockRates(1200, 3201, ()))
    assert said.startswith("The SM clock moved between 1,200 and 1,980 MHz")


def test_clocks_that_nothing_tells_are_unknown() -> None:
    assert clocked(None, None) == "Clocks and throttling: unknown, NVML does not tell them."
    assert clocked(None, label="host (CPU stream, no CUDA)") == ""
