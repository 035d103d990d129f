"""The seam to the hardware: one protocol, a CUDA device and a CPU stream behind it."""

import atexit
import ctypes
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

from cudabench.errors import DeviceError, EventNotReadyError
from cudabench.records import ClockRates, DeviceProperties

# Queues work and returns.
Launch = Callable[[], object]

_SHORTEST_PAUSE, _LONGEST_PAUSE = 2000, 6000

HOST_LABEL = "host (CPU stream, no CUDA)"


class Event(Protocol):
    """A point in a stream's order that the stream stamps with its own clock."""

    def record(self) -> None:
        """Queue the event on its stream."""

    def complete(self) -> bool:
        """Return whether the stream has passed the event."""

    def seconds_since(self, start: Any) -> float:
        """Return the seconds from `start`, an event of the same device, to this one.

        Raises:
            EventNotReadyError: One of the two is not complete. Nothing is waited for.
        """


class Hold:
    """Keeps a stream from what is queued behind it until it is released or its limit is over.

    Args:
        library: A compiled library with `cudabench_hold`.
        pinned: Whether the device reads its flags over the bus.
    """

    def __init__(self, library: ctypes.CDLL, pinned: bool) -> None:
        self._library = library
        self._flags = torch.zeros(2, dtype=torch.int32, pin_memory=pinned)
        address = self._flags.data_ptr()
        self._released = ctypes.c_int32.from_address(address)
        self._expired = ctypes.c_int32.from_address(address + 4)

    def begin(self, limit: float, stream: int) -> None:
        """Queue the hold; it ends by itself after `limit` seconds."""
        self._released.value = self._expired.value = 0
        error = self._library.cudabench_hold(self._flags.data_ptr(), int(limit * 1e9), stream)
        if error:
            raise DeviceError(f"the stream could not be held: CUDA error {error}")

    def release(self) -> None:
        """Let the stream go on."""
        self._released.value = 1

    def expired(self) -> bool:
        """Return whether the limit ended the last hold; ask once the stream is past it."""
        return bool(self._expired.value)


class Device(Protocol):
    """Where operators run: a stream of queued work, and what stands behind it."""

    properties: DeviceProperties
    torch_device: torch.device

    def synchronize(self) -> None:
        """Return once everything queued on the device has run.

        Raises:
            DeviceError: Work that was queued before has failed.
        """

    def event(self) -> Event:
        """Return a new timing event on the current stream."""

    def held(self, limit: float) -> AbstractContextManager[Hold]:
        """Return a context inside which the current stream stands still, for `limit` s at most.

        It begins behind what is queued already; what is queued inside runs once it ends.
        """

    def pauses(self, count: int) -> tuple[int, ...]:
        """Return `count` lengths for `pause`, their mean the same for every even `count`.

        They cover what the device's event pairs are coarse in. 0 is no pause, and one 0 stands
        for them all where the pairs are fine.
        """

    def pause(self, length: int) -> None:
        """Queue a pause on the current stream, of a length that `pauses` gave."""

    def free_bytes(self) -> int:
        """Return how much memory can be allocated now."""

    def clocks(self) -> ClockRates | None:
        """Return the device's clocks now, or None where they cannot be read."""

    def current(self) -> AbstractContextManager[None]:
        """Return a context in which launches and events go to this device."""


class CudaEvent:
    """A `torch.cuda.Event` on the stream that is current where it is made."""

    def __init__(self, index: int) -> None:
        self._stream = torch.cuda.current_stream(index)
        self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        # PyTorch makes the CUDA event at its first record: here, where nothing is timed.
        self._event.record(self._stream)
        self._recorded = False

    def record(self) -> None:
        """Queue the event on its stream."""
        self._event.record(self._stream)
        self._recorded = True

    def complete(self) -> bool:
        """Return whether the stream has passed the event."""
        return self._recorded and bool(self._event.query())  # type: ignore[no-untyped-call]

    def seconds_since(self, start: "CudaEvent") -> float:
        """Return the seconds from `start` to this event; raise where one is not complete."""
        _require_complete(start, self)
        return float(start._event.elapsed_time(self._event)) * 1e-3


