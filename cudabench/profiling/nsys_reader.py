"""An nsys SQLite export into a trace.

Releases differ in their tables and columns, and a table is absent where nothing was recorded for
it: what is there is asked of the file itself, never told from a version. A name is text in some,
and a number that StringIds spells out in others.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from cudabench.errors import ProfilerError
from cudabench.ranges import DOMAIN
from cudabench.trace import Trace

_PUSH_POP, _DOMAIN_MADE = 59, 75  # ENUM_NSYS_EVENT_TYPE
_KINDS = {
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
    "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "memset": "CUPTI_ACTIVITY_KIND_MEMSET",
}
_CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
# The columns that name a row, the readable ones first.
_NAMES = ("shortName", "demangledName", "nameId", "name")
_PRODUCT = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION")
_META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_UNSAID = "Nsight Systems"

_Numbers = NDArray[np.int64]


def read_nsys(file: Path) -> Trace:
    """Return the trace in an nsys SQLite export, which is not changed.

    Raises:
        ProfilerError: It is no such file.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            export = _Export(database)
            return Trace(
                source=export.source(),
                device=export.device(),
                ranges=export.ranges(),
                calls=export.calls(),
                work=export.work(),
            )
    # The last three are what numpy raises of a time that is no whole number.
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        raise ProfilerError(
            f"{file} cannot be read as an nsys export: {error}",
            "Export it again with: nsys export --type sqlite",
        ) from error


class _Export:
    """An open export, and the columns of its tables."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._columns = {
            name: {row[1]: row[2] for row in database.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in tables.fetchall()
        }
        if "StringIds" not in self._columns:
            raise ProfilerError(
                "this SQLite file is no nsys export: it has no table StringIds",
                "Export a report with: nsys export --type sqlite",
            )

    def source(self) -> str:
        """Return what made the file, as far as it says."""
        for table in (name for name in _META if name in self._columns):
            said = dict(self._database.execute(f"SELECT name, value FROM {table}"))
            name, version = (said.get(key) or "" for key in _PRODUCT)
            return f"{name or _UNSAID} {version}".removeprefix("NVIDIA ").strip()
        return _UNSAID

    def device(self) -> str:
        """Return the first GPU's name, or ""."""
        if "name" not in self._columns.get("TARGET_INFO_GPU", {}):
            return ""
        found = self._database.execute("SELECT name FROM TARGET_INFO_GPU LIMIT 1").fetchone()
        return str(found[0] or "") if found else ""

    def ranges(self) -> pd.DataFrame:
        """Return our own NVTX ranges."""
        columns = self._columns.get("NVTX_EVENTS", {})
        text = "text" if "text" in columns else "NULL"
        if "textId" in columns:
            text = f"COALESCE({text}, (SELECT value FROM StringIds WHERE id = textId))"
        rows: list[tuple[int, int, str]] = []
        if {"domainId", "eventType", "globalTid"} <= set(columns):
            rows = self._database.execute(
                # A domain's number is its process's: the process is all of a globalTid but the
                # last 24 bits, the thread.
                f"""SELECT start, COALESCE("end", start), COALESCE({text}, '') FROM NVTX_EVENTS
                WHERE eventType = {_PUSH_POP} AND (domainId, globalTid >> 24) IN (
                    SELECT domainId, globalTid >> 24 FROM NVTX_EVENTS
                    WHERE eventType = {_DOMAIN_MADE} AND {text} = ?)
                ORDER BY start, 2 DESC""",
                (DOMAIN,),
            ).fetchall()
        frame: pd.DataFrame = pd.DataFrame(rows, columns=["start", "end", "text"])
        typed: pd.DataFrame = frame.astype({"start": "int64", "end": "int64"})
        return typed

    def calls(self) -> pd.DataFrame:
        """Return the API calls on the host."""
        return self._joined(self._rows(table, ["correlationId"]) for table in _CALLS)

    def work(self) -> pd.DataFrame:
        """Return what the device ran."""
        found = []
        for kind, table in _KINDS.items():
            rows = self._rows(table, ["correlationId", "deviceId", "streamId"])
            rows["kind"] = pd.Series(kind, rows.index, dtype=pd.CategoricalDtype(list(_KINDS)))
            if kind != "kernel":
                rows["name"] = pd.Series(kind, rows.index, dtype="category")
            found.append(rows)
        return self._joined(found)

    def _joined(self, frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
        """Return tables of like columns as one, in the order of their starts."""
        every = list(frames)
        filled = [frame for frame in every if len(frame)] or every[:1]
        names = union_categoricals([frame["name"] for frame in filled])
        frame = pd.concat([frame.drop(columns="name") for frame in filled], ignore_index=True)
        frame["name"] = pd.Series(names)
        ordered: pd.DataFrame = frame.sort_values("start", kind="stable", ignore_index=True)
        return ordered

    def _rows(self, table: str, numbers: list[str]) -> pd.DataFrame:
        """Return start, end, name and some numbers of a table; no rows where it is absent."""
        columns = self._columns.get(table, {})
        chosen = [f'COALESCE("{column}", -1)' if column in columns else "-1" for column in numbers]
        name = next((column for column in _NAMES if column in columns), "''")
        # One number after the other, and names apart: whole rows take twice the time, and 300 MB.
        values = np.fromiter(
            chain.from_iterable(self._select(table, "start", 'COALESCE("end", start)', *chosen)),
            dtype=np.int64,
        )
        places: defaultdict[object, int] = defaultdict(count().__next__)
        codes = np.fromiter((places[name] for (name,) in self._select(table, name)), dtype=np.int64)
        plain = [column.removesuffix("Id") for column in numbers]
        frame: pd.DataFrame = pd.DataFrame(
            values.reshape(-1, 2 + len(numbers)), columns=["start", "end", *plain]
        )
        frame["name"] = self._named(codes, list(places))
        return frame

    def _select(self, table: str, *columns: str) -> Iterable[tuple[Any, ...]]:
        """Return each row of a table, always in the same order; none where it is absent."""
        if table not in self._columns:
            return ()
        return self._database.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid")

    def _named(self, codes: _Numbers, names: list[object]) -> "pd.Series[str]":
        """Spell out what stands for a name: a text, or the number of one in StringIds."""
        spelt = pd.Series([self._spelt(name) for name in names], dtype="str").astype("category")
        named: pd.Series[str] = spelt.take(codes).reset_index(drop=True)
        return named

    def _spelt(self, one: object) -> str:
        if not isinstance(one, int):
            return str(one or "")
        found = self._database.execute(
            "SELECT value FROM StringIds WHERE id = ?", (one,)
        ).fetchone()
        return str(found[0]) if found else str(one)
