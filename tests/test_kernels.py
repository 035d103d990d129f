import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from cudabench import kernels, runner
from cudabench.kernels import Buffers
from cudabench.runner import Bench
from tests.conftest import bound_add2


def add2(bench: Bench, c: object, a: object, b: object, n: int) -> None:
    getattr(torch.ops, bench.library.namespace).torch_launch_add2(c, a, b, n)


@pytest.mark.parametrize("n", [1, 2, 1023, 1024, 1025, 2**20 + 7])
def test_add2_is_pytorchs_sum(bench: Bench, n: int) -> None:
    launch, buffers = bound_add2(bench, n)
    assert runner.is_correct(bench.device, launch, buffers)


def test_only_n_elements_are_written(bench: Bench) -> None:
    buffers = Buffers.random(bench.device, 5000)
    add2(bench, buffers.c, buffers.a, buffers.b, 3000)
    bench.device.synchronize()
    assert torch.equal(buffers.c[:3000], (buffers.a + buffers.b)[:3000])
    assert buffers.c[3000:].isnan().all()


def test_special_values_add_as_ieee_says(bench: Bench) -> None:
    values = torch.tensor([0.0, -0.0, 1e-45, 3e38, torch.inf, -torch.inf, torch.nan])
    a, b = (v.flatten().contiguous() for v in torch.meshgrid(values, values, indexing="ij"))
    a, b = a.to(bench.device.torch_device), b.to(bench.device.torch_device)
    c = torch.zeros_like(a)
    add2(bench, c, a, b, a.numel())
    bench.device.synchronize()
    torch.testing.assert_close(c, a + b, rtol=0, atol=0, equal_nan=True)


def test_no_elements_launch_nothing_and_spoil_nothing(bench: Bench) -> None:
    launch, buffers = bound_add2(bench, 100)
    add2(bench, buffers.c, buffers.a, buffers.b, 0)
    empty = torch.empty(0, device=bench.device.torch_device)
    add2(bench, empty, empty, empty, 0)
    bench.device.synchronize()
    assert buffers.c.isnan().all()
    assert runner.is_correct(bench.device, launch, buffers)


def test_bad_arguments_are_refused_with_what_they_are(bench: Bench) -> None:
    device = bench.device.torch_device
    a, b, c = (torch.full((100,), torch.nan, device=device) for _ in range(3))
    where = "cuda:0" if device.type == "cuda" else "cpu"
    other = torch.zeros(100, device="cpu" if device.type == "cuda" else "meta")
    cases = [
        ((c.double(), a, b, 100), f"c: shape [100], Double, {where}"),
        ((c, a.half(), b, 100), f"a: shape [100], Half, {where}"),
        ((c, a, b.int(), 100), f"b: shape [100], Int, {where}"),
        ((c, other, b, 100), "a: shape [100], Float, "),
        ((other, a, b, 100), "c: shape [100], Float, "),
        ((c, a[::2], b, 50), f"a: shape [50], Float, {where}, not contiguous"),
        ((c.view(10, 10).t(), a, b, 100), f"c: shape [10, 10], Float, {where}, not contiguous"),
        ((c, a, b, -1), "got n = -1"),
        ((c, a, b, 101), "got n = 101"),
        ((c, a[:99], b, 100), f"a: shape [99], Float, {where}"),
        ((c, None, b, 100), "a: undefined"),
    ]
    for arguments, said in cases:
        with pytest.raises(ValueError, match="torch_launch_add2 needs") as raised:
            add2(bench, *arguments)
        assert said in str(raised.value)
    bench.device.synchronize()
    assert c.isnan().all()


def test_a_view_that_is_contiguous_is_taken(bench: Bench) -> None:
    base = torch.rand(1001, device=bench.device.torch_device)
    c = torch.full((1000,), torch.nan, device=bench.device.torch_device)
    add2(bench, c.view(10, 100), base[1:], base[:-1], 1000)
    bench.device.synchronize()
    assert torch.equal(c, base[1:] + base[:-1])


def test_every_operator_gives_pytorchs_sum(bench: Bench) -> None:
    buffers = Buffers.random(bench.device, 1000)
    for operator in kernels.USUAL_OPERATORS:
        assert runner.is_correct(bench.device, operator.bind(bench.library, buffers), buffers)


@pytest.mark.gpu
def test_add2_runs_on_pytorchs_current_stream() -> None:
    bench = runner.open_bench("cuda", print)
    launch, buffers = bound_add2(bench, 1000)
    bench.device.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # a launch on another stream would fail the capture
        launch()
    assert buffers.c.isnan().all()
    graph.replay()
    bench.device.synchronize()
    assert torch.equal(buffers.c, buffers.a + buffers.b)


@pytest.mark.gpu
def test_add2_reaches_beyond_32_bit_indices() -> None:
    bench = runner.open_bench("cuda", print)
    n = 2**32 + 3
    ones = torch.ones(n, device="cuda")
    out = torch.zeros_like(ones)
    add2(bench, out, ones, ones, n)
    bench.device.synchronize()
    assert bool((out == 2).all())


def compiler_output(*command: str | Path) -> str:
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return "" if ran.returncode == 0 else ran.stdout or f"exit code {ran.returncode}"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_cuda_kernel_compiles(tmp_path: Path) -> None:
    warnings = ("-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra")
    source, target = kernels.SOURCE_FOLDER / "add2.cu", tmp_path / "add2.o"
    said = compiler_output("nvcc", "-arch=sm_90", "-O3", *warnings, "-c", source, "-o", target)
    assert said == ""


def test_the_cuda_binding_compiles() -> None:
    include = Path(torch.__file__).parent / "include"
    flags = ("-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror")
    defines = ("-DUSE_CUDA", "-DTORCH_EXTENSION_NAME=x")
    folders = ("-isystem", include, "-isystem", include / "torch/csrc/api/include")
    source = kernels.SOURCE_FOLDER / "add2.cpp"
    assert compiler_output("c++", *flags, *defines, *folders, source) == ""
