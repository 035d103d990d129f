"""Operators x modes x clocks: yields one measurement at a time."""

import platform
import re
import shlex
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from itertools import product
from typing import NamedTuple

import torch

import cudabench
from cudabench import estimate, handover, opinions, timing
from cudabench.device import CudaDevice, Device, HostDevice, cuda_capability
from cudabench.device.system import system_text
from cudabench.errors import BadInputError, DeviceError
from cudabench.kernels import (
    ADD2,
    ADD_OUT,
    OPERATORS,
    USUAL_OPERATORS,
    Buffers,
    Launch,
    Library,
    Operator,
    Toolchain,
    add2_library,
    stamp_launch,
    toolchain,
)
from cudabench.pairs import Before, nothing
from cudabench.ranges import (
    NO_RANGES,
    ModeName,
    NoRanges,
    OperatorName,
    launched_mark,
    reading_mark,
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
    HandOver,
    Loop,
    Measurement,
    Method,
    Mode,
    Observer,
    Opinion,
    Reading,
    SecondOpinion,
    Session,
)
from cudabench.stopping import StoppingRule
from cudabench.units import parse_device, size

# What the commands yield, in the order taken.
Taken = Measurement | Reading | HandOver | SecondOpinion | Observer

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

    @cached_property
    def small(self) -> Mapping[tuple[str, int], Launch]:
        """What queues add2 and PyTorch's add at a few small n, by operator and n: the floor's.

        They go up to one of add2's blocks for each multiprocessor. On the host nothing tells how
        much of a reading is the addition: one element takes least.
        """
        multiprocessors = self.device.properties.multiprocessors
        sizes = (1, 2**10, 2**14, 2**10 * multiprocessors) if multiprocessors else (1,)
        operators = (ADD2, ADD_OUT) if multiprocessors else (ADD2,)
        return {
            (operator.name, n): operator.bind(self.library, Buffers.random(self.device, n))
            for operator, n in product(operators, sizes)
        }


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


def operators_named(names: Sequence[str], kind: str) -> tuple[Operator, ...]:
    """Return the operators of these names, spaces left out; the usual three where none is named.

    Raises:
        BadInputError: There is none of that name, or it needs a CUDA device and `kind` is host.
    """
    known = {operator.name.replace(" ", ""): operator for operator in OPERATORS}
    found = []
    for name in dict.fromkeys(name.replace(" ", "") for name in names):
        operator = known.get(name)
        if operator is None:
            raise BadInputError(f"unknown operator {name!r}", f"Use one of {', '.join(known)}")
        if operator.cuda_only and kind != "cuda":
            raise BadInputError(f"{operator.name} needs a CUDA device", "Use --device cuda")
        found.append(operator)
    return tuple(found) or USUAL_OPERATORS


def run(
    bench: Bench,
    operators: Sequence[Operator],
    n: int,
    clock: Clock,
    loop: Loop,
    caches: Sequence[L2],
    rule: StoppingRule,
    ranges: NoRanges = NO_RANGES,
) -> Iterator[Taken]:
    """Yield each operator at `n` elements.

    Its result is compared with PyTorch's first. Then come the samples with both synchronizes of
    all, and each one's accurate reading in each state of the cache.

    Raises:
        DeviceError: The buffers do not fit the device's memory, or its work failed.
    """
    with failures_named(bench.device):
        buffers = _buffers(bench.device, n, _BUFFERS_AT_ONCE)
        subjects = [_Subject.of(bench, operator, buffers) for operator in operators]
        with ranges.capture():
            for subject in subjects:
                yield subject.measurement(clock, BOTH, loop, ranges=ranges)
        for subject, l2 in product(subjects, caches):
            yield subject.reading(l2, rule, estimate.flush_for(bench.device, l2))


