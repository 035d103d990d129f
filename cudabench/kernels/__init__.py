"""The operators and their buffers: add2, and what PyTorch does instead."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from cudabench.device import Device
from cudabench.kernels import _build
from cudabench.kernels._build import Library, Toolchain, toolchain

__all__ = [
    "ADD2",
    "OPERATORS",
    "Buffers",
    "Launch",
    "Library",
    "Operator",
    "Toolchain",
    "add2_library",
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
        """Return fresh inputs from [0, 1) and an output of NaN."""
        a, b = (torch.rand(n, device=device.torch_device) for _ in range(2))
        return cls(a, b, torch.full_like(a, torch.nan))

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


def add2_library(capability: tuple[int, int] | None, notify: Callable[[str], None]) -> Library:
    """Return add2's library for a CUDA device of `capability`, or for the host where None.

    It also holds what the device needs to be timed: the hold of a stream, and the host stream.

    Raises:
        BuildError: It could not be compiled or loaded.
    """
    kernels = ("add2_host.cpp", "host_stream.cpp") if capability is None else ("add2.cu", "hold.cu")
    recipe = _build.Recipe("add2", SOURCE_FOLDER, ("add2.cpp", *kernels), capability)
    return _build.load(recipe, notify)


def _bind_add2(library: Library, buffers: Buffers) -> Launch:
    launch_add2 = getattr(torch.ops, library.namespace).torch_launch_add2.default
    a, b, c, n = buffers.a, buffers.b, buffers.c, buffers.c.numel()

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

OPERATORS = (ADD2, ADD, ADD_OUT)
