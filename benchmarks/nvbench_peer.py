"""What NVBench's Python package (cuda-bench) says of the operators; run by benchmarks/accuracy.py.

    python3 -m benchmarks.nvbench_peer FILE.json

NVBench ends the process where something fails, so it has one of its own.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.cases import EXPONENTS, OPERATORS
from cudabench import runner
from cudabench.kernels import Buffers

# A flush before each launch behind a blocking kernel. Its batches see the host's launches only.
_COLD = "nv/cold/time/gpu/mean"


def measure(path: Path) -> None:
    """Let NVBench time every operator at every size, and write its JSON."""
    import cuda.bench as nvbench

    bench = runner.open_bench("cuda", print)
    operators = {operator.name: operator for operator in OPERATORS}

    def subject(state: Any) -> None:
        n = state.get_int64("n")
        buffers = Buffers.random(bench.device, n)
        launch = operators[state.get_string("operator")].bind(bench.library, buffers)
        stream = torch.cuda.ExternalStream(  # type: ignore[no-untyped-call]
            state.get_stream().addressof()
        )
        with torch.cuda.stream(stream):
            state.exec(lambda _: launch(), batched=False)

    registered = nvbench.register(subject)
    registered.add_string_axis("operator", list(operators))
    registered.add_int64_axis("n", [2**exponent for exponent in EXPONENTS])
    nvbench.run_all_benchmarks(["nvbench", "--json", str(path), "--timeout", "1"])


def read(path: Path) -> dict[tuple[str, int], float]:
    """Return NVBench's cold mean in seconds, by operator and n."""
    (benchmark,) = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    found = {}
    for state in benchmark["states"]:
        axes = {axis["name"]: axis["value"] for axis in state["axis_values"]}
        for summary in state["summaries"] or []:
            if summary["tag"] == _COLD:
                value = float(summary["data"][0]["value"])
                found[axes["operator"], int(axes["n"])] = value
    return found


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
