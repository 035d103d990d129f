"""A Chrome trace of torch.profiler into a trace."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from cudabench.errors import ProfilerError
from cudabench.trace import Trace

_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_CALLS = ("cuda_runtime", "cuda_driver")
_RANGES = ("cpu_op", "user_annotation")  # which of them differs between releases
# What comes of taking something else for such a file.
_NO_TRACE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def read_torch(file: Path) -> Trace:
    """Return the trace in a file that torch.profiler's `export_chrome_trace` wrote.

    Raises:
        ProfilerError: It is no such file.
    """
    try:
        # In us with three decimals; a float of that size would be a nanosecond off.
        return _trace(json.loads(file.read_text(encoding="utf-8"), parse_float=Decimal))
    except _NO_TRACE as error:
        why = getattr(error, "strerror", None) or "it is no Chrome trace of torch.profiler"
        raise ProfilerError(f"cannot read {file}: {why}") from error


def _trace(whole: dict[str, Any]) -> Trace:
    events = [event for event in whole["traceEvents"] if event.get("ph") == "X"]
    devices = whole.get("deviceProperties") or [{}]
    return Trace(
        source="torch.profiler",
        device=str(devices[0].get("name", "")),
        ranges=_frame(
            [(*_span(e), e["name"]) for e in events if e.get("cat") in _RANGES],
            ["start", "end", "text"],
        ),
        calls=_frame(
            [(*_span(e), e["name"], _argument(e, "correlation")) for e in _of(events, *_CALLS)],
            ["start", "end", "name", "correlation"],
        ),
        work=_frame(
            [
                (
                    *_span(e),
                    e["name"],
                    _KINDS[e["cat"]],
                    *(_argument(e, key) for key in ("correlation", "device", "stream")),
                )
                for e in _of(events, *_KINDS)
            ],
            ["start", "end", "name", "kind", "correlation", "device", "stream"],
        ),
    )


def _of(events: list[dict[str, Any]], *categories: str) -> list[dict[str, Any]]:
    return [event for event in events if event.get("cat") in categories]


def _span(event: dict[str, Any]) -> tuple[int, int]:
    start = Decimal(event["ts"])
    return int(start * 1000), int((start + Decimal(event.get("dur", 0))) * 1000)


def _argument(event: dict[str, Any], key: str) -> int:
    return int((event.get("args") or {}).get(key, -1))


def _frame(rows: list[tuple[Any, ...]], columns: list[str]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    texts: dict[str, str] = {c: "category" for c in ("name", "kind") if c in columns}
    typed: pd.DataFrame = frame.astype(
        {c: "int64" for c in columns if c not in (*texts, "text")} | texts
    )
    # The longer first where two begin together: it is the outer one.
    ordered: pd.DataFrame = typed.sort_values(
        ["start", "end"], ascending=[True, False], kind="stable", ignore_index=True
    )
    return ordered
