"""Copies without what is private: of a really profiled program, and of tables that we made up."""

import re
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

from cudabench.errors import ProfilerError
from cudabench.profiling.convert import to_sqlite
from cudabench.profiling.nsys_reader import read_nsys
from cudabench.profiling.scrub import scrub
from cudabench.profiling.tools import find_nsys
from tests.test_nsys_convert import (
    Mount,
    bound_by_modes,
    files,
    needs_nsys,
    profiled,
    small_disk,
    written,
)

__all__ = ["small_disk"]


@dataclass(frozen=True)
class Real:
    """The export of a really profiled program, its scrubbed copy, and what is private in it."""

    export: Path
    scrubbed: Path
    private: dict[str, str]


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    folder = tmp_path_factory.mktemp("scrub")
    private = {
        "variable": secrets.token_hex(16),
        "user": f"user{secrets.token_hex(8)}",
        "process": f"proc{secrets.token_hex(4)}",
        "home": str(Path.home()),
        "checkout": str(Path(__file__).parents[1]),
        "interpreter": sys.executable,
    }
    sleep = shutil.copy(shutil.which("sleep") or "", folder / private["process"])
    with subprocess.Popen([sleep, "1000"]) as process:
        try:
            stream = profiled(folder, A_TOKEN=private["variable"], USER=private["user"])
        finally:
            process.kill()
    export = to_sqlite(stream, find_nsys(), None, folder, print)
    scrub(export, folder / "scrubbed.sqlite")
    return Real(export, folder / "scrubbed.sqlite", private)


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as opened:
        return opened.execute(query).fetchall()


def tables(file: Path) -> dict[str, list[str]]:
    """Return each table's columns."""
    names = rows(file, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name: [row[1] for row in rows(file, f"PRAGMA table_info({name})")] for (name,) in names}


def words(file: Path) -> set[str]:
    """Return every word of every text."""
    found: set[str] = set()
    for table in tables(file):
        for row in rows(file, f"SELECT * FROM {table}"):
            found.update(*(re.findall(r"[\w.-]+", cell) for cell in row if isinstance(cell, str)))
    return found


@needs_nsys
@pytest.mark.parametrize("what", ["variable", "user", "process", "home", "checkout", "interpreter"])
def test_what_is_private_of_a_real_program_is_in_no_byte_of_the_copy(real: Real, what: str) -> None:
    value = real.private[what].encode()
    assert value in real.export.read_bytes()
    assert value not in real.scrubbed.read_bytes()


@needs_nsys
def test_the_hosts_name_is_no_word_of_the_copy(real: Real) -> None:
    assert socket.gethostname() in words(real.export)
    assert socket.gethostname() not in words(real.scrubbed)


@needs_nsys
def test_of_a_real_export_the_activity_its_names_and_the_version_are_left(real: Real) -> None:
    kept = tables(real.scrubbed)
    assert set(kept) == {"NVTX_EVENTS", "StringIds", "EXPORT_META_DATA"}
    columns = ", ".join(f'"{column}"' for column in kept["NVTX_EVENTS"])
    query = f"SELECT {columns} FROM NVTX_EVENTS"
    assert rows(real.scrubbed, query) == rows(real.export, query) != []
    assert [value for _, value in rows(real.scrubbed, "SELECT * FROM StringIds")] == ["a step"]
    names = {name for name, _ in rows(real.scrubbed, "SELECT * FROM EXPORT_META_DATA")}
    assert all(name.startswith(("EXPORT_PRODUCT_", "EXPORT_SCHEMA_VERSION")) for name in names)


@needs_nsys
def test_a_real_copy_reads_as_its_export_does(real: Real) -> None:
    before, after = read_nsys(real.export), read_nsys(real.scrubbed)
    assert after.source == before.source
    assert len(after.ranges) == 3
    assert_frame_equal(after.ranges, before.ranges)


