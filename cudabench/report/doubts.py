"""Reasons to read an estimate or a session with care, each with its remedy."""

from collections.abc import Iterator

from cudabench import stats
from cudabench.records import L2, DeviceProperties, Estimate, Method, Reading, Session, Stop
from cudabench.units import duration, size

_DRIFT, _NO_DRIFT = 0.03, 0.1e-6
_THIRD_AT_LEAST = 6  # fewer have no interval
_STEADY_CLOCK = 0.02
# NVML's reasons that make a device slower than it is set to be.
_THROTTLED = {
    "software power cap",
    "hardware slowdown",
    "software thermal",
    "hardware thermal",
    "hardware power brake",
}
_STATES = {
    L2.WARM: "warm L2",
    L2.COLD: "cold L2",
    L2.BACKLOG: "after the backlog",
}


def doubts(estimate: Estimate, device: DeviceProperties) -> Iterator[str]:
    """Yield a sentence for each reason to read an estimate with care."""
    reading = estimate.reading
    name = f"{reading.operator}, {_STATES[reading.l2]}"
    if reading.method is Method.EVENTS:
        yield (
            f"{name}: its stream could not be held while it was queued: it waits for that stream,"
            " or queues more than a stream has room for. Its time is that of event pairs alone,"
            " launch gaps included."
        )
    if reading.method is Method.ELSEWHERE:
        yield (
            f"{name}: WRONG STREAM. Nothing of it ran on PyTorch's current stream. It launches on"
            " another, most likely CUDA's default one, or not on this device at all. Event pairs"
            " and CUDA graphs miss it, and so does whatever is to run in order with it. What is"
            " shown holds launch and synchronize. Pass at::cuda::getCurrentCUDAStream() (stable"
            " ABI: aoti_torch_get_current_cuda_stream) to the launch."
        )
    if reading.method is Method.HELD and not estimate.floor.known:
        yield (
            f"{name}: only a bound, because torch.profiler gave no kernel times to calibrate with."
            " Is another profiler running?"
        )
    if reading.stop is Stop.TIME:
        yield f"{name}: the time for it (--max-time) was spent before --precision was reached."
    drift = _drift(estimate)
    if drift:
        early, late = drift
        yield (
            f"{name}: its samples drifted, from {duration(early)} at first to {duration(late)}:"
            " other work, or the clocks, changed meanwhile."
        )
    peak = device.peak_bandwidth
    if peak and estimate.bandwidth and estimate.bandwidth > peak:
        yield f"{name}: more than the memory's {peak / 1e9:,.0f} GB/s{_why_faster(reading, device)}"


def _why_faster(reading: Reading, device: DeviceProperties) -> str:
    """Say how a reading can be faster than the memory."""
    cache = device.l2_bytes or 0
    if reading.l2 is L2.WARM and reading.bytes_moved <= cache:
        moved = size(reading.bytes_moved)
        return f", because what it moves ({moved}) stays in the L2 ({size(cache)})."
    return ". It cannot be right: check the result, and the bytes that it is said to move."


def working_set(estimate: Estimate, device: DeviceProperties) -> str:
    """Return whether what an operator moves fits the last cache, in words."""
    if not device.l2_bytes:
        return ""
    moved = estimate.reading.bytes_moved
    fits = "fits" if moved <= device.l2_bytes else "does not fit"
    cache = "L2" if device.kind == "cuda" else "last cache"
    return f"A launch moves {size(moved)}, which {fits} the {cache} ({size(device.l2_bytes)})."


def clock_doubts(session: Session) -> Iterator[str]:
    """Yield what the device's clocks did while the session was measured."""
    environment = session.environment
    if environment.device.kind != "cuda":
        return
    clocks_of = [m.clocks for m in session.measurements] + [r.clocks for r in session.readings]
    seen = [clocks for clocks in clocks_of if clocks]
    if not seen:
        yield "Clocks and throttling: unknown, NVML does not tell them."
        return
    slowed = [clocks for clocks in seen if _THROTTLED & set(clocks.throttle_reasons)]
    reasons = sorted({r for clocks in slowed for r in clocks.throttle_reasons} & _THROTTLED)
    if slowed:
        yield (
            f"THROTTLED: the device was slowed down ({', '.join(reasons)}) after {len(slowed)} of"
            f" {len(seen)} measurements. Times are as measured, and longer than it can do: let it"
            " cool, or raise its power limit."
        )
    slowest, fastest = (pick(clocks.sm_mhz for clocks in seen) for pick in (min, max))
    if slowest < (1 - _STEADY_CLOCK) * fastest:
        yield (
            f"The SM clock moved between {slowest:,} and {fastest:,} MHz meanwhile: short"
            " operators follow it. Run it again, or longer."
        )


def _drift(estimate: Estimate) -> tuple[float, float] | None:
    """Return the medians of the first and the last third where they are clearly apart."""
    reading = estimate.reading
    beside = reading.beside or (0.0,) * len(reading.gross)
    kernel = estimate.floor.kernel_seconds if reading.beside else 0.0
    samples = [gross - small + kernel for gross, small in zip(reading.gross, beside, strict=True)]
    third = len(samples) // 3
    if third < _THIRD_AT_LEAST:
        return None
    first, last = (stats.median_interval(part) for part in (samples[:third], samples[-third:]))
    apart = first.high < last.low or last.high < first.low
    if not apart or abs(first.value - last.value) <= max(_DRIFT * abs(first.value), _NO_DRIFT):
        return None
    return first.value, last.value
