import re

import pytest
import torch

from cudabench import runner
from cudabench.errors import BadInputError, DeviceError
from cudabench.kernels import USUAL_OPERATORS, Buffers
from cudabench.records import (
    BOTH,
    HOST_LABEL,
    L2,
    MODES,
    Clock,
    HandOver,
    Loop,
    Measurement,
    Method,
    Reading,
)
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule
from tests.conftest import bound_add2

RULE = StoppingRule(precision=0.5, max_time=0.2)


CACHES = (L2.WARM, L2.COLD)


def run(bench: Bench, n: int) -> list[runner.Taken]:
    return list(runner.run(bench, USUAL_OPERATORS, n, Clock.TIME, Loop(3, 1), CACHES, RULE))


def test_run_yields_add2_and_pytorchs_two(bench: Bench) -> None:
    taken = run(bench, 1000)
    measurements = [m for m in taken if isinstance(m, Measurement)]
    readings = [r for r in taken if isinstance(r, Reading)]
    operators = ["add2", "a + b", "torch.add(out=)"]
    assert [m.operator for m in measurements] == operators
    assert all(m.correct and m.mode == BOTH and len(m.samples) == 3 for m in measurements)
    assert [(r.operator, r.l2) for r in readings] == [(o, l2) for o in operators for l2 in CACHES]
    assert {r.bytes_moved for r in readings} == {12_000}


def test_what_runs_in_the_caller_is_not_timed_on_the_stream(host_bench: Bench) -> None:
    methods = {r.operator: r.method for r in run(host_bench, 1000) if isinstance(r, Reading)}
    assert methods == {
        "add2": Method.HELD,
        "a + b": Method.CALLER,
        "torch.add(out=)": Method.CALLER,
    }


def test_sync_modes_yields_every_combination_once(bench: Bench) -> None:
    clocks = (Clock.TIME, Clock.PERF_COUNTER, Clock.EVENT)
    found = list(runner.sync_modes(bench, 1000, clocks, (False, True), Loop(2, 1), RULE))
    assert [r.l2 for r in found if isinstance(r, Reading)] == [L2.WARM, L2.BACKLOG]
    assert sum(isinstance(one, HandOver) for one in found) == 1
    keys = [(m.backlog is not None, m.clock, m.mode) for m in found if isinstance(m, Measurement)]
    assert keys == [(b, c, m) for b in (False, True) for c in clocks for m in MODES]


def test_a_wrong_result_is_found(host_bench: Bench) -> None:
    buffers = Buffers.random(host_bench.device, 1000)

    def one_short() -> torch.Tensor:
        torch.add(buffers.a[1:], buffers.b[1:], out=buffers.c[1:])
        return buffers.c

    wrong = {
        "product": lambda: torch.mul(buffers.a, buffers.b, out=buffers.c),
        "writes nothing": lambda: buffers.c,
        "one element short": one_short,
    }
    for name, launch in wrong.items():
        assert not runner.is_correct(host_bench.device, launch, buffers), name
    launch, buffers = bound_add2(host_bench, 1000)
    assert runner.is_correct(host_bench.device, launch, buffers)


def test_what_does_not_fit_is_said_before_it_is_allocated(bench: Bench) -> None:
    n = bench.device.properties.memory_bytes
    with pytest.raises(DeviceError) as raised:
        run(bench, n)
    assert re.search(r"needs [\d.,]+ [TG]iB .* has [\d.,]+ [TG]iB free", str(raised.value))


def test_an_allocation_that_fails_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.device, "free_bytes", lambda: 2**63)
    with pytest.raises(DeviceError, match=r"^work on .* failed: .*(memory|allocate)"):
        run(bench, 2**45)


@pytest.mark.parametrize("spec", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "host:0"])
def test_an_unknown_device_is_refused(spec: str) -> None:
    with pytest.raises(BadInputError, match="unknown device"):
        runner.open_bench(spec, print)


def test_auto_takes_cuda_where_there_is_a_device() -> None:
    kind = "cuda" if torch.cuda.is_available() else "host"
    assert runner.open_bench("auto", print).device.properties.kind == kind


def test_the_session_says_where_it_was_measured(bench: Bench) -> None:
    recorder = runner.Recorder(bench, "run-1", "run", Loop(3, 1))
    taken = run(bench, 1000)
    session = recorder.session(taken, runner.floors(bench, taken, RULE))
    assert [floor.l2 for floor in session.floors] == list(CACHES)
    assert len(session.estimates) == 6
    environment = session.environment
    assert environment.torch == torch.__version__
    assert environment.device == bench.device.properties
    assert (environment.nvcc is None) == (bench.device.properties.kind == "host")
    assert re.search(r"\d+\.\d+", environment.cxx)
    assert session.started <= session.ended
    if bench.device.properties.kind == "host":
        assert environment.device.label == HOST_LABEL


def test_operators_are_found_by_name() -> None:
    found = runner.operators_named(["a+b", "torch.add(out=)", "a + b"], "host")
    assert [operator.name for operator in found] == ["a + b", "torch.add(out=)"]
    assert runner.operators_named([], "host") == USUAL_OPERATORS
    with pytest.raises(BadInputError, match=r"unknown operator 'mul'. Use one of add2, a\+b"):
        runner.operators_named(["mul"], "host")
    with pytest.raises(BadInputError, match="add2-default-stream needs a CUDA device"):
        runner.operators_named(["add2-default-stream"], "host")
