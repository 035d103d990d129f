import subprocess
from pathlib import Path

import pytest
import torch

from cudabench import kernels, runner
from cudabench.device import HostDevice, cuda_capability
from cudabench.errors import DeviceError, EventNotReadyError
from cudabench.runner import Bench
from tests.conftest import HOLD_SECONDS, bound_add2


def test_launch_returns_before_the_addition_has_run(bench: Bench) -> None:
    launch, buffers = bound_add2(bench, 1000)
    done = bench.device.event()
    with bench.device.held(HOLD_SECONDS):
        launch()
        done.record()
        assert not done.complete()
    bench.device.synchronize()
    assert done.complete()
    assert torch.equal(buffers.c, buffers.a + buffers.b)


def test_nothing_is_written_while_the_host_stream_is_held(
    host_bench: Bench, host: HostDevice
) -> None:
    launch, buffers = bound_add2(host_bench, 1000)
    with host.held(HOLD_SECONDS):
        launch()
        assert buffers.c.isnan().all()
    host.synchronize()
    assert torch.equal(buffers.c, buffers.a + buffers.b)


def test_work_runs_in_the_order_queued(bench: Bench) -> None:
    first, buffers = bound_add2(bench, 4096)
    chained = kernels.Buffers(buffers.c, buffers.b, torch.empty_like(buffers.c))
    second = kernels.ADD2.bind(bench.library, chained)
    with bench.device.held(HOLD_SECONDS):
        first()
        second()
    bench.device.synchronize()
    assert torch.equal(chained.c, buffers.a + buffers.b + buffers.b)


def test_an_event_that_has_not_completed_cannot_be_read(bench: Bench) -> None:
    start, end = bench.device.event(), bench.device.event()
    with bench.device.held(HOLD_SECONDS):
        start.record()
        end.record()
        with pytest.raises(EventNotReadyError):
            end.seconds_since(start)
    bench.device.synchronize()
    assert end.seconds_since(start) >= 0


def test_an_event_that_was_never_recorded_cannot_be_read(bench: Bench) -> None:
    recorded, never = bench.device.event(), bench.device.event()
    recorded.record()
    bench.device.synchronize()
    for start, end in ((recorded, never), (never, recorded)):
        with pytest.raises(EventNotReadyError):
            end.seconds_since(start)


def test_an_event_recorded_again_means_the_later_record(bench: Bench) -> None:
    start, end = bench.device.event(), bench.device.event()
    start.record()
    end.record()
    bench.device.synchronize()
    with bench.device.held(HOLD_SECONDS):
        end.record()
        assert not end.complete()
    bench.device.synchronize()
    assert end.complete()


def test_a_pending_event_may_be_dropped(bench: Bench) -> None:
    with bench.device.held(HOLD_SECONDS):
        bench.device.event().record()
    bench.device.synchronize()


def test_events_span_what_ran_between_them(bench: Bench) -> None:
    launch, _ = bound_add2(bench, 2**22)
    start, middle, end = (bench.device.event() for _ in range(3))
    start.record()
    for _ in range(20):
        launch()
    middle.record()
    launch()
    end.record()
    bench.device.synchronize()
    assert middle.seconds_since(start) > end.seconds_since(middle) > 0


def test_tensors_dropped_while_queued_outlive_the_work(host_bench: Bench, host: HostDevice) -> None:
    launch, buffers = bound_add2(host_bench, 2**20)
    result = buffers.c
    expected = buffers.a + buffers.b
    with host.held(HOLD_SECONDS):
        launch()
        del launch, buffers
        torch.rand(2**20)  # would take over freed memory
    host.synchronize()
    assert torch.equal(result, expected)


def test_a_hold_that_is_released_has_not_expired(bench: Bench) -> None:
    with bench.device.held(HOLD_SECONDS) as hold:
        pass
    bench.device.synchronize()
    assert not hold.expired()


def test_a_hold_ends_by_itself_where_its_release_waits_for_it(bench: Bench) -> None:
    with bench.device.held(0.01) as hold:
        bench.device.synchronize()
        assert hold.expired()
    with bench.device.held(HOLD_SECONDS) as hold:
        pass
    bench.device.synchronize()
    assert not hold.expired()


def test_host_properties_are_marked_and_plausible(host: HostDevice) -> None:
    assert host.properties.label == "host (CPU stream, no CUDA)"
    assert 0 < host.free_bytes() <= host.properties.memory_bytes
    assert host.clocks() is None


def test_no_cuda_device_is_said_before_anything_is_built() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(DeviceError, match=r"without CUDA|no CUDA device"):
        cuda_capability(0)


def test_cuda_without_visible_devices_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES is ''"):
        cuda_capability(0)


@pytest.mark.gpu
def test_cuda_properties_are_those_of_the_device() -> None:
    device = runner.open_bench("cuda", print).device
    properties = device.properties
    assert properties.label == f"cuda:0 ({torch.cuda.get_device_name(0)})"
    assert properties.l2_bytes
    assert properties.driver
    assert properties.peak_bandwidth
    assert 1e11 < properties.peak_bandwidth < 2e13
    clocks = device.clocks()
    assert clocks
    assert clocks.sm_mhz > 0


@pytest.mark.gpu
def test_a_cuda_index_that_is_not_there_is_named() -> None:
    with pytest.raises(DeviceError, match=r"no cuda:99; this machine has \d+ CUDA"):
        cuda_capability(99)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_host_stream_in_cpp(tmp_path: Path, sanitizer: str) -> None:
    program = tmp_path / "host_stream_test"
    sources = [
        Path(__file__).parent / "host_stream_test.cpp",
        kernels.SOURCE_FOLDER / "host_stream.cpp",
    ]
    flags = ["-std=c++17", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"]
    options = [f"-fsanitize={sanitizer}", f"-I{kernels.SOURCE_FOLDER}", "-o", str(program)]
    subprocess.run(["c++", *flags, *options, *map(str, sources)], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "all as expected\n", "")