SCHEMA = """
PRAGMA synchronous = OFF;
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ProcessStreams (globalPid INTEGER, contentId INTEGER);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_GPU (
    vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, uuid TEXT, clockRate INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start         INTEGER NOT NULL,  -- Event start timestamp (ns).
    end           INTEGER NOT NULL,
    streamId      INTEGER NOT NULL,
    globalPid     INTEGER,           -- Serialized GlobalId.
    demangledName INTEGER NOT NULL,  -- REFERENCES StringIds(id) -- Kernel function name
    shortName     INTEGER NOT NULL,  -- REFERENCES StringIds(id) -- Base kernel function name
    pathId        INTEGER,           -- REFERENCES StringIds(id) -- Where its source lies
    gridX         INTEGER,
    occupancy     REAL,
    source        TEXT,
    image         BLOB,
    undeclared
);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_OLDER (start INTEGER, name TEXT);
CREATE TABLE NVTX_EVENTS (
    start      INTEGER NOT NULL,
    text       TEXT,
    globalTid  INTEGER,
    textId     INTEGER,  -- REFERENCES StringIds(id) -- Registered NVTX domain
    jsonText   TEXT,
    jsonTextId INTEGER   -- REFERENCES StringIds(id) -- One of possible payload value union members.
);
INSERT INTO StringIds VALUES
    (1, 'add2'), (2, 'void add2(float*)'), (3, 'cudaLaunchKernel'), (4, 'launch'), (5, 'a string'),
    (1234567, 'named by a number that is a thread');
INSERT INTO META_DATA_EXPORT VALUES
    ('EXPORT_PRODUCT_VERSION', '2025.3'), ('EXPORT_SCHEMA_VERSION_MAJOR', '3');
INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'NVIDIA H200', 'GPU-1', 1980000000);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
    (10, 20, 7, 281, 2, 1, 5, 64, 0.5, '/src', x'00', 'x'),
    (30, 40, 7, 281, 2, 1, 5, 64, 0.75, '/src', x'00', 'x');
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 9, 1234567, 3, 3);
INSERT INTO CUPTI_ACTIVITY_KIND_OLDER VALUES (50, 'a name as text');
INSERT INTO NVTX_EVENTS VALUES
    (1, 'cudabench', 1234567, NULL, NULL, NULL), (2, NULL, 1234567, 4, NULL, 5);
"""


def made(path: Path, change: str = "") -> Path:
    """Make up an export, and change it."""
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(SCHEMA + change)
    return path


def test_what_comes_through_is_what_was_recorded_and_no_more(tmp_path: Path) -> None:
    export, copy = made(tmp_path / "export.sqlite"), tmp_path / "copy.sqlite"
    scrub(export, copy)
    kept = {
        "StringIds": ["id", "value"],
        "META_DATA_EXPORT": ["name", "value"],
        "TARGET_INFO_GPU": ["id", "name", "clockRate"],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            *("start", "end", "streamId", "globalPid", "demangledName", "shortName", "pathId"),
            *("gridX", "occupancy"),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": ["start", "end", "globalTid", "correlationId", "nameId"],
        "CUPTI_ACTIVITY_KIND_OLDER": ["start", "name"],
        "NVTX_EVENTS": ["start", "text", "globalTid", "textId", "jsonTextId"],
    }
    assert tables(copy) == kept
    for table, columns in kept.items():
        query = 'SELECT "{}" FROM {}'.format('", "'.join(columns), table)
        if table == "StringIds":
            query += " WHERE id < 5"
        assert rows(copy, query) == rows(export, query) != []
    assert rows(copy, "SELECT id FROM StringIds") == [(1,), (2,), (3,), (4,)]


def test_a_made_up_copy_reads_as_its_export_does(tmp_path: Path) -> None:
    export, copy = made(tmp_path / "export.sqlite"), tmp_path / "copy.sqlite"
    scrub(export, copy)
    before, after = read_nsys(export), read_nsys(copy)
    assert (after.source, after.device) == (before.source, before.device)
    assert list(after.work["name"]) == ["add2", "add2"]
    assert_frame_equal(after.work, before.work)
    assert_frame_equal(after.calls, before.calls)


