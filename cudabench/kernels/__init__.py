"""The operators and their buffers: add2, and what PyTorch does instead."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cudabench.device import Device
from cudabench.kernels import _build
from cudabench.kernels._build import Library, Toolchain, toolchain

__all__ = [
    "ADD2",
    "ADD2_DEFAULT_STREAM",
    "ADD_OUT",
    "OPERATORS",
    "USUAL_OPERATORS",
    "Buffers",
    "Launch",
    "Library",
    "Operator",
    "Toolchain",
    "add2_library",
    "stamp_launch",
    "toolchain",
]

SOURCE_FOLDER = Path(__file__).parent

# Queues one run of an operator and returns the tensor that will hold the result.
Launch = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Buffers:
    """Inputs `a` and `b` and output `c`: contiguous float32 of shape [n] on one device."""

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor

    @classmethod
    def random(cls, device: Device, n: int) -> "Buffers":
        """Return fresh inputs from [0, 1) and an output of NaN, all there on any stream."""
        where = device.torch_device
        generator = torch.Generator(where)  # PyTorch's own is the caller's
        generator.seed()
        a, b = (torch.rand(n, device=where, generator=generator) for _ in range(2))
        buffers = cls(a, b, torch.full_like(a, torch.nan))
        device.synchronize()
        return buffers

    @staticmethod
    def bytes_needed(n: int) -> int:
        """Return the bytes of three buffers of `n` elements."""
        return 3 * 4 * n


@dataclass(frozen=True)
class Operator:
    """Something to time: a name, the bytes it moves, and how to bind it to buffers."""

    name: str
    bytes_per_element: int
    bind: Callable[[Library, Buffers], Launch]
    cuda_only: bool = False


def add2_library(capability: tuple[int, int] | None, notify: Callable[[str], None]) -> Library:
    """Return add2's library for a CUDA device of `capability`, or for the host where None.

    It also holds what the device needs to be timed: the hold of a stream, and the host stream.

    Raises:
        BuildError: It could not be compiled or loaded.
    """
    kernels = ("add2_host.cpp", "host_stream.cpp") if capability is None else ("add2.cu", "hold.cu")
    recipe = _build.Recipe("add2", SOURCE_FOLDER, ("add2.cpp", *kernels), capability)
    return _build.load(recipe, notify)


def stamp_launch(library: Library, stamps: torch.Tensor, seconds: float) -> Launch:
    """Return what queues a stamp (stamp.h) that lasts about so many seconds.

    Args:
        library: A compiled library.
        stamps: Where it writes: int64 of shape [2] on the device.
        seconds: How long the stream is to be busy with it.
    """
    launch_stamp = getattr(torch.ops, library.namespace).torch_launch_stamp.default
    nanoseconds = round(seconds * 1e9)

    def launch() -> torch.Tensor:
        launch_stamp(stamps, nanoseconds)
        return stamps

    return launch


def _bind_add2(library: Library, buffers: Buffers) -> Launch:
    return _bound(getattr(torch.ops, library.namespace).torch_launch_add2, buffers)


def _bind_add2_default_stream(library: Library, buffers: Buffers) -> Launch:
    return _bound(getattr(torch.ops, library.namespace).torch_launch_add2_default_stream, buffers)


def _bound(operation: Any, buffers: Buffers) -> Launch:
    launch_add2, a, b, c = operation.default, buffers.a, buffers.b, buffers.c
    n = c.numel()

    def launch() -> torch.Tensor:
        launch_add2(c, a, b, n)
        return c

    return launch


def _bind_add(_: Library, buffers: Buffers) -> Launch:
    a, b = buffers.a, buffers.b
    return lambda: a + b


def _bind_add_out(_: Library, buffers: Buffers) -> Launch:
    a, b, c = buffers.a, buffers.b, buffers.c
    return lambda: torch.add(a, b, out=c)


_ADD_BYTES = 3 * 4  # two float32 read, one written
ADD2 = Operator("add2", _ADD_BYTES, _bind_add2)
ADD = Operator("a + b", _ADD_BYTES, _bind_add)
ADD_OUT = Operator("torch.add(out=)", _ADD_BYTES, _bind_add_out)
# The article's launcher names no stream, so it launches on CUDA's default one, whichever PyTorch
# made current: the fault that is to be found.
ADD2_DEFAULT_STREAM = Operator(
    "add2-default-stream", _ADD_BYTES, _bind_add2_default_stream, cuda_only=True
)

OPERATORS = (ADD2, ADD, ADD_OUT, ADD2_DEFAULT_STREAM)
USUAL_OPERATORS = (ADD2, ADD, ADD_OUT)
