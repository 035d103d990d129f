"""The CPU behind a real asynchronous stream."""

import atexit
import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch

from cudabench.device._stream import HOLD, HOST_STREAM, Hold, bound, require_complete
from cudabench.device.system import free_host_memory, host_memory, last_level_cache
from cudabench.errors import DeviceError
from cudabench.ranges import Launched
from cudabench.records import HOST_LABEL, ClockRates, DeviceProperties


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
        require_complete(start, self)
        elapsed = self._library.cudabench_event_elapsed_ns(start._handle, self._handle)
        return float(elapsed) * 1e-9


class HostDevice:
    """The CPU behind a real asynchronous stream: a C++ worker thread that runs queued launches.

    Args:
        library: The compiled `kernels/host_stream.cpp`, which holds the process's one stream.
    """

    coarse_events = False  # the worker's clock is read to the nanosecond

    def __init__(self, library: Path) -> None:
        self.torch_device = torch.device("cpu")
        self.properties = DeviceProperties(
            label=HOST_LABEL,
            kind="host",
            memory_bytes=host_memory("MemTotal"),
            l2_bytes=last_level_cache(),
        )
        self._library = bound(ctypes.CDLL(str(library)), {**HOLD, **HOST_STREAM})
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

    def held(self, limit: float) -> AbstractContextManager[Hold]:
        """Keep the worker from what is queued inside, for `limit` seconds at most."""
        return self._hold.on(0, limit)

    def queued(self) -> int:
        """Return how many tasks were ever queued on the stream."""
        return int(self._library.cudabench_queued())

    def stamp_offset(self) -> int:
        """Return 0: the worker's clock is that of `time.perf_counter_ns`."""
        return 0

    @contextmanager
    def logged(self) -> Iterator[list[Launched]]:
        """Keep a log of launches; the list has them once the context has ended."""
        launches: list[Launched] = []
        self._library.cudabench_keep_log(1)
        try:
            yield launches
            self.synchronize()
            launches += self._log()
        finally:
            self._library.cudabench_keep_log(0)

    def _log(self) -> list[Launched]:
        count = self._library.cudabench_log(None, 0)
        numbers = (ctypes.c_int64 * (4 * count))()
        self._library.cudabench_log(numbers, count)
        return [Launched(*numbers[i : i + 4]) for i in range(0, 4 * count, 4)]

    def free_bytes(self) -> int:
        """Return how much memory can be allocated without swapping."""
        return free_host_memory()

    def clocks(self) -> ClockRates | None:
        """Return None: a CPU's clocks are not read."""
        return None

    def current(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing: there is one host stream."""
        return nullcontext()