HIDING_PLACES = {
    "an unused string": "INSERT INTO StringIds VALUES (99, 'SECRET')",
    "the environment": "INSERT INTO StringIds VALUES (99, 'TOKEN=SECRET');"
    "INSERT INTO ProcessStreams VALUES (1, 99)",
    "a string that is no name": "INSERT INTO StringIds VALUES (99, 'SECRET');"
    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET pathId = 99",
    "a payload": "INSERT INTO StringIds VALUES (99, 'SECRET');"
    "UPDATE NVTX_EVENTS SET jsonTextId = 99",
    "a number that is a string's, too": "INSERT INTO StringIds VALUES (64, 'SECRET')",
    "a process": "INSERT INTO PROCESSES VALUES (1, 2, 'SECRET')",
    "a text": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET source = '/home/SECRET'",
    "bytes": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET image = CAST('SECRET' AS BLOB)",
    "a column of no type": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET undeclared = 'SECRET'",
    "a text for a number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'SECRET'",
    "bytes for a number": "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = CAST('SECRET' AS BLOB)",
    "a text for a string's number": "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 'SECRET'",
    "a later column": "ALTER TABLE NVTX_EVENTS ADD COLUMN later TEXT DEFAULT 'SECRET'",
    "a later number": "ALTER TABLE NVTX_EVENTS ADD COLUMN later INTEGER DEFAULT 'SECRET'",
    "a later table": "CREATE TABLE LATER (name TEXT); INSERT INTO LATER VALUES ('SECRET')",
    "a later activity": "CREATE TABLE CUPTI_ACTIVITY_KIND_LATER (start INTEGER, file TEXT);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_LATER VALUES (1, 'SECRET')",
    "the GPU's number": "UPDATE TARGET_INFO_GPU SET uuid = 'SECRET'",
    "a text for the GPU's clock": "UPDATE TARGET_INFO_GPU SET clockRate = 'SECRET'",
    "who exported": "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_COMMAND_LINE', 'SECRET')",
    "a comment": "CREATE TABLE CUPTI_ACTIVITY_KIND_LATER (start INTEGER -- SECRET\n)",
    "a view": "CREATE VIEW CUPTI_ACTIVITY_KIND_VIEW AS SELECT 'SECRET' AS name",
    "what was deleted": "PRAGMA secure_delete = OFF;"
    "INSERT INTO CUPTI_ACTIVITY_KIND_OLDER VALUES (1, 'SECRET');"
    "DELETE FROM CUPTI_ACTIVITY_KIND_OLDER WHERE start = 1",
}


@pytest.mark.parametrize("change", HIDING_PLACES.values(), ids=HIDING_PLACES)
def test_a_secret_comes_through_from_nowhere(tmp_path: Path, change: str) -> None:
    secret = secrets.token_hex(16)
    export = made(tmp_path / "export.sqlite", change.replace("SECRET", secret))
    scrub(export, tmp_path / "copy.sqlite")
    assert secret.encode() in export.read_bytes()
    assert secret.encode() not in (tmp_path / "copy.sqlite").read_bytes()


def test_a_text_among_numbers_takes_no_other_number_with_it(tmp_path: Path) -> None:
    change = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'text' WHERE start = 10"
    scrub(made(tmp_path / "export.sqlite", change), tmp_path / "copy.sqlite")
    query = "SELECT start, end, streamId, gridX, occupancy FROM CUPTI_ACTIVITY_KIND_KERNEL"
    assert rows(tmp_path / "copy.sqlite", query) == [(10, 20, 7, None, 0.5), (30, 40, 7, 64, 0.75)]


