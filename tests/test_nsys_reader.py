"""Synthetic exports in the shapes that nsys writes, and what is read of them."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from cudabench.errors import ProfilerError
from cudabench.profiling.nsys_reader import read_nsys
from tests.traces import columns

KERNEL, MEMCPY, MEMSET, RUNTIME, DRIVER = (
    f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "DRIVER")
)
PUSH_POP, START_END, MARK, DOMAIN_MADE = 59, 60, 34, 75
OURS, OTHERS = 4, 5  # numbers of domains
PROCESS, CHILD = 1234, 1235
THREAD = PROCESS << 24 | 1
DEMANGLED = "void add2<float>(const float *, const float *, float *, long)"
STRINGS = {1: "add2", 2: DEMANGLED, 3: "cudaLaunchKernel_v7000", 4: "cuLaunchKernel"}

# Of a table: the columns, as SQL would list them, and the rows.
Tables = Mapping[str, tuple[str, Sequence[tuple[object, ...]]]]
Row = tuple[object, ...]

NVTX = "start, end, eventType, text, globalTid, textId, domainId"
DOMAIN = (10, None, DOMAIN_MADE, "cudabench", THREAD, None, OURS)


def export(file: Path, tables: Tables, strings: Mapping[int, str] = STRINGS) -> Path:
    """Write an export of these tables, and of StringIds."""
    every = {"StringIds": ("id, value", list(strings.items())), **tables}
    with closing(sqlite3.connect(file)) as database, database:
        for name, (listed, rows) in every.items():
            names = listed.split(", ")
            database.execute(f"CREATE TABLE {name} ({', '.join(map(quoted, names))})")
            marks = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return file


def quoted(name: str) -> str:
    return f'"{name}"'


def pushed(
    start: int, end: int | None, text: str, domain: int = OURS, process: int = PROCESS
) -> Row:
    return (start, end, PUSH_POP, text, process << 24 | 1, None, domain)


def ranges_of(tmp_path: Path, rows: Iterable[Row], listed: str = NVTX) -> list[Row]:
    file = export(tmp_path / "a.sqlite", {"NVTX_EVENTS": (listed, list(rows))}, {9: "cudabench"})
    return columns(read_nsys(file).ranges, "start", "end", "text")


RELEASES: dict[str, Tables] = {
    "2022": {
        "META_DATA_EXPORT": (
            "name, value",
            [
                ("EXPORT_SCHEMA_VERSION", "2.13.1"),
                ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
                ("EXPORT_PRODUCT_VERSION", "2022.4.2.1"),
            ],
        ),
        "TARGET_INFO_GPU": ("vmId, id, name, busLocation", [(1, 0, "NVIDIA H200", "0000:0f")]),
        "NVTX_EVENTS": (NVTX, [DOMAIN, pushed(50, 400, "iteration")]),
        RUNTIME: (
            "start, end, eventClass, globalTid, correlationId, nameId, returnValue, callchainId",
            [(100, 200, 0, THREAD, 7, 3, 0, None)],
        ),
        KERNEL: (
            "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName,"
            " shortName, mangledName, launchType",
            [(210, 300, 0, 1, 13, 7, PROCESS << 24, 2, 1, None, 1)],
        ),
    },
    "2026": {
        "EXPORT_META_DATA": (
            "name, value",
            [
                ("EXPORT_PRODUCT_VERSION", "2026.1.0"),
                ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
            ],
        ),
        "TARGET_INFO_GPU": ("name, id, uuid", [("NVIDIA H200", 0, b"\x00\xff")]),
        "NVTX_EVENTS": (
            "domainId, textId, start, eventType, end, globalTid, binaryData",
            [
                (OURS, 9, 10, DOMAIN_MADE, None, THREAD, None),
                (OURS, 8, 50, PUSH_POP, 400, THREAD, None),
            ],
        ),
        RUNTIME: (
            "nameId, correlationId, end, start, globalTid",
            [(3, 7, 200, 100, THREAD)],
        ),
        KERNEL: (
            "shortName, greenContextId, correlationId, streamId, deviceId, end, start, newColumn",
            [(1, None, 7, 13, 0, 300, 210, "text")],
        ),
    },
}


@pytest.mark.parametrize("release", RELEASES)
def test_releases_that_tell_the_same_differently_are_read_alike(
    tmp_path: Path, release: str
) -> None:
    strings = {**STRINGS, 8: "iteration", 9: "cudabench"}
    read = read_nsys(export(tmp_path / "a.sqlite", RELEASES[release], strings))
    version = {"2022": "2022.4.2.1", "2026": "2026.1.0"}[release]
    assert (read.source, read.device) == (f"Nsight Systems {version}", "NVIDIA H200")
    assert columns(read.ranges, "start", "end", "text") == [(50, 400, "iteration")]
    assert columns(read.calls, "start", "end", "name", "correlation") == [
        (100, 200, "cudaLaunchKernel_v7000", 7)
    ]
    assert columns(
        read.work, "start", "end", "name", "kind", "correlation", "device", "stream"
    ) == [(210, 300, "add2", "kernel", 7, 0, 13)]


def test_the_columns_have_the_promised_types(tmp_path: Path) -> None:
    for release in ("2022", "2026", "empty"):
        tables = RELEASES.get(release, {})
        read = read_nsys(export(tmp_path / f"{release}.sqlite", tables))
        for table in (read.ranges, read.calls, read.work):
            for name, dtype in table.dtypes.items():
                expected = "category" if name in ("name", "kind") else "int64"
                assert name == "text" or str(dtype) == expected, (release, name)


@pytest.mark.parametrize(
    ("text", "text_id"), [("launch", None), (None, 8), ("launch", 7), ("launch", 8)]
)
def test_a_ranges_text_is_inline_or_in_string_ids(
    tmp_path: Path, text: str | None, text_id: int | None
) -> None:
    rows = [DOMAIN, (20, 30, PUSH_POP, text, THREAD, text_id, OURS)]
    file = export(tmp_path / "a.sqlite", {"NVTX_EVENTS": (NVTX, rows)}, {7: "other", 8: "launch"})
    assert read_nsys(file).ranges["text"].tolist() == ["launch"]


def test_texts_may_be_of_both_kinds_in_one_table(tmp_path: Path) -> None:
    rows = [
        (10, None, DOMAIN_MADE, None, THREAD, 9, OURS),
        (20, 30, PUSH_POP, "launch", THREAD, None, OURS),
        (40, 50, PUSH_POP, None, THREAD, 9, OURS),
    ]
    assert ranges_of(tmp_path, rows) == [(20, 30, "launch"), (40, 50, "cudabench")]


@pytest.mark.parametrize("listed", [NVTX, NVTX.replace(", textId", "")])
def test_the_column_of_text_ids_may_be_absent(tmp_path: Path, listed: str) -> None:
    rows = [DOMAIN, pushed(20, 30, "launch")]
    kept = [row if "textId" in listed else (*row[:5], row[6]) for row in rows]
    assert ranges_of(tmp_path, kept, listed) == [(20, 30, "launch")]


def test_a_range_whose_text_is_nowhere_is_read_without_one(tmp_path: Path) -> None:
    rows = [DOMAIN, (20, 30, PUSH_POP, None, THREAD, 404, OURS)]
    assert ranges_of(tmp_path, rows) == [(20, 30, "")]


def test_only_pushed_ranges_of_our_domain_in_its_process_are_ours(tmp_path: Path) -> None:
    rows = [
        pushed(20, 30, "before the domain's own row", OURS),
        DOMAIN,
        pushed(40, 90, "launch", OURS),
        pushed(50, 60, "of another domain", OTHERS),
        pushed(50, 60, "of no domain", 0),
        pushed(50, 60, "of another process", OURS, CHILD),
        (50, None, MARK, "a mark", THREAD, None, OURS),
        (50, 60, START_END, "started and ended", THREAD, None, OURS),
        (50, 60, PUSH_POP, "another thread's", PROCESS << 24 | 2, None, OURS),
        (12, None, DOMAIN_MADE, "others", THREAD, None, OTHERS),
        (13, None, DOMAIN_MADE, "others", CHILD << 24 | 1, None, OURS),
    ]
    assert [text for _, _, text in ranges_of(tmp_path, rows)] == [
        "before the domain's own row",
        "launch",
        "another thread's",
    ]


def test_a_domain_may_be_made_in_several_processes_under_several_numbers(tmp_path: Path) -> None:
    rows = [
        DOMAIN,
        (11, None, DOMAIN_MADE, "cudabench", CHILD << 24 | 9, None, OTHERS),
        pushed(20, 30, "the parent's"),
        pushed(40, 50, "the child's", OTHERS, CHILD),
        pushed(60, 70, "the parent's of others", OTHERS),
        pushed(80, 90, "the child's of others", OURS, CHILD),
    ]
    assert [text for _, _, text in ranges_of(tmp_path, rows)] == ["the parent's", "the child's"]


def test_a_thread_whose_number_reaches_the_sign_bit_is_known(tmp_path: Path) -> None:
    thread = (0xF0 << 56 | PROCESS << 24 | 1) - (1 << 64)
    rows = [
        (10, None, DOMAIN_MADE, "cudabench", thread, None, OURS),
        (20, 30, PUSH_POP, "launch", thread + 5, None, OURS),
    ]
    assert ranges_of(tmp_path, rows) == [(20, 30, "launch")]


def test_without_the_domains_own_row_no_range_is_ours(tmp_path: Path) -> None:
    assert ranges_of(tmp_path, [pushed(20, 30, "launch")]) == []


def test_ranges_come_by_start_and_the_outer_one_first(tmp_path: Path) -> None:
    rows = [pushed(60, 70, "c"), pushed(20, 30, "b"), pushed(20, 90, "a"), DOMAIN]
    assert [text for _, _, text in ranges_of(tmp_path, rows)] == ["a", "b", "c"]


def test_what_had_not_ended_has_no_length(tmp_path: Path) -> None:
    tables: Tables = {
        "NVTX_EVENTS": (NVTX, [DOMAIN, pushed(20, None, "iteration")]),
        RUNTIME: ("start, end, correlationId, nameId", [(30, None, 7, 3)]),
        KERNEL: ("start, end, correlationId, shortName", [(40, None, 7, 1)]),
    }
    read = read_nsys(export(tmp_path / "a.sqlite", tables))
    found = [columns(table, "start", "end") for table in (read.ranges, read.calls, read.work)]
    assert found == [[(20, 20)], [(30, 30)], [(40, 40)]]


@pytest.mark.parametrize(
    ("listed", "row", "name"),
    [
        ("shortName, demangledName", (1, 2), "add2"),
        ("demangledName, shortName", (2, 1), "add2"),
        ("demangledName, mangledName", (2, 1), DEMANGLED),
        ("nameId", (1,), "add2"),
        ("name", ("加算<int>",), "加算<int>"),
        ("shortName", ("add2",), "add2"),
        ("shortName", (404,), "404"),
        ("shortName", (None,), ""),
        ("gridX", (128,), ""),
    ],
)
def test_a_kernels_name_is_a_text_or_the_number_of_one(
    tmp_path: Path, listed: str, row: Row, name: str
) -> None:
    tables: Tables = {KERNEL: (f"start, end, {listed}", [(10, 20, *row)])}
    read = read_nsys(export(tmp_path / "a.sqlite", tables))
    assert read.work["name"].tolist() == [name]


def test_names_may_be_of_both_kinds_in_one_table(tmp_path: Path) -> None:
    rows = [(10, 20, 1), (30, 40, "add2"), (50, 60, "mul"), (70, 80, 1), (90, 99, 404)]
    read = read_nsys(export(tmp_path / "a.sqlite", {KERNEL: ("start, end, shortName", rows)}))
    assert read.work["name"].tolist() == ["add2", "add2", "mul", "add2", "404"]


WORKS: Tables = {
    KERNEL: ("start, end, correlationId, shortName, deviceId, streamId", [(30, 40, 8, 1, 0, 7)]),
    MEMCPY: ("start, end, correlationId, copyKind, deviceId, streamId", [(10, 20, 7, 1, 1, 14)]),
    MEMSET: ("start, end, correlationId, value, deviceId, streamId", [(20, 25, 9, 0, 0, 7)]),
    RUNTIME: ("start, end, correlationId, nameId", [(5, 9, 7, 3)]),
    DRIVER: ("start, end, correlationId, nameId", [(2, 4, 8, 4)]),
    "NVTX_EVENTS": (NVTX, [DOMAIN, pushed(1, 50, "iteration")]),
}


def test_works_and_calls_of_all_kinds_come_in_the_order_of_their_starts(tmp_path: Path) -> None:
    read = read_nsys(export(tmp_path / "a.sqlite", WORKS))
    assert columns(read.work, "start", "name", "kind", "correlation", "device", "stream") == [
        (10, "memcpy", "memcpy", 7, 1, 14),
        (20, "memset", "memset", 9, 0, 7),
        (30, "add2", "kernel", 8, 0, 7),
    ]
    assert columns(read.calls, "start", "end", "name", "correlation") == [
        (2, 4, "cuLaunchKernel", 8),
        (5, 9, "cudaLaunchKernel_v7000", 7),
    ]


@pytest.mark.parametrize("absent", WORKS)
def test_a_table_may_be_absent(tmp_path: Path, absent: str) -> None:
    tables: Tables = {name: table for name, table in WORKS.items() if name != absent}
    read = read_nsys(export(tmp_path / "a.sqlite", tables))
    kinds = [kind for kind in ("memcpy", "memset", "kernel") if not absent.endswith(kind.upper())]
    assert read.work["kind"].tolist() == kinds
    calls = {RUNTIME: [8], DRIVER: [7]}.get(absent, [8, 7])
    assert read.calls["correlation"].tolist() == calls
    assert len(read.ranges) == (absent != "NVTX_EVENTS")


def test_an_export_of_nothing_is_an_empty_trace(tmp_path: Path) -> None:
    read = read_nsys(export(tmp_path / "a.sqlite", {}, {}))
    assert (read.source, read.device) == ("Nsight Systems", "")
    assert list(read.ranges.columns) == ["start", "end", "text"]
    assert set(read.calls.columns) == {"start", "end", "name", "correlation"}
    assert set(read.work.columns) == {*read.calls.columns, "kind", "device", "stream"}
    assert read.ranges.empty
    assert read.calls.empty
    assert read.work.empty


def test_numbers_that_are_absent_are_minus_one(tmp_path: Path) -> None:
    tables: Tables = {
        KERNEL: ("start, end, shortName, correlationId", [(10, 20, 1, None), (30, 40, 1, 7)]),
        RUNTIME: ("start, end, nameId", [(1, 2, 3)]),
    }
    read = read_nsys(export(tmp_path / "a.sqlite", tables))
    numbers = columns(read.work, "correlation", "device", "stream")
    assert numbers == [(-1, -1, -1), (7, -1, -1)]
    assert read.calls["correlation"].tolist() == [-1]


def test_times_of_any_size_are_exact(tmp_path: Path) -> None:
    start = 2**62 + 1
    tables: Tables = {KERNEL: ("start, end, shortName", [(start, start + 2, 1)])}
    read = read_nsys(export(tmp_path / "a.sqlite", tables))
    assert columns(read.work, "start", "end") == [(start, start + 2)]


@pytest.mark.parametrize(
    ("rows", "source"),
    [
        ([], "Nsight Systems"),
        ([("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems")], "Nsight Systems"),
        (
            [("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"), ("EXPORT_PRODUCT_VERSION", None)],
            "Nsight Systems",
        ),
    ],
)
def test_what_made_it_is_told_as_far_as_it_says(
    tmp_path: Path, rows: list[Row], source: str
) -> None:
    read = read_nsys(export(tmp_path / "a.sqlite", {"META_DATA_EXPORT": ("name, value", rows)}))
    assert read.source == source


@pytest.mark.parametrize(
    ("listed", "rows", "device"),
    [
        ("id, name", [], ""),
        ("id", [(0,)], ""),
        ("id, name", [(0, None)], ""),
        ("id, name", [(0, "H200"), (1, "A100")], "H200"),
    ],
)
def test_the_device_is_the_first_gpu_that_has_a_name(
    tmp_path: Path, listed: str, rows: list[Row], device: str
) -> None:
    read = read_nsys(export(tmp_path / "a.sqlite", {"TARGET_INFO_GPU": (listed, rows)}))
    assert read.device == device


def test_tables_become_one_by_their_starts(tmp_path: Path) -> None:
    kernels = [(10 * i, 10 * i + i % 7, i % 5, 1 + i % 2, i % 3, 7 + i % 2) for i in range(1000)]
    copies = [(10 * i + 5, 10 * i + 6, i, 1, 0, 7) for i in range(0, 1000, 9)]
    tables: Tables = {KERNEL: (WORKS[KERNEL][0], kernels), MEMCPY: (WORKS[MEMCPY][0], copies)}
    file = export(tmp_path / "a.sqlite", tables)
    whole = read_nsys(file)
    assert len(whole.work) == 1000 + 112
    assert whole.work["start"].is_monotonic_increasing
    assert whole.work["name"].value_counts().to_dict() == {
        "add2": 500,
        DEMANGLED: 500,
        "memcpy": 112,
    }


@pytest.mark.parametrize(
    "name", ["a b.sqlite", "a?mode=rw.sqlite", "a#b.sqlite", "100%41.sqlite", "計測é.sqlite"]
)
def test_any_name_of_a_file_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    export(tmp_path / "plain", RELEASES["2022"]).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for file in (tmp_path / name, Path(name)):
        assert len(read_nsys(file).work) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("mode", [0o755, 0o555])
def test_a_file_that_may_only_be_read_is_left_as_it_is(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = export(folder / "a.sqlite", RELEASES["2022"])
    file.chmod(0o444)
    folder.chmod(mode)
    before = contents(folder)
    assert len(read_nsys(file).work) == 1
    assert contents(folder) == before


def test_what_still_lies_in_a_log_beside_it_is_read_and_left_there(tmp_path: Path) -> None:
    file = export(tmp_path / "a.sqlite", WORKS)
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(f"INSERT INTO {KERNEL} VALUES (50, 60, 8, 1, 0, 7)")
        writer.commit()
        before = {name: data for name, data in contents(tmp_path).items() if "shm" not in name}
        assert set(before) == {"a.sqlite", "a.sqlite-wal"}
        assert read_nsys(file).work["end"].tolist() == [20, 25, 40, 60]
        after = contents(tmp_path)
        assert {name: after[name] for name in before} == before


def test_a_sqlite_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE visits (url, at)")
    with pytest.raises(ProfilerError, match="no nsys export: it has no table StringIds") as refused:
        read_nsys(file)
    assert "nsys export" in refused.value.remedy


@pytest.mark.parametrize(
    ("listed", "row"),
    [
        ("begin, finish", (1, 2)),
        ("start, shortName", (1, 1)),
        ("start, end, shortName", (None, 20, 1)),
        ("start, end, shortName", ("noon", 20, 1)),
        ("start, end, shortName", (b"\x00\xff", 20, 1)),
        ("start, end, shortName, correlationId", (1, 2, 1, "seven")),
        ("start, end, shortName", (1e300, 20, 1)),
    ],
)
def test_a_table_that_holds_something_else_is_refused(
    tmp_path: Path, listed: str, row: Row
) -> None:
    file = export(tmp_path / "a.sqlite", {KERNEL: (listed, [row])})
    with pytest.raises(ProfilerError, match=r"a\.sqlite"):
        read_nsys(file)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"NVIDIA Tegra Pro", b"\0" * 4096])
def test_what_is_no_sqlite_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.sqlite"
    file.write_bytes(content)
    with pytest.raises(ProfilerError):
        read_nsys(file)
    assert file.read_bytes() == content


def test_a_file_that_is_absent_or_a_folder_is_refused_and_none_is_made(tmp_path: Path) -> None:
    for file in (tmp_path / "absent.sqlite", tmp_path):
        with pytest.raises(ProfilerError, match="cannot be read as an nsys export"):
            read_nsys(file)
    assert list(tmp_path.iterdir()) == []


def large(tmp_path: Path) -> Path:
    kernels = [(10 * i, 10 * i + 5, i, 1, 0, 7) for i in range(5000)]
    return export(tmp_path / "whole.sqlite", {**WORKS, KERNEL: (WORKS[KERNEL][0], kernels)})


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, part: float) -> None:
    data = large(tmp_path).read_bytes()
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(ProfilerError, match=r"cut\.sqlite .*malformed"):
        read_nsys(cut)


@pytest.mark.parametrize("garbage", [b"\xff", b"\x00", b"\x0d\x00\x01\x7f"])
def test_a_file_with_an_overwritten_page_is_read_or_refused(tmp_path: Path, garbage: bytes) -> None:
    data = large(tmp_path).read_bytes()
    page, refused = 4096, 0
    for at in range(0, len(data), page):
        broken = tmp_path / "broken.sqlite"
        broken.write_bytes(data[:at] + (garbage * page)[:page] + data[at + page :])
        try:
            read_nsys(broken)
        except ProfilerError:
            refused += 1
    assert refused > 1