class CudaDevice:
    """One CUDA device, through PyTorch.

    Args:
        index: PyTorch's number of it.
        library: The compiled `kernels/hold.cu`.
    """

    def __init__(self, index: int, library: Path) -> None:
        self.torch_device = torch.device("cuda", index)
        self._index = index
        self._library = _bound(ctypes.CDLL(str(library)), {**_HOLD, **_PAUSE})
        self._hold = Hold(self._library, pinned=True)
        self._nvml = _NvmlDevice.of(torch.cuda.get_device_properties(index))
        self.properties = self._read_properties()

    def synchronize(self) -> None:
        """Return once everything queued on the device has run."""
        torch.cuda.synchronize(self._index)

    def event(self) -> CudaEvent:
        """Return a new timing event on the current stream."""
        return CudaEvent(self._index)

    @contextmanager
    def held(self, limit: float) -> Iterator[Hold]:
        """Keep the current stream from what is queued inside, for `limit` seconds at most."""
        self._hold.begin(limit, torch.cuda.current_stream(self._index).cuda_stream)
        try:
            yield self._hold
        finally:
            self._hold.release()

    def pauses(self, count: int) -> tuple[int, ...]:
        """Return clock cycles, evenly spaced from 1 to 3 us on an H200."""
        step = (_LONGEST_PAUSE - _SHORTEST_PAUSE) // count
        return tuple(_SHORTEST_PAUSE + step // 2 + step * i for i in range(count))

    def pause(self, length: int) -> None:
        """Queue a kernel that spins for `length` cycles."""
        stream = torch.cuda.current_stream(self._index).cuda_stream
        if self._library.cudabench_pause(length, stream):
            raise DeviceError("a pause could not be queued on the stream")

    def free_bytes(self) -> int:
        """Return what the driver has free, and what PyTorch's allocator holds unused."""
        free, _ = torch.cuda.mem_get_info(self._index)
        cached = torch.cuda.memory_reserved(self._index)
        return free + cached - torch.cuda.memory_allocated(self._index)

    def clocks(self) -> ClockRates | None:
        """Return the clocks now, or None where NVML does not say."""
        return self._nvml.clocks() if self._nvml else None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the current CUDA device for the length of the context."""
        with torch.cuda.device(self._index):
            yield

    def _read_properties(self) -> DeviceProperties:
        properties = torch.cuda.get_device_properties(self._index)
        return DeviceProperties(
            label=f"cuda:{self._index} ({properties.name})",
            kind="cuda",
            memory_bytes=properties.total_memory,
            l2_bytes=properties.L2_cache_size,
            peak_bandwidth=_peak_bandwidth(properties),
            compute_capability=f"{properties.major}.{properties.minor}",
            multiprocessors=properties.multi_processor_count,
            driver=self._nvml.driver if self._nvml else None,
        )


class HostEvent:
    """An event on the host stream; the worker stamps it in passing."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._handle = library.cudabench_event_create()

    def __del__(self) -> None:
        self._library.cudabench_event_destroy(self._handle)

    def record(self) -> None:
        """Queue the event on the host stream."""
        self._library.cudabench_event_record(self._handle)

    def complete(self) -> bool:
        """Return whether the worker has passed the event."""
        return bool(self._library.cudabench_event_query(self._handle) == 1)

    def seconds_since(self, start: "HostEvent") -> float:
        """Return the seconds from `start` to this event; raise where one is not complete."""
        _require_complete(start, self)
        elapsed = self._library.cudabench_event_elapsed_ns(start._handle, self._handle)
        return float(elapsed) * 1e-9


class HostDevice:
    """The CPU behind a real asynchronous stream: a C++ worker thread that runs queued launches.

    Args:
        library: The compiled `kernels/host_stream.cpp`, which holds the process's one stream.
    """

    def __init__(self, library: Path) -> None:
        self.torch_device = torch.device("cpu")
        self.properties = DeviceProperties(
            label=HOST_LABEL,
            kind="host",
            memory_bytes=_host_memory("MemTotal"),
            l2_bytes=_last_level_cache(),
        )
        self._library = _bound(ctypes.CDLL(str(library)), {**_HOLD, **_HOST_STREAM})
        self._hold = Hold(self._library, pinned=False)
        # What is still queued holds tensors, which cannot be released once Python is gone.
        atexit.register(self._library.cudabench_synchronize, None, 0)

    def synchronize(self) -> None:
        """Return once everything queued on the stream has run; raise what it left behind."""
        message = ctypes.create_string_buffer(256)
        if self._library.cudabench_synchronize(message, len(message)) != 0:
            raise DeviceError(
                "work queued on the host stream failed: " + message.value.decode(errors="replace")
            )

    def event(self) -> HostEvent:
        """Return a new timing event."""
        return HostEvent(self._library)

    @contextmanager
    def held(self, limit: float) -> Iterator[Hold]:
        """Keep the worker from what is queued inside, for `limit` seconds at most."""
        self._hold.begin(limit, 0)
        try:
            yield self._hold
        finally:
            self._hold.release()

    def pauses(self, count: int) -> tuple[int, ...]:
        """Return no pause at all: the worker's clock is read to the nanosecond."""
        return (0,)

    def pause(self, length: int) -> None:
        """Queue nothing."""

    def free_bytes(self) -> int:
        """Return how much memory can be allocated without swapping."""
        return _free_host_memory()

    def clocks(self) -> ClockRates | None:
        """Return None: a CPU's clocks are not read."""
        return None

    def current(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing: there is one host stream."""
        return nullcontext()


def cuda_capability(index: int) -> tuple[int, int]:
    """Return the compute capability of a CUDA device, major and minor.

    Raises:
        DeviceError: PyTorch sees no CUDA device, or none of that index.
    """
    _require_cuda(index)
    return torch.cuda.get_device_capability(index)


def _require_complete(*events: Event) -> None:
    if not all(event.complete() for event in events):
        raise EventNotReadyError("the event has not completed")


def _require_cuda(index: int) -> None:
    if torch.version.cuda is None:
        raise DeviceError(
            f"this PyTorch ({torch.__version__}) is built without CUDA",
            "Install a CUDA build of torch, or use --device host",
        )
    count = torch.cuda.device_count()
    if count == 0:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        because = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
        raise DeviceError(
            f"PyTorch sees no CUDA device{because}",
            "Check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device host",
        )
    if index >= count:
        last = f"cuda:{count - 1}"
        raise DeviceError(
            f"there is no cuda:{index}; this machine has {count} CUDA device(s)",
            "Use cuda:0" if count == 1 else f"Use cuda:0 to {last}",
        )


def _peak_bandwidth(properties: Any) -> float | None:
    """Return bytes a second of the device's memory: two transfers a clock, bus width in bits."""
    clock_khz = getattr(properties, "memory_clock_rate", 0)
    bus_bits = getattr(properties, "memory_bus_width", 0)
    return clock_khz * 1e3 * 2 * bus_bits / 8 or None


class _NvmlDevice:
    """A GPU as NVIDIA's management library sees it, for what PyTorch does not tell."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self.driver = str(nvml.nvmlSystemGetDriverVersion())

    @classmethod
    def of(cls, properties: Any) -> "_NvmlDevice | None":
        """Return the GPU of PyTorch's `properties`, or None where NVML is not to be had."""
        import pynvml

        try:
            pynvml.nvmlInit()
            # By its UUID: CUDA_VISIBLE_DEVICES renumbers PyTorch's devices, not NVML's.
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}"))
        except pynvml.NVMLError:
            return None

    def clocks(self) -> ClockRates | None:
        """Return the clocks now, or None where NVML refuses to say."""
        nvml = self._nvml
        try:
            return ClockRates(
                sm_mhz=nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM),
                memory_mhz=nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_MEM),
                throttle_reasons=self._throttle_reasons(),
            )
        except nvml.NVMLError:
            return None

    def _throttle_reasons(self) -> tuple[str, ...]:
        active = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        names = {
            "gpu idle": self._nvml.nvmlClocksThrottleReasonGpuIdle,
            "applications clocks": self._nvml.nvmlClocksThrottleReasonApplicationsClocksSetting,
            "software power cap": self._nvml.nvmlClocksThrottleReasonSwPowerCap,
            "hardware slowdown": self._nvml.nvmlClocksThrottleReasonHwSlowdown,
            "sync boost": self._nvml.nvmlClocksThrottleReasonSyncBoost,
            "software thermal": self._nvml.nvmlClocksThrottleReasonSwThermalSlowdown,
            "hardware thermal": self._nvml.nvmlClocksThrottleReasonHwThermalSlowdown,
            "hardware power brake": self._nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
        }
        return tuple(name for name, bit in names.items() if active & bit)