def sync_modes(
    bench: Bench,
    n: int,
    clocks: Sequence[Clock],
    backlogs: Sequence[bool],
    loop: Loop,
    rule: StoppingRule,
    ranges: NoRanges = NO_RANGES,
) -> Iterator[Taken]:
    """Yield add2 at `n` elements: its accurate readings, then the four modes on each clock.

    What the modes' readings are made of comes with them: how long the way to the device and back
    takes, and the operator's own time behind the backlog.

    Args:
        bench: Where.
        n: Elements in each buffer.
        clocks: The clocks, in the order wanted.
        backlogs: False for an idle stream, True for one with work queued before each iteration.
        loop: How many iterations.
        rule: When the accurate reading is good enough.
        ranges: Tells a profiler of the modes.

    Raises:
        DeviceError: The buffers do not fit the device's memory, or its work failed.
    """
    device = bench.device
    with failures_named(device):
        extra = _BACKLOG_BUFFERS if any(backlogs) else 0
        buffers = _buffers(device, n, _BUFFERS_AT_ONCE + extra)
        add2 = _Subject.of(bench, ADD2, buffers)
        reading = add2.reading(L2.WARM, rule)
        yield reading
        stamps = torch.zeros(2, dtype=torch.int64, device=device.torch_device)
        stamp = stamp_launch(bench.library, stamps, _about(reading))
        yield handover.measure(device, stamp, stamps)
        backlog = _backlog(bench, n, add2.launch) if any(backlogs) else None
        if backlog:
            yield add2.reading(L2.BACKLOG, rule, backlog.queue)
        with ranges.capture():
            for wanted, clock, mode in product(backlogs, clocks, MODES):
                yield add2.measurement(clock, mode, loop, backlog if wanted else None, ranges)


def methods(
    bench: Bench,
    operators: Sequence[Operator],
    n: int,
    caches: Sequence[L2],
    loop: Loop,
    rule: StoppingRule,
) -> Iterator[Taken]:
    """Yield each operator by every method: the eight modes, the accurate reading, the opinions.

    The profiler comes last: it may slow what is measured after it.

    Raises:
        DeviceError: The buffers do not fit the device's memory, or its work failed.
    """
    device = bench.device
    with failures_named(device):
        buffers = _buffers(device, n, _BUFFERS_AT_ONCE)
        read = []
        for operator in operators:
            subject = _Subject.of(bench, operator, buffers)
            for clock, mode in product((Clock.TIME, Clock.EVENT), MODES):
                yield subject.measurement(clock, mode, loop)
            for l2 in caches:
                before = estimate.flush_for(device, l2)
                reading = subject.reading(l2, rule, before)
                yield reading
                for opinion in (one for one in Opinion if one is not Opinion.CUPTI):
                    yield subject.opinion(opinion, reading.method, l2, rule, before)
                read.append((subject, reading, before, subject.pairs(reading.method, before)))
        for subject, reading, before, outside in read:
            if outside:
                inside = opinions.pairs_in_profiler(device, subject.launch, before)
                yield Observer(reading.operator, n, reading.l2, outside, inside)
            yield subject.opinion(Opinion.CUPTI, reading.method, reading.l2, rule, before)


def floors(bench: Bench, taken: Sequence[Taken], rule: StoppingRule) -> list[Floor]:
    """Return what the accurate readings among `taken` hold beyond the operators.

    The profiler runs for it, and may slow what is measured afterwards.
    """
    read = {one.l2 for one in taken if isinstance(one, Reading)}
    if L2.BACKLOG in read:
        read.add(L2.COLD)
    return floors_in(bench, [l2 for l2 in (L2.WARM, L2.COLD) if l2 in read], rule)


def floors_in(bench: Bench, states: Sequence[L2], rule: StoppingRule) -> list[Floor]:
    """Return the floor in each state of the cache."""
    with failures_named(bench.device):
        return [
            estimate.floor(
                bench.device, bench.small, rule, l2, estimate.flush_for(bench.device, l2)
            )
            for l2 in states
        ]


def _about(reading: Reading) -> float:
    """Return about how many seconds an operator takes, before its floor is known."""
    taken_off = statistics.median(reading.beside) if reading.beside else 0.0
    return max(statistics.median(reading.gross) - taken_off, 0.0)


