"""`cudabench timeline` on a capture of a million kernels, beside `nsys stats` on the same file.

    python3 -m benchmarks.large_capture CAPTURE.sqlite

The capture's own rows are repeated, each time later and with other correlation ids, until there
are so many. Wanted: 10 s and 1 GiB for 200 MB.
"""

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

_KERNELS = 1_000_000
_KERNEL_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
# Columns that differ from one repetition to the next.
_TIMES, _CORRELATION = ("start", "end"), "correlationId"


@dataclass(frozen=True)
class _Cost:
    seconds: float
    peak_bytes: int


def main() -> None:
    """Build the file, run both, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--nsys", default=shutil.which("nsys"))
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        large = Path(name) / "large.sqlite"
        kernels = _repeat(options.capture, large)
        table = Table(f"{kernels:,} kernels, {large.stat().st_size / 1e6:.0f} MB", "s", "MiB")
        commands = {
            "cudabench timeline": [sys.executable, "-m", "cudabench", "timeline", str(large)],
        }
        if options.nsys:
            # An older name first: a newer nsys takes that, too.
            stats = ("stats", "--report", "gpukernsum", "--format", "csv", str(large))
            commands["nsys stats"] = [options.nsys, *stats]
        for label, command in commands.items():
            cost = _cost(command, Path(name))
            table.add_row(label, f"{cost.seconds:.1f}", f"{cost.peak_bytes / 2**20:.0f}")
        Console().print(table)


def _repeat(capture: Path, large: Path) -> int:
    """Write the rows of a capture again and again; return how many kernels there are then."""
    shutil.copyfile(capture, large)
    with closing(sqlite3.connect(large)) as database:
        named = "SELECT name FROM sqlite_master WHERE name LIKE 'CUPTI_ACTIVITY_KIND_%'"
        tables = [name for (name,) in database.execute(named)]
        kernels, first, last, most = database.execute(
            f'SELECT COUNT(*), MIN(start), MAX("end"), MAX({_CORRELATION}) FROM {_KERNEL_TABLE}'
        ).fetchone()
        times = -(-_KERNELS // kernels) - 1
        for table in tables:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            shifts = dict.fromkeys(_TIMES, last - first) | {_CORRELATION: most + 1}
            shifted = (f'"{c}" + i * {shifts[c]}' if c in shifts else f'"{c}"' for c in columns)
            database.execute(f"CREATE TEMP TABLE one AS SELECT * FROM {table}")
            database.execute(
                f"""INSERT INTO {table} WITH RECURSIVE turn(i) AS
                (VALUES (1) UNION ALL SELECT i + 1 FROM turn WHERE i < {times})
                SELECT {", ".join(shifted)} FROM turn, one"""
            )
            database.execute("DROP TABLE one")
        database.commit()
    return int(kernels * (times + 1))


def _cost(command: list[str], folder: Path) -> _Cost:
    """Run a command in a folder and return what it and its children took."""
    began = time.perf_counter()
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=said,
            stderr=said,
            env=os.environ | {"PYTHONPATH": _CHECKOUT},
        )
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit((folder / "said").read_text())
    return _Cost(time.perf_counter() - began, used.ru_maxrss * 1024)


_CHECKOUT = os.pathsep.join((str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")))


if __name__ == "__main__":
    main()
