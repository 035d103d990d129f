"""A CUDA device, through PyTorch."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from cudabench.device._stream import CUDA, HOLD, Hold, bound, require_complete
from cudabench.device.nvml import NvmlDevice
from cudabench.errors import DeviceError
from cudabench.ranges import Launched
from cudabench.records import ClockRates, DeviceProperties


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

    coarse_events = True

    def __init__(self, index: int, library: Path) -> None:
        self.torch_device = torch.device("cuda", index)
        self._index = index
        self._library = bound(ctypes.CDLL(str(library)), {**HOLD, **CUDA})
        self._hold = Hold(self._library, pinned=True)
        # PyTorch's streams do not block: it does not wait for the default one.
        self._stream = torch.cuda.Stream(index)  # type: ignore[no-untyped-call]
        self._nvml = NvmlDevice.of(torch.cuda.get_device_properties(index))
        self.properties = self._read_properties()

    def synchronize(self) -> None:
        """Return once everything queued on the device has run."""
        torch.cuda.synchronize(self._index)

    def event(self) -> CudaEvent:
        """Return a new timing event on the current stream."""
        return CudaEvent(self._index)

    def held(self, limit: float) -> AbstractContextManager[Hold]:
        """Keep the current stream from what is queued inside, for `limit` seconds at most."""
        return self._hold.on(self._current_stream(), limit)

    def mark(self) -> None:
        """Queue a kernel that does nothing and is known by its name, mark_kernel."""
        if self._library.cudabench_mark(self._current_stream()):
            raise DeviceError("a mark could not be queued on the stream")

    def queued(self) -> None:
        """Return None: a CUDA stream does not count."""

    def logged(self) -> AbstractContextManager[list[Launched]]:
        """Return a context with an empty list: profilers see kernels themselves."""
        return nullcontext([])

    def stamp_offset(self) -> int:
        """Return by how many ns stamps are ahead of `time.perf_counter_ns`, to about 1 us."""
        mailbox = torch.zeros(3, dtype=torch.int64, pin_memory=True)
        offset = ctypes.c_int64()
        failed = self._library.cudabench_clock_offset(
            mailbox.data_ptr(), ctypes.byref(offset), self._current_stream()
        )
        self.synchronize()
        if failed:
            raise DeviceError("the device's clock could not be compared with the host's")
        return offset.value

    def graph_nodes(self, graph: int) -> int:
        """Return how many nodes a `cudaGraph_t` has, given as PyTorch's `raw_cuda_graph` does."""
        return int(self._library.cudabench_graph_nodes(graph))

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
        """Make this the current CUDA device, and a stream that is not the default one current.

        An operator that ignores the current stream would go unnoticed on the default one.
        """
        outer = torch.cuda.current_stream(self._index)
        with torch.cuda.device(self._index), torch.cuda.stream(self._stream):
            self._stream.wait_stream(outer)
            try:
                yield
            finally:
                outer.wait_stream(self._stream)

    def _current_stream(self) -> int:
        return int(torch.cuda.current_stream(self._index).cuda_stream)

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
