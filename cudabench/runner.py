"""Operators x modes x clocks: yields one measurement at a time."""

import platform
import re
import shlex
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import product

import torch

import cudabench
from cudabench import estimate, timing
from cudabench.device import CudaDevice, Device, HostDevice, cuda_capability
from cudabench.device.system import system_text
from cudabench.errors import DeviceError
from cudabench.kernels import (
    ADD2,
    OPERATORS,
    Buffers,
    Launch,
    Library,
    Operator,
    Toolchain,
    add2_library,
    toolchain,
)
from cudabench.records import (
    BOTH,
    L2,
    MODES,
    Backlog,
    Clock,
    ClockRates,
    Environment,
    Floor,
    Loop,
    Measurement,
    Mode,
    Reading,
    Sample,
    Session,
)
from cudabench.stopping import StoppingRule
from cudabench.units import parse_device, size

# a, b and c, what `a + b` allocates, and what comparing the two takes; a backlog's three.
_BUFFERS_AT_ONCE = 6
_BACKLOG_BUFFERS = 3
# A backlog lasts about ten times the operator: between 0.7 of that and whatever the doubling
# that passes 0.7 comes to.
_BACKLOG_RATIO = 10
_CLOSE_ENOUGH = 0.7


@dataclass(frozen=True)
class Bench:
    """An open device, add2 compiled for it, and the compilers that were used."""

    device: Device
    library: Library
    tools: Toolchain


def open_bench(spec: str, notify: Callable[[str], None]) -> Bench:
    """Open the device that `spec` names and compile add2 for it where the cache lacks it.

    Args:
        spec: `auto` (CUDA where there is a device, else the host), `cuda`, `cuda:K` or `host`.
        notify: Told in one line before anything that takes seconds.

    Raises:
        BadInputError: `spec` is none of these.
        DeviceError: There is no such device.
        BuildError: add2 could not be compiled.
    """
    kind, index = parse_device(spec)
    if kind == "cuda" or (kind == "auto" and torch.cuda.is_available()):
        library = add2_library(cuda_capability(index), notify)
        return Bench(CudaDevice(index, library.path), library, toolchain(with_cuda=True))
    library = add2_library(None, notify)
    return Bench(HostDevice(library.path), library, toolchain(with_cuda=False))


def run(
    bench: Bench,
    n: int,
    clock: Clock,
    loop: Loop,
    caches: Sequence[L2],
    rule: StoppingRule,
) -> Iterator[Measurement | Reading]:
    """Yield add2, `a + b` and `torch.add(out=)` at `n` elements.

    Each operator's result is compared with PyTorch's first. Then come its samples with both
    synchronizes, and its accurate reading in each state of the cache.

    Raises:
        DeviceError: The buffers do not fit the device's memory, or its work failed.
    """
    with _failures_named(bench.device):
        buffers = _buffers(bench.device, n, _BUFFERS_AT_ONCE)
        for operator in OPERATORS:
            launch = operator.bind(bench.library, buffers)
            correct = is_correct(bench.device, launch, buffers)
            samples = timing.measure(bench.device, launch, BOTH, clock, loop)
            yield _measurement(operator, n, clock, BOTH, samples, correct)
            for l2 in caches:
                yield _reading(bench.device, operator, n, launch, buffers, l2, rule)


def sync_modes(
    bench: Bench,
    n: int,
    clocks: Sequence[Clock],
    backlogs: Sequence[bool],
    loop: Loop,
    rule: StoppingRule,
) -> Iterator[Measurement | Reading]:
    """Yield add2 at `n` elements: its accurate reading, then the four modes on each clock.

    Args:
        bench: Where.
        n: Elements in each buffer.
        clocks: The clocks, in the order wanted.
        backlogs: False for an idle stream, True for one with work queued before each iteration.
        loop: How many iterations.
        rule: When the accurate reading is good enough.

    Raises:
        DeviceError: The buffers do not fit the device's memory, or its work failed.
    """
    with _failures_named(bench.device):
        extra = _BACKLOG_BUFFERS if any(backlogs) else 0
        buffers = _buffers(bench.device, n, _BUFFERS_AT_ONCE + extra)
        launch = ADD2.bind(bench.library, buffers)
        correct = is_correct(bench.device, launch, buffers)
        yield _reading(bench.device, ADD2, n, launch, buffers, L2.WARM, rule)
        for wanted in backlogs:
            backlog, queue = _backlog(bench, n, launch) if wanted else (None, timing.no_backlog)
            for clock, mode in product(clocks, MODES):
                samples = timing.measure(bench.device, launch, mode, clock, loop, queue)
                yield _measurement(ADD2, n, clock, mode, samples, correct, backlog)


def floors(bench: Bench, taken: Sequence[Measurement | Reading], rule: StoppingRule) -> list[Floor]:
    """Return what the accurate readings among `taken` hold beyond the operators.

    The profiler runs for it, and may slow what is measured afterwards.
    """
    states = dict.fromkeys(one.l2 for one in taken if isinstance(one, Reading))
    with _failures_named(bench.device):
        smallest = ADD2.bind(bench.library, Buffers.random(bench.device, 1))
        return [
            estimate.floor(bench.device, smallest, rule, _flush(bench.device, l2)) for l2 in states
        ]


