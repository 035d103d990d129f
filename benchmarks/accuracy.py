"""Our estimate and its peers' against CUPTI's kernel time, over sizes, warm and cold.

    python3 -m benchmarks.accuracy [--out FILE.csv]

Beside it: a batch and a graph, triton's do_bench and do_bench_cudagraph, torch's Timer and
NVBench (the package cuda-bench; left out where it is not installed), each with the same buffers.

The reference is CUPTI's median where the profiler leaves the kernel alone, which event pairs
outside and inside the profiler tell; where it slows it, the mean of batch and graph, each less its
own floor. Allowed is 0.1 us or 5 % of the reference, whichever is more; 2 % of it from 10 us on.

Needs a CUDA device. CUPTI comes last: it may slow what follows.
"""

import argparse
import importlib.util
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from torch.utils.benchmark import Timer

from benchmarks import nvbench_peer
from benchmarks.cases import EXPONENTS, OPERATORS
from cudabench import estimate, opinions, runner
from cudabench.kernels import Buffers, Launch, Operator
from cudabench.records import L2, Floor, Method, Opinion, SecondOpinion
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule

PEERS = ("do_bench", "do_bench_cudagraph", "timer", "nvbench")
# The profiler slows a kernel whose event pairs read more inside it, by this part of it and this
# much in us: it adds about 0.16 us to any.
_SLOWED, _ANY = 0.02, 0.25
_US = 1e6
_STATES = (L2.WARM, L2.COLD)
_SECOND = (Opinion.BATCH, Opinion.GRAPH)

# What the floor's small launches read by each second opinion in each state.
Beside = dict[tuple[Opinion, L2], tuple[float, ...]]


class Case:
    """One operator, size and state of the cache, and what each method says of it in us."""

    def __init__(
        self,
        bench: Bench,
        operator: Operator,
        n: int,
        l2: L2,
        launch: Launch,
        small: tuple[Launch, ...],
        beside: Beside,
    ) -> None:
        self.operator, self.n, self.l2 = operator, n, l2
        self._device, self._launch = bench.device, launch
        self._small, self._beside = small, beside
        self._before = estimate.flush_for(bench.device, l2)
        self.row: dict[str, object] = {"operator": operator.name, "n": n, "l2": l2.value}

    def measure(self, rule: StoppingRule) -> None:
        """Take everything but what the profiler is needed for."""
        gross = estimate.read(self._device, self._launch, rule, self._small, self._before)
        bytes_moved = self.operator.bytes_per_element * self.n
        self._reading = gross.reading(self.operator.name, self.n, bytes_moved, self.l2, None)
        self.row |= {"samples": len(gross.seconds), "stop": gross.stop.value}
        self._outside = estimate.pairs(self._device, self._launch, self._before)
        self._opinions = [self._opinion(opinion) for opinion in _SECOND]
        for opinion, l2 in ((Opinion.DO_BENCH, L2.COLD), (Opinion.DO_BENCH_CUDAGRAPH, L2.WARM)):
            if self.l2 is l2:
                self.row[opinion.value] = statistics.median(self._opinion(opinion).seconds) * _US
        if self.l2 is L2.WARM:
            timer = Timer("launch()", globals={"launch": self._launch})
            self.row["timer"] = timer.blocked_autorange().median * _US

    def profile(self, floors: dict[L2, Floor]) -> None:
        """Take the rest, and settle the reference."""
        outside = self._outside
        inside = opinions.pairs_in_profiler(self._device, self._launch, self._before)
        cupti = statistics.median(self._opinion(Opinion.CUPTI).seconds) * _US
        net = self._reading.estimate(floors[self.l2]).net
        off = floors[self.l2].pair_seconds
        effect = (statistics.median(inside) - statistics.median(outside)) * _US
        slowed = effect > max(_ANY, _SLOWED * statistics.median(outside) * _US)
        batch, graph = (self._net(opinion, floors) for opinion in self._opinions)
        self.row |= {
            "ours": net.value * _US,
            "half_width": net.half_width * _US,
            "cupti": cupti,
            "pairs_outside": (statistics.median(outside) - off) * _US,
            "pairs_inside": (statistics.median(inside) - off) * _US,
            "batch": batch,
            "graph": graph,
            "reference": (batch + graph) / 2 if slowed else cupti,
            "reference_is": "batch, graph" if slowed else "cupti",
        }

    def _opinion(self, opinion: Opinion) -> SecondOpinion:
        seconds, _ = opinions.opinion_of(
            opinion, self._device, self._launch, Method.HELD, 0.5, (), self._before
        )
        beside = self._beside.get((opinion, self.l2), ())
        return SecondOpinion(opinion, self.operator.name, self.n, self.l2, seconds, beside)

    def _net(self, opinion: SecondOpinion, floors: dict[L2, Floor]) -> float:
        return (opinion.net(floors[self.l2]) or math.nan) * _US


