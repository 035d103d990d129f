"""What a profiler is told, and that nothing is where nobody listens."""

import itertools
from contextlib import nullcontext

import pytest

from cudabench import timing
from cudabench.pairs import nothing
from cudabench.ranges import (
    NO_RANGES,
    ModeName,
    OperatorName,
    Ranges,
    is_step,
    numbers_of,
)
from cudabench.records import BOTH, MODES, NEITHER, Clock, Loop, Mode
from cudabench.runner import Bench
from tests.conftest import bound_add2


class Told:
    """Writes down what a profiler is told, nested as it is told."""

    def __init__(self) -> None:
        self.ranges = Ranges(self._push, self._pop, nullcontext)
        self.lines: list[str] = []
        self._depth = 0

    def _push(self, name: str) -> None:
        self.lines.append("  " * self._depth + name)
        self._depth += 1

    def _pop(self) -> None:
        self._depth -= 1


@pytest.mark.parametrize("clock", [Clock.TIME, Clock.EVENT])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_each_step_of_an_iteration_is_told_inside_it(
    host_bench: Bench, mode: Mode, clock: Clock
) -> None:
    told = Told()
    launch, _ = bound_add2(host_bench, 1000)
    queue = timing.backlog_of(launch)
    timing.measure(host_bench.device, launch, mode, clock, Loop(2, 3), queue, told.ranges)
    first = ["  first synchronize"] if mode.first_sync else []
    second = ["  second synchronize"] if mode.second_sync else []
    assert told.lines == ["iteration", "  backlog", *first, "  launch", *second] * 2


def test_no_backlog_is_not_told(host_bench: Bench) -> None:
    told = Told()
    launch, _ = bound_add2(host_bench, 1000)
    timing.measure(host_bench.device, launch, NEITHER, Clock.TIME, Loop(1, 1), nothing, told.ranges)
    assert told.lines == ["iteration", "  launch"]


def test_where_nobody_listens_the_steps_are_bare() -> None:
    assert NO_RANGES.around("launch", nothing) is nothing
    assert NO_RANGES.iterations(3) == range(3)


def test_the_host_stream_tells_when_each_launch_ran(host_bench: Bench) -> None:
    launch, _ = bound_add2(host_bench, 100_000)
    with host_bench.device.logged() as launches:
        for _ in range(3):
            launch()
    assert len(launches) == 3
    for one, following in itertools.pairwise(launches):
        assert one.called <= one.returned
        assert one.called <= one.start < one.end <= following.start
    with host_bench.device.logged() as launches:
        pass
    assert launches == []


@pytest.mark.parametrize("name", [OperatorName("a, n = 3 + b", 7), OperatorName("", 2**40)])
def test_an_operators_name_is_read_back(name: OperatorName) -> None:
    assert OperatorName.parse(str(name)) == name


@pytest.mark.parametrize("clock", Clock)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_a_modes_name_is_read_back(mode: Mode, clock: Clock) -> None:
    for backlogged in (False, True):
        name = ModeName(mode, clock, backlogged)
        assert ModeName.parse(str(name)) == name


@pytest.mark.parametrize("text", ["", "launch", "mode both", "mode x, clock time, no backlog"])
def test_other_texts_are_none_of_ours(text: str) -> None:
    assert OperatorName.parse(text) is None
    assert ModeName.parse(text) is None


def test_marks_are_no_steps() -> None:
    told = Told()
    with told.ranges.capture():
        told.ranges.mark("reading 12 ns")
    assert {line for line in told.lines if is_step(line)} == set()
    assert numbers_of("reading", told.lines[-1]) == (12,)
    assert is_step("launch")
    assert is_step(str(ModeName(BOTH, Clock.TIME, False)))