def _flush(device: Device, l2: L2) -> estimate.Flush | None:
    return estimate.Flush(device) if l2 is L2.COLD else None


def is_correct(device: Device, launch: Launch, buffers: Buffers) -> bool:
    """Return whether the launch gives PyTorch's own sum, bit for bit.

    The output is filled with NaN first, so that one which is not written is wrong. IEEE 754
    leaves one right result for each sum: nothing is tolerated.
    """
    with device.current():
        buffers.c.fill_(torch.nan)
        device.synchronize()
        result = launch()
        device.synchronize()
        return torch.equal(result, buffers.a + buffers.b)


class Recorder:
    """Takes down when and where a session is measured, from its start to its end."""

    def __init__(self, bench: Bench, session_id: str, command: str, loop: Loop) -> None:
        self._bench = bench
        self._id = session_id
        self._command = command
        self._loop = loop
        self._started = _now()
        self._clocks_at_start = bench.device.clocks()

    def session(self, taken: Sequence[Measurement | Reading], floors: Sequence[Floor]) -> Session:
        """Return the session, ended now."""
        return Session(
            id=self._id,
            command=self._command,
            started=self._started,
            ended=_now(),
            environment=_environment(self._bench, self._clocks_at_start),
            loop=self._loop,
            measurements=tuple(one for one in taken if isinstance(one, Measurement)),
            readings=tuple(one for one in taken if isinstance(one, Reading)),
            floors=tuple(floors),
        )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@contextmanager
def _failures_named(device: Device) -> Iterator[None]:
    """Turn what PyTorch raises for a failed allocation or kernel into an error with a name."""
    try:
        yield
    except RuntimeError as error:
        first_line = str(error).partition("\n")[0]
        raise DeviceError(f"work on {device.properties.label} failed: {first_line}") from error


def _measurement(
    operator: Operator,
    n: int,
    clock: Clock,
    mode: Mode,
    samples: Sequence[Sample],
    correct: bool,
    backlog: Backlog | None = None,
) -> Measurement:
    return Measurement(
        operator=operator.name,
        n=n,
        clock=clock,
        mode=mode,
        backlog=backlog,
        samples=tuple(samples),
        correct=correct,
    )


def _reading(
    device: Device,
    operator: Operator,
    n: int,
    launch: Launch,
    buffers: Buffers,
    l2: L2,
    rule: StoppingRule,
) -> Reading:
    flush = _flush(device, l2)
    if estimate.runs_in_caller(device, launch, buffers.c):
        gross, stop, method = estimate.read_in_caller(launch, rule, flush)
    else:
        gross, stop, method = estimate.read(device, launch, rule, flush)
    return Reading(operator.name, n, operator.bytes_per_element * n, l2, method, gross, stop)


def _buffers(device: Device, n: int, at_once: int) -> Buffers:
    """Return buffers of `n` elements where `at_once` of them fit the device's memory."""
    needed = at_once * 4 * n
    free = device.free_bytes()
    if needed > free:
        raise DeviceError(
            f"n = {n:,} needs {size(needed)} ({at_once} float32 buffers), and"
            f" {device.properties.label} has {size(free)} free of"
            f" {size(device.properties.memory_bytes)}",
            "Use a smaller --n",
        )
    return Buffers.random(device, n)


def _backlog(bench: Bench, n: int, launch: Launch) -> tuple[Backlog, Callable[[], None]]:
    """Return a backlog that lasts about ten times the operator, and what queues it.

    It is launches of the operator on buffers of their own. Where those are over before the host
    has queued the next one, no number of them is a backlog: the buffers then double until the
    device falls behind.
    """
    device = bench.device
    alone = timing.measure(device, launch, BOTH, Clock.PERF_COUNTER, Loop())
    operator = statistics.median(sample.seconds for sample in alone)
    wanted = _BACKLOG_RATIO * _CLOSE_ENOUGH * operator
    elements = n
    while True:
        queue = timing.backlog_of(ADD2.bind(bench.library, Buffers.random(device, elements)))
        lasts = timing.backlog_seconds(device, queue)
        if lasts >= wanted or Buffers.bytes_needed(2 * elements) > device.free_bytes():
            return Backlog(timing.BACKLOG_LAUNCHES, elements, lasts), queue
        elements *= 2


def _environment(bench: Bench, clocks_at_start: ClockRates | None) -> Environment:
    return Environment(
        cudabench=cudabench.__version__,
        command=shlex.join(["cudabench", *sys.argv[1:]]),
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=_cpu_name(),
        torch=torch.__version__,
        torch_cuda=torch.version.cuda,
        cxx=bench.tools.cxx,
        nvcc=bench.tools.nvcc,
        device=bench.device.properties,
        clocks_at_start=clocks_at_start,
        clocks_at_end=bench.device.clocks(),
    )


def _cpu_name() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", system_text("/proc/cpuinfo"), re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()
