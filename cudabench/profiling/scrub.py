"""Copies of an nsys export without what is private.

An export holds the environment's variables, tokens included, the process list, paths, and the
names of host and user. Only what is named here comes through; a column or a table that a later
nsys adds does not, unless it holds numbers about an activity.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from cudabench.errors import ProfilerError

_Row: TypeAlias = tuple[object, ...]
_Columns: TypeAlias = dict[str, str]  # each column's name, and the type that it is declared with

# What ran when.
_ACTIVITY = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS")
# Texts in those tables that name an activity, and integers that stand for such a text. Others may
# stand for a path.
_NAMES = frozenset(
    {"text", "name", "nameId", "textId", "shortName", "demangledName", "mangledName"}
)
_REFERENCE = re.compile(r'^\s*"?(\w+)"?\s.*REFERENCES StringIds', re.MULTILINE)
_STRINGS = "StringIds"
_GPU = "TARGET_INFO_GPU"
_GPU_COLUMNS = (
    *("id", "name", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "l2CacheSize"),
    *("computeMajor", "computeMinor", "maxWarpsPerSm"),
)
_META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_META_NAMES = ("EXPORT_PRODUCT_", "EXPORT_SCHEMA_VERSION")


def scrub(source: Path, target: Path) -> None:
    """Write a SQLite that has of an nsys export only the activity, its names, and the device.

    Args:
        source: The export, which is not changed.
        target: What is replaced at once, or stays as it is where this fails.

    Raises:
        ProfilerError: `source` is no such export, or `target` cannot be written.
    """
    uri = f"{source.absolute().as_uri()}?mode=ro"
    try:
        if target.exists() and target.samefile(source):
            raise ProfilerError(f"{source} would be replaced by its own copy", "Name another file")
        # A new file has no free pages that something may have been left in.
        with TemporaryDirectory(prefix=".cudabench-", dir=target.absolute().parent) as folder:
            copy = Path(folder) / "copy.sqlite"
            with (
                closing(sqlite3.connect(uri, uri=True)) as read,
                closing(sqlite3.connect(copy)) as written,
            ):
                _copy(source, read, written)
                written.commit()
            copy.replace(target)
    except (sqlite3.Error, OSError) as error:
        raise ProfilerError(f"{source} cannot be scrubbed into {target}: {error}") from error


def _copy(source: Path, read: sqlite3.Connection, written: sqlite3.Connection) -> None:
    tables = {
        str(name): str(sql)
        for name, sql in read.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    }
    if not any(name.startswith(_ACTIVITY) for name in tables):
        raise ProfilerError(
            f"{source} cannot be scrubbed: it has no table of CUDA or NVTX activity",
            "Give what nsys export --type sqlite wrote",
        )
    used: set[int] = set()
    for table, sql in tables.items():
        if table.startswith(_ACTIVITY):
            used |= _copy_activity(read, written, table, sql)
    if _STRINGS in tables:
        _fill(written, _STRINGS, {"id": "INTEGER PRIMARY KEY", "value": "TEXT"}, _spelt(read, used))
    if _GPU in tables:
        columns = _chosen(read, _GPU, _GPU_COLUMNS)
        _fill(written, _GPU, columns, _as_declared(_rows(read, _GPU, columns), columns))
    for table in (name for name in _META if name in tables):
        columns = {"name": "TEXT", "value": "TEXT"}
        rows = _rows(read, table, columns)
        _fill(written, table, columns, (r for r in rows if str(r[0]).startswith(_META_NAMES)))


def _copy_activity(
    read: sqlite3.Connection, written: sqlite3.Connection, table: str, sql: str
) -> set[int]:
    """Copy a table's numbers and names; return which of StringIds it uses."""
    columns = {
        name: kind
        for name, kind in _columns(read, table).items()
        if name in _NAMES or _is_number(kind)
    }
    # nsys writes into the schema, as a comment, which columns stand for a text.
    named = _NAMES & (set(_REFERENCE.findall(sql)) or _NAMES)
    used: set[int] = set()
    rows = _as_declared(_rows(read, table, columns), columns)
    _fill(written, table, columns, _noting(rows, list(columns), named, used))
    return used


def _as_declared(rows: Iterable[_Row], columns: _Columns) -> Iterator[_Row]:
    """Yield the rows without text in a column of numbers: SQLite keeps it, if it is given one."""
    numbers = {place for place, kind in enumerate(columns.values()) if _is_number(kind)}
    for row in rows:
        if any(isinstance(row[place], (str, bytes)) for place in numbers):
            row = tuple(
                None if place in numbers and isinstance(value, (str, bytes)) else value
                for place, value in enumerate(row)
            )
        yield row


def _noting(
    rows: Iterable[_Row], columns: list[str], named: Iterable[str], used: set[int]
) -> Iterator[_Row]:
    """Yield the rows, and note which strings they name."""
    names = [columns.index(name) for name in named if name in columns]
    for row in rows:
        used.update(value for value in (row[place] for place in names) if isinstance(value, int))
        yield row


def _spelt(read: sqlite3.Connection, used: set[int]) -> Iterator[_Row]:
    for number in sorted(used):
        yield from read.execute("SELECT id, value FROM StringIds WHERE id = ?", (number,))


def _columns(read: sqlite3.Connection, table: str) -> _Columns:
    return {row[1]: str(row[2]) for row in read.execute(f"PRAGMA table_info({_quoted([table])})")}


def _chosen(read: sqlite3.Connection, table: str, wanted: Iterable[str]) -> _Columns:
    there = _columns(read, table)
    return {column: there[column] for column in wanted if column in there}


def _is_number(declared: str) -> bool:
    """Say whether a column is declared as one, in any of SQL's words."""
    return re.search("INT|REAL|FLOA|DOUB|NUM", declared.upper()) is not None


def _rows(read: sqlite3.Connection, table: str, columns: Iterable[str]) -> Iterator[_Row]:
    yield from read.execute(f"SELECT {_quoted(columns)} FROM {_quoted([table])}")


def _fill(written: sqlite3.Connection, table: str, columns: _Columns, rows: Iterable[_Row]) -> None:
    declared = ", ".join(f"{_quoted([name])} {kind}" for name, kind in columns.items())
    written.execute(f"CREATE TABLE {_quoted([table])} ({declared})")
    places = ", ".join("?" for _ in columns)
    written.executemany(f"INSERT INTO {_quoted([table])} VALUES ({places})", rows)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
