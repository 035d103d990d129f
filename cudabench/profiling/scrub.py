"""Copies of an nsys export without what is private.

An export holds the environment's variables, tokens included, the process list, paths, and the
names of host and user. Only what is named here comes through.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from cudabench.errors import ProfilerError

# What ran when.
_ACTIVITY = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS")
# Texts in those tables that name an activity, and integers that stand for such a text.
_NAMES = frozenset(
    {"text", "name", "nameId", "textId", "shortName", "demangledName", "mangledName"}
)
_GPU = "TARGET_INFO_GPU"
_GPU_COLUMNS = (
    *("id", "name", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "l2CacheSize"),
    *("computeMajor", "computeMinor", "maxWarpsPerSm"),
)
_META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_META_NAMES = ("EXPORT_PRODUCT_", "EXPORT_SCHEMA_VERSION")


def scrub(source: Path, target: Path) -> None:
    """Write a SQLite that has of an nsys export only the activity, its names, and the device.

    Raises:
        ProfilerError: `source` is no such export, or `target` cannot be written.
    """
    unfinished = target.with_name(f".{target.name}")
    unfinished.unlink(missing_ok=True)
    uri = f"{source.absolute().as_uri()}?mode=ro"
    try:
        # A new file has no free pages that something may have been left in.
        with (
            closing(sqlite3.connect(uri, uri=True)) as read,
            closing(sqlite3.connect(unfinished)) as written,
        ):
            _copy(read, written)
            written.commit()
        unfinished.replace(target)
    except (sqlite3.Error, OSError) as error:
        raise ProfilerError(f"{source} cannot be scrubbed into {target}: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _copy(read: sqlite3.Connection, written: sqlite3.Connection) -> None:
    tables = [name for (name,) in read.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    if "StringIds" not in tables:
        raise ProfilerError("this SQLite file is no nsys export: it has no table StringIds")
    used: set[int] = set()
    for table in (name for name in tables if name.startswith(_ACTIVITY)):
        columns = list(_allowed(_columns(read, table)))
        rows = read.execute(f"SELECT {_quoted(columns)} FROM {table}")
        names = [place for place, column in enumerate(columns) if column in _NAMES]
        _fill(written, table, columns, _noting(rows, names, used))
    _fill(written, "StringIds", ["id", "value"], _strings(read, used))
    if _GPU in tables:
        there = _columns(read, _GPU)
        columns = [column for column in _GPU_COLUMNS if column in there]
        _fill(written, _GPU, columns, read.execute(f"SELECT {_quoted(columns)} FROM {_GPU}"))
    for table in (name for name in _META if name in tables):
        rows = read.execute(f"SELECT name, value FROM {table}")
        _fill(written, table, ["name", "value"], (r for r in rows if r[0].startswith(_META_NAMES)))


def _columns(read: sqlite3.Connection, table: str) -> dict[str, str]:
    """Return a table's columns, and the type that each was declared with."""
    return {row[1]: str(row[2]) for row in read.execute(f"PRAGMA table_info({table})")}


def _allowed(columns: dict[str, str]) -> Iterator[str]:
    for column, declared in columns.items():
        if column in _NAMES or declared in ("INTEGER", "REAL"):
            yield column


def _noting(
    rows: Iterable[tuple[object, ...]], names: list[int], used: set[int]
) -> Iterator[tuple[object, ...]]:
    """Yield the rows and note which strings they name."""
    for row in rows:
        used.update(value for value in (row[place] for place in names) if isinstance(value, int))
        yield row


def _strings(read: sqlite3.Connection, used: set[int]) -> Iterator[tuple[int, str]]:
    for number in sorted(used):
        yield from read.execute("SELECT id, value FROM StringIds WHERE id = ?", (number,))


def _fill(
    written: sqlite3.Connection,
    table: str,
    columns: list[str],
    rows: Iterable[tuple[object, ...]],
) -> None:
    written.execute(f"CREATE TABLE {table} ({_quoted(columns)})")
    places = ", ".join("?" for _ in columns)
    written.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def _quoted(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)
