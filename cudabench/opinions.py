"""Second opinions on an operator's own time, and what the profiler does to it.

None of them is the truth: a batch holds the gap between two launches, a graph may have recorded
nothing, CUPTI slows some kernels that it watches. Where they agree, the time can be trusted.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Sequence

import torch
from torch.profiler import ProfilerActivity, profile

from cudabench.device import CudaDevice, Device, Launch
from cudabench.estimate import kernel_seconds, pairs
from cudabench.pairs import Before, behind_hold, called
from cudabench.records import Method, Opinion

# The launches of a shorter and of a longer batch or graph: the slope between the two is one
# launch's time, without what a batch costs once. A CUDA stream queues about a thousand.
_SHORTER, _LONGER = 10, 50
_REPEATS = 15
_LEAST_REPEATS = 3

_CUDA_ONLY = "CUDA only"
_ELSEWHERE = "nothing of the operator ran on the current stream"


# The seconds that so many launches take.
_Span = Callable[[int], float]


class CannotSayError(Exception):
    """A method has no figure for this operator; the text says why."""


def opinion_of(
    opinion: Opinion,
    device: Device,
    launch: Launch,
    method: Method,
    max_time: float,
    small: Sequence[Launch] = (),
    before: Before | None = None,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return what a method says one launch takes: several figures, or its one, in seconds.

    With them comes what it says of each small launch, where it needs a floor: a batch and a graph
    hold what passes between two launches.

    Args:
        opinion: Which method. triton's two have their own ideas of the cache.
        device: Where.
        launch: Queues one run.
        method: How the operator's accurate reading was taken, which says where it runs.
        max_time: Seconds to spend on the operator, about, and on each small launch.
        small: The floor's launches.
        before: Queued before each launch, its time taken off.

    Raises:
        CannotSayError: The method cannot time this operator here.
    """
    with device.current():
        if before and not isinstance(device, CudaDevice):
            # What empties the cache runs in the calling thread, before the first of many launches.
            raise CannotSayError("CUDA only, where the cache is to be cold")
        if opinion is Opinion.BATCH:
            return _batch(device, launch, method, max_time, small, before)
        if not isinstance(device, CudaDevice):
            raise CannotSayError(_CUDA_ONLY)
        if opinion is Opinion.CUPTI:
            elsewhere = method is Method.ELSEWHERE
            return kernel_seconds(device, (launch,), before, elsewhere)[0], ()
        if opinion is Opinion.DO_BENCH:
            return _triton("do_bench", launch), ()
        if method is Method.EVENTS:
            raise CannotSayError("it waits for its stream, which a capture does not allow")
        _require_capture(device, launch)
        if opinion is Opinion.DO_BENCH_CUDAGRAPH:
            return _triton("do_bench_cudagraph", launch), ()
        return _graph(device, launch, max_time, small, before)


def pairs_in_profiler(
    device: Device, launch: Launch, before: Before | None = None
) -> tuple[float, ...]:
    """Return what `estimate.pairs` does, read while `torch.profiler` runs."""
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True):
        return pairs(device, launch, before)


def _batch(
    device: Device,
    launch: Launch,
    method: Method,
    max_time: float,
    small: Sequence[Launch],
    before: Before | None,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if method is Method.ELSEWHERE:
        raise CannotSayError(_ELSEWHERE)
    if method is Method.EVENTS:
        raise CannotSayError("it waits for its stream, so that no two launches follow each other")
    if method is Method.CALLER:
        return tuple(_slopes(lambda count: called(launch, count), max_time)), ()

    def span_of(work: Launch) -> _Span:
        return lambda count: _queued(device, work, count)

    return _net_slopes(device, span_of, launch, max_time, small, before)


def _graph(
    device: CudaDevice,
    launch: Launch,
    max_time: float,
    small: Sequence[Launch],
    before: Before | None,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    def span_of(work: Launch) -> _Span:
        graphs = {count: _captured(work, count) for count in (_SHORTER, _LONGER)}
        for graph in graphs.values():
            graph.instantiate()
        return lambda count: _queued(device, graphs[count].replay, 1)

    return _net_slopes(device, span_of, launch, max_time, small, before)


def _net_slopes(
    device: Device,
    span_of: Callable[[Launch], _Span],
    launch: Launch,
    max_time: float,
    small: Sequence[Launch],
    before: Before | None,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return seconds per launch, and per small launch, less what comes before each."""

    def slopes(work: Launch) -> list[float]:
        work()  # what is to be loaded is loaded before a stream is held
        device.synchronize()
        return _slopes(span_of(work), max_time / 2)

    taken_off = statistics.median(slopes(before)) if before else 0.0
    beside = tuple(statistics.median(slopes(_each(before, one))) - taken_off for one in small)
    return tuple(slope - taken_off for slope in slopes(_each(before, launch))), beside


def _each(before: Before | None, launch: Launch) -> Launch:
    return (lambda: (before(), launch())) if before else launch


def _slopes(span: _Span, max_time: float) -> list[float]:
    """Return seconds per launch, from spans of fewer and of more launches."""
    slopes: list[float] = []
    until = time.perf_counter() + max_time
    span(_SHORTER)  # warms up
    while len(slopes) < _REPEATS:
        slopes.append((span(_LONGER) - span(_SHORTER)) / (_LONGER - _SHORTER))
        if len(slopes) >= _LEAST_REPEATS and time.perf_counter() > until:
            break
    return slopes


def _queued(device: Device, work: Launch, count: int) -> float:
    """Return the seconds that an event pair reads around `count` works behind a held stream."""
    seconds, expired = behind_hold(device, work, count)
    if expired:
        raise CannotSayError(f"{count} launches could not be queued behind a held stream")
    return seconds


def _require_capture(device: CudaDevice, launch: Launch) -> None:
    """Capture one launch.

    Raises:
        CannotSayError: It cannot be captured, or the capture recorded nothing. A graph of nothing
            can be replayed and timed all the same.
    """
    graph = _captured(launch, 1)  # its nodes are gone with it
    if device.graph_nodes(graph.raw_cuda_graph()) == 0:
        raise CannotSayError(f"the capture recorded nothing: {_ELSEWHERE}")


def _captured(work: Launch, count: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The CUDA Graph is empty")
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for _ in range(count):
                    work()
    except RuntimeError as error:
        _end_capture()
        first_line = str(error).partition("\n")[0]
        raise CannotSayError(f"it cannot be captured: {first_line}") from error
    return graph


def _end_capture() -> None:
    """Make PyTorch's random generator usable again, which a failed capture leaves in one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass


def _triton(name: str, launch: Launch) -> tuple[float, ...]:
    try:
        from triton import testing
    except ImportError as error:
        raise CannotSayError("triton is not installed") from error
    return (float(getattr(testing, name)(launch, return_mode="median")) * 1e-3,)
