"""What a stream of either kind has: events, the hold, the compiled functions behind them."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from cudabench.errors import DeviceError, EventNotReadyError


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

    @contextmanager
    def on(self, stream: int, limit: float) -> Iterator["Hold"]:
        """Hold a stream for the length of the context, or until `limit` seconds are over."""
        self._released.value = self._expired.value = 0
        error = self._library.cudabench_hold(self._flags.data_ptr(), int(limit * 1e9), stream)
        if error:
            raise DeviceError(f"the stream could not be held: CUDA error {error}")
        try:
            yield self
        finally:
            self._released.value = 1

    def expired(self) -> bool:
        """Return whether the limit ended the last hold; ask once the stream is past it."""
        return bool(self._expired.value)


def require_complete(*events: Event) -> None:
    """Raise EventNotReadyError unless the stream has passed all of the events."""
    if not all(event.complete() for event in events):
        raise EventNotReadyError("the event has not completed")


Signatures = dict[str, tuple[Any, list[Any]]]

_HANDLE = ctypes.c_void_p
# The functions at the end of kernels/hold.cu and of kernels/host_stream.cpp.
HOLD: Signatures = {"cudabench_hold": (ctypes.c_int, [_HANDLE, ctypes.c_int64, _HANDLE])}
CUDA: Signatures = {
    "cudabench_mark": (ctypes.c_int, [_HANDLE]),
    "cudabench_clock_offset": (ctypes.c_int, [_HANDLE, _HANDLE, _HANDLE]),
    "cudabench_graph_nodes": (ctypes.c_int64, [_HANDLE]),
}
HOST_STREAM: Signatures = {
    "cudabench_queued": (ctypes.c_int64, []),
    "cudabench_keep_log": (None, [ctypes.c_int]),
    "cudabench_log": (ctypes.c_int64, [_HANDLE, ctypes.c_int64]),
    "cudabench_synchronize": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t]),
    "cudabench_event_create": (_HANDLE, []),
    "cudabench_event_destroy": (None, [_HANDLE]),
    "cudabench_event_record": (None, [_HANDLE]),
    "cudabench_event_query": (ctypes.c_int, [_HANDLE]),
    "cudabench_event_elapsed_ns": (ctypes.c_int64, [_HANDLE, _HANDLE]),
}


def bound(library: ctypes.CDLL, signatures: Signatures) -> ctypes.CDLL:
    """Return `library` with the types of its functions declared."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