def main() -> None:
    """Measure, compare, print, and write what was printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    started = time.perf_counter()
    nvbench = of_nvbench()
    frame = pd.DataFrame.from_records(list(rows(nvbench)))
    for name in ("ours", *PEERS):
        frame[f"{name}_off"] = frame[name] - frame["reference"]
    allowed = frame["reference"] * 0.05
    allowed = allowed.where(frame["reference"] < 10, frame["reference"] * 0.02).clip(lower=0.1)
    for name in ("ours", *PEERS):
        frame[f"{name}_off_allowed"] = frame[f"{name}_off"].abs() / allowed
    print(frame.to_string(index=False, float_format="{:.3f}".format))
    within = (frame["ours_off_allowed"] <= 1).sum()
    print(f"\nours: {within} of {len(frame)} within what is allowed. Largest errors:")
    print(f"  {'':20}{'us':>10}{'of itself':>10}{'of what is allowed':>20}")
    for name in ("ours", *PEERS):
        off, times = frame[f"{name}_off"].abs(), frame[f"{name}_off_allowed"]
        relative = (off / frame["reference"]).max()
        print(f"  {name:20}{off.max():10.3f}{relative:10.1%}{times.max():20.2f}")
    print(f"all in {time.perf_counter() - started:.0f} s")
    if out:
        frame.to_csv(out, index=False, float_format="{:.4f}".format)


def of_nvbench() -> Callable[[Case], float | None]:
    """Return what looks up NVBench's figure for a case, in us."""
    if importlib.util.find_spec("cuda.bench") is None:
        return lambda case: None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nvbench.json"
        command = [sys.executable, "-m", "benchmarks.nvbench_peer", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = nvbench_peer.read(path)

    def look_up(case: Case) -> float | None:
        seconds = found.get((case.operator.name, case.n)) if case.l2 is L2.COLD else None
        return None if seconds is None else seconds * _US

    return look_up


def rows(nvbench: Callable[[Case], float | None]) -> Iterator[dict[str, object]]:
    """Yield a row for each case."""
    bench, rule = runner.open_bench("cuda", print), StoppingRule()
    small = tuple(bench.small.values())
    beside = {
        (opinion, l2): opinions.opinion_of(
            opinion,
            bench.device,
            small[0],
            Method.HELD,
            0.5,
            small,
            estimate.flush_for(bench.device, l2),
        )[1]
        for opinion in _SECOND
        for l2 in _STATES
    }
    cases = []
    for exponent in EXPONENTS:
        for operator in OPERATORS:
            n = 2**exponent
            launch = operator.bind(bench.library, Buffers.random(bench.device, n))
            cases += [Case(bench, operator, n, l2, launch, small, beside) for l2 in _STATES]
    for case in cases:
        case.measure(rule)
    floors = {f.l2: f for f in runner.floors(bench, [case._reading for case in cases], rule)}
    for floor in floors.values():
        print(f"{floor.l2.value} floor, launches {floor.spread * _US:.3f} us apart")
    for case in cases:
        case.profile(floors)
        case.row["nvbench"] = nvbench(case)
        yield case.row


if __name__ == "__main__":
    main()