_Signatures = dict[str, tuple[Any, list[Any]]]

_HANDLE = ctypes.c_void_p
# The functions at the end of kernels/hold.cu and of kernels/host_stream.cpp.
_HOLD: _Signatures = {"cudabench_hold": (ctypes.c_int, [_HANDLE, ctypes.c_int64, _HANDLE])}
_PAUSE: _Signatures = {"cudabench_pause": (ctypes.c_int, [ctypes.c_int64, _HANDLE])}
_HOST_STREAM: _Signatures = {
    "cudabench_synchronize": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t]),
    "cudabench_event_create": (_HANDLE, []),
    "cudabench_event_destroy": (None, [_HANDLE]),
    "cudabench_event_record": (None, [_HANDLE]),
    "cudabench_event_query": (ctypes.c_int, [_HANDLE]),
    "cudabench_event_elapsed_ns": (ctypes.c_int64, [_HANDLE, _HANDLE]),
}


def _bound(library: ctypes.CDLL, signatures: _Signatures) -> ctypes.CDLL:
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _host_memory(field: str) -> int:
    """Return a field of Linux's /proc/meminfo in bytes; elsewhere the physical memory."""
    found = re.search(rf"^{field}:\s+(\d+) kB", system_text("/proc/meminfo"), re.MULTILINE)
    if found:
        return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_host_memory() -> int:
    """Return what can be allocated without swapping, or before a container's limit."""
    free = _host_memory("MemAvailable")
    limit, used = (
        system_text(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current")
    )
    if limit.isdecimal() and used.isdecimal():
        free = min(free, int(limit) - int(used))
    return max(free, 0)


def _last_level_cache() -> int | None:
    """Return the size of the CPU's last cache level in bytes, from Linux's sysfs."""
    sizes = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level, size = system_text(index / "level").strip(), system_text(index / "size").strip()
        if level.isdecimal() and re.fullmatch(r"\d+K", size):
            sizes[int(level)] = int(size[:-1]) * 1024
    return sizes[max(sizes)] if sizes else None


def system_text(path: str | Path) -> str:
    """Return what a file of the system holds, "" where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
