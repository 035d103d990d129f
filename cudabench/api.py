"""The estimate from Python: one call, one operator."""

import logging
import warnings
from functools import cache

import torch

from cudabench import estimate, runner
from cudabench.device import Launch
from cudabench.errors import MeasurementWarning
from cudabench.records import L2, Estimate, Floor
from cudabench.report.doubts import doubts
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule

_LOG = logging.getLogger("cudabench")


def measure(
    launch: Launch,
    *,
    l2: str = "warm",
    device: str = "auto",
    bytes_moved: int = 0,
    precision: float = 0.01,
    max_time: float = 2.0,
) -> Estimate:
    """Return how long an operator itself keeps the device.

        estimate = cudabench.measure(lambda: torch.add(a, b, out=c))
        estimate.net.value  # seconds; .net.low and .net.high bound it

    It runs on a stream of cudabench's own, behind what is queued on the current one. The first
    call compiles the kernels that this takes and reads the floor, with the profiler.

    Args:
        launch: Queues one run of the operator and returns; called some hundred times or more.
        l2: State of the device's last cache before each run, `warm` or `cold`.
        device: `auto` (PyTorch's current CUDA device where there is one), `cuda` (that device),
            `cuda:K` or `host`.
        bytes_moved: What one run reads and writes; without it there is no bandwidth.
        precision: Half the width of the median's 95 % confidence interval, relative to it.
        max_time: Seconds to spend, about, if that is not reached.

    Returns:
        The estimate; where `resolved` is false the operator takes less than its `bound`.

    Warns:
        MeasurementWarning: The operator launches on another stream than the current one, waits
            for its stream, did not settle, or moves more than the memory can.

    Raises:
        BadInputError: `device` is unknown.
        DeviceError: There is no such device, or the operator failed on it.
        BuildError: The kernels could not be compiled.
        ValueError: `l2` is neither warm nor cold.
    """
    state = L2(l2)
    if state is L2.BACKLOG:
        raise ValueError("l2 must be 'warm' or 'cold'")
    where = _current(device)
    bench, rule = _bench(where), StoppingRule(precision, max_time)
    with runner.failures_named(bench.device):
        before = estimate.flush_for(bench.device, state)
        gross = estimate.read(bench.device, launch, rule, tuple(bench.small.values()), before)
    name = getattr(launch, "__name__", type(launch).__name__)
    reading = gross.reading(name, 1, bytes_moved, state, bench.device.clocks())
    found = reading.estimate(_floor(where, state))
    for doubt in doubts(found, bench.device.properties):
        warnings.warn(doubt, MeasurementWarning, stacklevel=2)
    return found


def _current(device: str) -> str:
    """Return `device` with the index of PyTorch's current one where it has none."""
    if device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    return device


@cache
def _bench(device: str) -> Bench:
    return runner.open_bench(device, _LOG.info)


@cache
def _floor(device: str, state: L2) -> Floor:
    """Return the floor, of which only what its kernels take and are apart is used after a while."""
    (found,) = runner.floors_in(_bench(device), [state], StoppingRule())
    return found
