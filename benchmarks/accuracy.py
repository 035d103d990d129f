"""Our estimate against CUPTI's kernel time, over sizes, warm and cold, with triton's beside it.

    python3 -m benchmarks.accuracy [--out FILE.csv]

`allowed` is a difference of at most 0.1 us or 5 %, 2 % from 10 us on.

Needs a CUDA device. CUPTI slows some kernels that it watches, so it comes last, and it is an
opinion, not the truth: the seed kernel's many short blocks run 6 to 7 % longer under it.
"""

import argparse
import time
from pathlib import Path

import pandas as pd

from cudabench import estimate, runner
from cudabench.kernels import ADD2, ADD_OUT, Buffers, Launch
from cudabench.records import L2, Reading
from cudabench.stopping import StoppingRule

EXPONENTS = (10, 14, 17, 19, 20, 21, 22, 24, 26, 28)


def do_bench(launch: Launch) -> float:
    """Return triton's do_bench median in seconds; it flushes the L2 itself."""
    from triton.testing import do_bench as triton_do_bench

    return float(triton_do_bench(launch, return_mode="median")) * 1e-3


def main() -> None:
    """Measure, compare, print, and write what was printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    bench = runner.open_bench("cuda", print)
    device, rule = bench.device, StoppingRule()
    flush = estimate.Flush(device)
    cases = []
    started = time.perf_counter()
    for exponent in EXPONENTS:
        n = 2**exponent
        for operator in (ADD2, ADD_OUT):
            launch = operator.bind(bench.library, Buffers.random(device, n))
            for l2 in L2:
                cold = flush if l2 is L2.COLD else None
                gross, stop, method = estimate.read(device, launch, rule, cold)
                reading = Reading(operator.name, n, 12 * n, l2, method, gross, stop)
                cases.append((reading, launch, cold, do_bench(launch) if cold else None))
    floors = {f.l2: f for f in runner.floors(bench, [case[0] for case in cases], rule)}
    print(f"read in {time.perf_counter() - started:.1f} s")
    for floor in floors.values():
        print(floor.l2.value, floor.interval, f"kernel {floor.kernel_seconds}")
    rows = []
    for reading, launch, cold, triton in cases:
        ours = reading.estimate(floors[reading.l2]).net
        theirs = estimate.profiled_seconds(device, launch, cold)
        rows.append(
            {
                "operator": reading.operator,
                "n": reading.n,
                "l2": reading.l2.value,
                "samples": len(reading.gross),
                "stop": reading.stop.value,
                "ours_us": ours.value * 1e6,
                "half_width_us": ours.half_width * 1e6,
                "cupti_us": theirs * 1e6,
                "difference_us": (ours.value - theirs) * 1e6,
                "difference_percent": (ours.value / theirs - 1) * 100,
                "allowed": abs(ours.value - theirs)
                <= max(0.1e-6, (0.02 if theirs >= 10e-6 else 0.05) * theirs),
                "do_bench_us": None if triton is None else triton * 1e6,
            }
        )
    frame = pd.DataFrame.from_records(rows)
    print(frame.to_string(index=False, float_format="{:.3f}".format))
    if out:
        frame.to_csv(out, index=False)


if __name__ == "__main__":
    main()