@pytest.mark.parametrize(
    "path",
    ["export.sqlite", "./export.sqlite", "link.sqlite", "hard.sqlite", "sub/../export.sqlite"],
)
def test_an_export_is_not_replaced_by_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    export = made(tmp_path / "export.sqlite")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.sqlite").symlink_to(export)
    (tmp_path / "hard.sqlite").hardlink_to(export)
    before = export.read_bytes()
    with pytest.raises(ProfilerError, match="would be replaced by its own copy"):
        scrub(export, Path(path))
    assert export.read_bytes() == before


def test_an_older_copy_is_replaced_and_the_export_stays(tmp_path: Path) -> None:
    export = made(tmp_path / "what? #1 100%.sqlite")
    before = export.read_bytes()
    copy = written(tmp_path / "copy.sqlite", b"old")
    (tmp_path / "opened by another").hardlink_to(copy)
    scrub(export, copy)
    assert "NVTX_EVENTS" in tables(copy)
    assert (tmp_path / "opened by another").read_bytes() == b"old"
    assert export.read_bytes() == before
    assert set(files(tmp_path)) == {export.name, copy.name, "opened by another"}


def no_file(path: Path) -> None:
    del path


def a_folder(path: Path) -> None:
    path.mkdir()


def an_empty_file(path: Path) -> None:
    path.touch()


def a_text(path: Path) -> None:
    path.write_text("This is no database.\n" * 99)


def another_programs(path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE cookies (value TEXT)")


def a_truncated_export(path: Path) -> None:
    made(path, "INSERT INTO CUPTI_ACTIVITY_KIND_OLDER VALUES (1, hex(randomblob(99999)))")
    path.write_bytes(path.read_bytes()[:-50_000])


@pytest.mark.parametrize(
    "make", [no_file, a_folder, an_empty_file, a_text, another_programs, a_truncated_export]
)
def test_what_is_no_export_is_refused_and_an_older_copy_stays(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    export = tmp_path / "export.sqlite"
    make(export)
    written(tmp_path / "copy.sqlite", b"old")
    before = files(tmp_path)
    with pytest.raises(ProfilerError, match=rf"{export} cannot be scrubbed") as raised:
        scrub(export, tmp_path / "copy.sqlite")
    assert "\n" not in str(raised.value)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("absent/copy.sqlite", "No such file or directory"),
        ("export.sqlite/copy.sqlite", "Not a directory"),
        ("folder", "Is a directory"),
    ],
)
def test_a_target_that_cannot_be_is_refused(tmp_path: Path, target: str, said: str) -> None:
    export = made(tmp_path / "export.sqlite")
    (tmp_path / "folder").mkdir()
    before = files(tmp_path)
    with pytest.raises(ProfilerError, match=said) as raised:
        scrub(export, tmp_path / target)
    assert str(raised.value).startswith(f"{export} cannot be scrubbed into {tmp_path / target}: ")
    assert files(tmp_path) == before


def test_in_a_folder_that_cannot_be_written_in_the_older_copy_stays() -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        export = made(Path(name) / "export.sqlite")
        copy = written(Path(name) / "locked" / "copy.sqlite", b"old")
        copy.parent.chmod(0o555)
        with bound_by_modes(), pytest.raises(ProfilerError, match="Permission denied"):
            scrub(export, copy)
        assert files(copy.parent) == {"copy.sqlite": b"old"}
        copy.parent.chmod(0o755)


def test_on_a_full_disk_the_older_copy_stays(tmp_path: Path, small_disk: Mount) -> None:
    more = "INSERT INTO CUPTI_ACTIVITY_KIND_OLDER VALUES (1, hex(randomblob(99999)))"
    export, disk = made(tmp_path / "export.sqlite", more), small_disk(64)
    written(disk / "copy.sqlite", b"old")
    with pytest.raises(ProfilerError, match="database or disk is full"):
        scrub(export, disk / "copy.sqlite")
    assert files(disk) == {"copy.sqlite": b"old"}
