"""c = a + b in Triton, 256 threads a block and four elements a thread: an operator to measure."""

# Triton reads the annotations of a kernel: they must be what they say.
import torch
import triton
import triton.language as tl

from cudabench.kernels import Buffers, Launch, Library, Operator

_BLOCK = 1024
_WARPS = 8


@triton.jit  # type: ignore[untyped-decorator]
def _add_kernel(c, a, b, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(c + offsets, tl.load(a + offsets, inside) + tl.load(b + offsets, inside), inside)


def _bind(_: Library, buffers: Buffers) -> Launch:
    a, b, c = buffers.a, buffers.b, buffers.c
    n = c.numel()
    grid = (triton.cdiv(n, _BLOCK),)

    def launch() -> torch.Tensor:
        _add_kernel[grid](c, a, b, n, BLOCK=_BLOCK, num_warps=_WARPS)
        return c

    return launch


TRITON_ADD = Operator("triton add, 256 threads", 3 * 4, _bind, cuda_only=True)
