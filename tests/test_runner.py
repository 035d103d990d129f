import re

import pytest
import torch

from cudabench import runner
from cudabench.device import HOST_LABEL
from cudabench.errors import BadInputError, DeviceError
from cudabench.kernels import Buffers
from cudabench.records import BOTH, MODES, Clock, Loop
from cudabench.runner import Bench
from tests.conftest import bound_add2


def test_run_yields_add2_and_pytorchs_two(bench: Bench) -> None:
    measurements = list(runner.run(bench, 1000, Clock.TIME, Loop(3, 1)))
    assert [m.operator for m in measurements] == ["add2", "a + b", "torch.add(out=)"]
    assert all(m.correct and m.mode == BOTH and len(m.samples) == 3 for m in measurements)
    assert {m.bytes_moved for m in measurements} == {12_000}


def test_sync_modes_yields_every_combination_once(bench: Bench) -> None:
    clocks = (Clock.TIME, Clock.PERF_COUNTER, Clock.EVENT)
    found = list(runner.sync_modes(bench, 1000, clocks, (False, True), Loop(2, 1)))
    keys = [(m.backlog is not None, m.clock, m.mode) for m in found]
    assert keys == [(b, c, m) for b in (False, True) for c in clocks for m in MODES]


def test_bandwidth_is_given_only_where_the_operator_was_timed(host_bench: Bench) -> None:
    found = runner.sync_modes(host_bench, 1000, (Clock.TIME,), (False, True), Loop(2, 1))
    given = {(m.mode.label, m.backlog is not None) for m in found if m.bandwidth is not None}
    assert given == {("both", False), ("second only", False), ("both", True)}


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
        list(runner.run(bench, n, Clock.TIME, Loop()))
    assert re.search(r"needs [\d.,]+ [TG]iB .* has [\d.,]+ [TG]iB free", str(raised.value))


def test_an_allocation_that_fails_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.device, "free_bytes", lambda: 2**63)
    with pytest.raises(DeviceError, match=r"^work on .* failed: .*(memory|allocate)"):
        list(runner.run(bench, 2**45, Clock.TIME, Loop()))


@pytest.mark.parametrize("spec", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "host:0"])
def test_an_unknown_device_is_refused(spec: str) -> None:
    with pytest.raises(BadInputError, match="unknown device"):
        runner.open_bench(spec, print)


def test_auto_takes_cuda_where_there_is_a_device() -> None:
    kind = "cuda" if torch.cuda.is_available() else "host"
    assert runner.open_bench("auto", print).device.properties.kind == kind


def test_the_session_says_where_it_was_measured(bench: Bench) -> None:
    recorder = runner.Recorder(bench, "run-1", "run")
    session = recorder.session(list(runner.run(bench, 1000, Clock.TIME, Loop(2, 1))))
    environment = session.environment
    assert environment.torch == torch.__version__
    assert environment.device == bench.device.properties
    assert (environment.nvcc is None) == (bench.device.properties.kind == "host")
    assert re.search(r"\d+\.\d+", environment.cxx)
    assert session.started <= session.ended
    if bench.device.properties.kind == "host":
        assert environment.device.label == HOST_LABEL
