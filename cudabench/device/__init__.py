"""The seam to the hardware: one protocol, a CUDA device and a CPU stream behind it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import torch

from cudabench.device._stream import Event, Hold
from cudabench.device.cuda import CudaDevice, cuda_capability
from cudabench.device.host import HostDevice
from cudabench.ranges import Launched
from cudabench.records import ClockRates, DeviceProperties

__all__ = [
    "CudaDevice",
    "Device",
    "Event",
    "Hold",
    "HostDevice",
    "Launch",
    "cuda_capability",
]

# Queues work and returns.
Launch = Callable[[], object]


class Device(Protocol):
    """Where operators run: a stream of queued work, and what stands behind it."""

    properties: DeviceProperties
    torch_device: torch.device
    # Whether event pairs read alike kernels a good part of a microsecond apart.
    coarse_events: bool

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

    def queued(self) -> int | None:
        """Return how many tasks were ever queued on the stream; None where it does not count."""

    def logged(self) -> AbstractContextManager[list[Launched]]:
        """Return a context whose list has, once it has ended, each launch made inside.

        It is empty where profilers see them themselves.
        """

    def stamp_offset(self) -> int:
        """Return by how many ns the stamps of kernels/stamp.h are ahead of perf_counter_ns."""

    def free_bytes(self) -> int:
        """Return how much memory can be allocated now."""

    def clocks(self) -> ClockRates | None:
        """Return the device's clocks now, or None where they cannot be read."""

    def current(self) -> AbstractContextManager[None]:
        """Return a context in which launches and events go to this device, on a stream of ours."""