@dataclass(frozen=True)
class _Subject:
    """An operator bound to its buffers, and whether its result is right."""

    bench: Bench
    operator: Operator
    n: int
    launch: Launch
    correct: bool

    @classmethod
    def of(cls, bench: Bench, operator: Operator, buffers: Buffers) -> "_Subject":
        launch = operator.bind(bench.library, buffers)
        correct = is_correct(bench.device, launch, buffers)
        return cls(bench, operator, buffers.a.numel(), launch, correct)

    def measurement(
        self,
        clock: Clock,
        mode: Mode,
        loop: Loop,
        backlog: "_QueuedBacklog | None" = None,
        ranges: NoRanges = NO_RANGES,
    ) -> Measurement:
        device, queue = self.bench.device, backlog.queue if backlog else nothing
        with (
            ranges.range(str(OperatorName(self.operator.name, self.n))),
            ranges.range(str(ModeName(mode, clock, backlog is not None))),
        ):
            with device.logged() if ranges.told else nullcontext([]) as launches:
                samples = timing.measure(device, self.launch, mode, clock, loop, queue, ranges)
            for said in (*map(reading_mark, samples), *map(launched_mark, launches)):
                ranges.mark(said)
        return Measurement(
            operator=self.operator.name,
            n=self.n,
            clock=clock,
            mode=mode,
            backlog=backlog.record if backlog else None,
            samples=samples,
            correct=self.correct,
            clocks=device.clocks(),
        )

    def reading(self, l2: L2, rule: StoppingRule, before: Before | None = None) -> Reading:
        device, small = self.bench.device, tuple(self.bench.small.values())
        gross = estimate.read(device, self.launch, rule, small, before)
        bytes_moved = self.operator.bytes_per_element * self.n
        return gross.reading(self.operator.name, self.n, bytes_moved, l2, device.clocks())

    def pairs(self, method: Method, before: Before | None) -> tuple[float, ...]:
        """Return event pairs to hold against those in the profiler, where there is one."""
        device = self.bench.device
        observable = isinstance(device, CudaDevice) and method is Method.HELD
        return estimate.pairs(device, self.launch, before) if observable else ()

    def opinion(
        self, opinion: Opinion, method: Method, l2: L2, rule: StoppingRule, before: Before | None
    ) -> SecondOpinion:
        try:
            seconds, beside = opinions.opinion_of(
                opinion,
                self.bench.device,
                self.launch,
                method,
                rule.max_time,
                tuple(self.bench.small.values()),
                before,
            )
        except (opinions.CannotSayError, DeviceError, RuntimeError) as error:
            why_not = str(error).partition("\n")[0].rstrip(".")
            return SecondOpinion(opinion, self.operator.name, self.n, l2, (), why_not=why_not)
        return SecondOpinion(opinion, self.operator.name, self.n, l2, seconds, beside)


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

    def session(self, taken: Sequence[Taken], floors: Sequence[Floor]) -> Session:
        """Return the session, ended now."""
        hand_overs = [one for one in taken if isinstance(one, HandOver)]
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
            hand_over=hand_overs[0] if hand_overs else None,
            opinions=tuple(one for one in taken if isinstance(one, SecondOpinion)),
            observers=tuple(one for one in taken if isinstance(one, Observer)),
        )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@contextmanager
def failures_named(device: Device) -> Iterator[None]:
    """Turn what PyTorch raises for a failed allocation or kernel into an error with a name."""
    try:
        yield
    except RuntimeError as error:
        first_line = str(error).partition("\n")[0]
        raise DeviceError(f"work on {device.properties.label} failed: {first_line}") from error


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


class _QueuedBacklog(NamedTuple):
    """A backlog, and what queues it."""

    record: Backlog
    queue: Callable[[], None]


def _backlog(bench: Bench, n: int, launch: Launch) -> _QueuedBacklog:
    """Return a backlog that lasts about ten times the operator.

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
            return _QueuedBacklog(Backlog(timing.BACKLOG_LAUNCHES, elements, lasts), queue)
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
