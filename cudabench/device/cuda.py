"""A CUDA device, through PyTorch."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cudabench.device._stream import HOLD, PAUSE, Hold, bound, require_complete
from cudabench.device.nvml import NvmlDevice
from cudabench.errors import DeviceError
from cudabench.records import ClockRates, DeviceProperties

_SHORTEST_PAUSE, _LONGEST_PAUSE = 2000, 6000


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
        require_complete(start, self)
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
        self._library = bound(ctypes.CDLL(str(library)), {**HOLD, **PAUSE})
        self._hold = Hold(self._library, pinned=True)
        self._nvml = NvmlDevice.of(torch.cuda.get_device_properties(index))
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


def cuda_capability(index: int) -> tuple[int, int]:
    """Return the compute capability of a CUDA device, major and minor.

    Raises:
        DeviceError: PyTorch sees no CUDA device, or none of that index.
    """
    _require_cuda(index)
    return torch.cuda.get_device_capability(index)


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
