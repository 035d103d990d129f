"""Reports of nsys into SQLite: by the real tools, and by scripts that fail as those have failed."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from cudabench.errors import ProfilerError
from cudabench.profiling import tools
from cudabench.profiling.convert import to_sqlite
from cudabench.profiling.nsys_reader import read_nsys
from cudabench.profiling.tools import Nsys, find_importers, find_nsys
from tests.conftest import child_environment
from tests.test_nsys_tools import script

needs_nsys = pytest.mark.skipif(shutil.which("nsys") is None, reason="needs nsys")

PROGRAM = """if True:
    import nvtx
    for _ in range(3):
        with nvtx.annotate("a step", domain="cudabench"):
            pass
"""
REPORT_BEGINS = b"NVIDIA Tegra Pro"
STREAM_BEGINS = b"U3w[END]"


def profiled(folder: Path, **env: str) -> Path:
    """Return what the real nsys leaves of a small program."""
    command = [
        *("nsys", "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none"),
        *(f"--output={folder / 'capture'}", sys.executable, "-c", PROGRAM),
    ]
    # nsys 2022.4 fails in one start of eight, before it runs the program: sem_open finds nothing.
    for _ in range(10):
        ran = subprocess.run(
            command, env=child_environment(**env), capture_output=True, check=False
        )
        if b"sem_open" not in ran.stdout + ran.stderr:
            break
    assert ran.returncode == 0, ran
    stream = folder / "capture.qdstrm"
    if not stream.exists():
        pytest.skip(f"this nsys leaves no .qdstrm: {ran.stdout!r}")
    return stream


@pytest.fixture(scope="session")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real .qdstrm."""
    content = profiled(tmp_path_factory.mktemp("capture")).read_bytes()
    assert content.startswith(STREAM_BEGINS)
    return content


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory, stream: bytes) -> bytes:
    """A real .nsys-rep."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "in.qdstrm").write_bytes(stream)
    importer = str(find_importers(None, find_nsys())[0])
    command = [importer, "-i", "in.qdstrm", "-o", "out.nsys-rep"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    content = (folder / "out.nsys-rep").read_bytes()
    assert content.startswith(REPORT_BEGINS)
    return content


@pytest.fixture
def content(request: pytest.FixtureRequest) -> bytes:
    """The stream or the report, whichever the parameter names."""
    found: bytes = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files(folder: Path) -> dict[str, bytes | None]:
    """Return the content of each file in a folder, hidden ones too."""
    return {p.name: p.read_bytes() if p.is_file() else None for p in folder.iterdir()}


def export_at(path: Path) -> Path:
    """Make a SQLite that holds the least that an export does."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        made.execute("INSERT INTO StringIds VALUES (1, 'a')")
        made.commit()
    return path


def range_names(sqlite: Path) -> set[str]:
    with closing(sqlite3.connect(sqlite)) as opened:
        query = "SELECT value FROM NVTX_EVENTS JOIN StringIds ON id = textId"
        return {value for (value,) in opened.execute(query)}


def refused(file: Path, folder: Path, nsys: Nsys | None = None, importer: str | None = None) -> str:
    """Return in which line a conversion is refused, once that has been seen to change nothing."""
    before = files(folder), file.read_bytes()
    with pytest.raises(ProfilerError) as raised:
        to_sqlite(file, nsys or find_nsys(), importer, folder, print)
    assert (files(folder), file.read_bytes()) == before
    said = str(raised.value)
    assert "\n" not in said
    assert ".cudabench-" not in said
    return said


streams_and_reports = pytest.mark.parametrize("content", ["stream", "report"], indirect=True)


@needs_nsys
@pytest.mark.parametrize(
    ("name", "content", "made"),
    [
        ("a.qdstrm", "stream", {"a.nsys-rep", "a.sqlite"}),
        ("a.nsys-rep", "report", {"a.sqlite"}),
        ("a.qdrep", "report", {"a.sqlite"}),
        ("a.nsys-rep", "stream", {"a.nsys-rep", "a.sqlite"}),
        ("a.sqlite", "stream", {"a.nsys-rep", "a.sqlite"}),
        ("a.qdstrm", "report", {"a.sqlite"}),
        ("a", "report", {"a.sqlite"}),
        ("a.b.txt", "stream", {"a.b.nsys-rep", "a.b.sqlite"}),
    ],
    indirect=["content"],
)
def test_a_file_becomes_sqlite_by_what_it_holds_whatever_its_name(
    tmp_path: Path, out: Path, name: str, content: bytes, made: set[str]
) -> None:
    file = written(tmp_path / "in" / name, content)
    sqlite = to_sqlite(file, find_nsys(), None, out, print)
    assert sqlite == out / f"{file.stem}.sqlite"
    assert range_names(sqlite) == {"a step"}
    assert set(files(out)) == made
    assert all(p.read_bytes().startswith(REPORT_BEGINS) for p in out.glob("*.nsys-rep"))
    assert files(file.parent) == {name: content}


@needs_nsys
@streams_and_reports
@pytest.mark.parametrize("name", ["a.sqlite", "a.nsys-rep"])
def test_a_file_is_not_replaced_by_what_is_made_of_it(
    tmp_path: Path, content: bytes, name: str
) -> None:
    file = written(tmp_path / name, content)
    sqlite = to_sqlite(file, find_nsys(), None, tmp_path, print)
    assert file.read_bytes() == content
    assert range_names(sqlite) == {"a step"}


@needs_nsys
@streams_and_reports
@pytest.mark.parametrize(
    "name",
    [
        "with spaces",
        'it\'s "quoted" $HOME `id`;',
        "äöü-π-漢字",
        "percent %20 ? & #",
        "-o",
        "a\\b",
    ],
)
def test_any_name_of_file_and_folder_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, name: str
) -> None:
    folder = tmp_path / name
    file = written(folder / f"{name}.x", content)
    monkeypatch.chdir(tmp_path)
    sqlite = to_sqlite(file.relative_to(tmp_path), find_nsys(), None, Path(name), print)
    assert sqlite == Path(name) / f"{name}.sqlite"
    assert range_names(sqlite) == {"a step"}
    assert file.read_bytes() == content


@needs_nsys
def test_each_step_that_takes_long_is_told_before(
    tmp_path: Path, out: Path, stream: bytes, report: bytes
) -> None:
    told: list[str] = []
    to_sqlite(written(tmp_path / "a.qdstrm", stream), find_nsys(), None, out, told.append)
    to_sqlite(written(tmp_path / "a.nsys-rep", report), find_nsys(), None, out, told.append)
    (importer, *_) = find_importers(None, find_nsys())
    assert told == [f"importing a.qdstrm with {importer}", "exporting a.nsys-rep"]


@needs_nsys
@streams_and_reports
def test_what_an_earlier_run_left_is_replaced(tmp_path: Path, out: Path, content: bytes) -> None:
    written(out / "a.sqlite", b"old")
    written(out / "a.nsys-rep", b"old")
    to_sqlite(written(tmp_path / "a.x", content), find_nsys(), None, out, print)
    assert range_names(out / "a.sqlite") == {"a step"}
    kept = content.startswith(REPORT_BEGINS)
    assert ((out / "a.nsys-rep").read_bytes() == b"old") == kept


@needs_nsys
@streams_and_reports
@pytest.mark.parametrize("part", [0.0001, 0.01, 0.5, 0.9, 0.99, 0.99999])
def test_a_truncated_file_is_refused_and_what_was_there_stays(
    tmp_path: Path, out: Path, content: bytes, part: float
) -> None:
    written(out / "a.sqlite", b"old")
    length = int(len(content) * part)
    assert 16 < length < len(content) or part == 0.0001
    suffix = ".qdstrm" if content.startswith(STREAM_BEGINS) else ".nsys-rep"
    said = refused(written(tmp_path / f"a{suffix}", content[:length]), out)
    assert "the file is truncated, damaged or none of nsys's" in said


@needs_nsys
@pytest.mark.parametrize("suffix", [".qdstrm", ".nsys-rep", ".qdrep"])
@pytest.mark.parametrize("text", [b"x", b"This is no report.\n" * 99, bytes(999)])
def test_another_file_under_a_suffix_of_nsys_is_refused_by_the_tools(
    tmp_path: Path, out: Path, suffix: str, text: bytes
) -> None:
    said = refused(written(tmp_path / f"a{suffix}", text), out)
    assert "the file is truncated, damaged or none of nsys's" in said


@needs_nsys
def test_a_stream_of_another_version_is_refused_by_the_importer(
    tmp_path: Path, out: Path, stream: bytes
) -> None:
    other = stream.replace(b"Stream 2022.4.2", b"Stream 2021.4.2", 1)
    assert other != stream
    said = refused(written(tmp_path / "a.qdstrm", other), out)
    assert "an nsys of another version wrote it: use that one's importer" in said
    assert "QdstrmImporter -i" in said


@needs_nsys
def test_an_empty_report_of_an_importer_is_refused(
    tmp_path: Path, out: Path, stream: bytes
) -> None:
    importer = script(tmp_path / "importer", ': >"$4"')
    said = refused(written(tmp_path / "a.qdstrm", stream), out, importer=str(importer))
    assert f"cannot export what {importer} made: the file is truncated" in said


@pytest.mark.parametrize("name", ["a.sqlite", "a.nsys-rep", "a"])
def test_sqlite_is_returned_as_it_is(tmp_path: Path, out: Path, name: str) -> None:
    file = export_at(tmp_path / name)
    before = file.read_bytes()
    told: list[str] = []
    assert to_sqlite(file, None, None, out, told.append) == file
    assert (told, files(out), file.read_bytes()) == ([], {}, before)


def test_another_programs_sqlite_is_left_to_the_reader(tmp_path: Path, out: Path) -> None:
    file = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE cookies (value TEXT)")
    assert to_sqlite(file, None, None, out, print) == file
    with pytest.raises(ProfilerError, match="no nsys export"):
        read_nsys(file)


@pytest.mark.parametrize("content", [STREAM_BEGINS + bytes(99), REPORT_BEGINS + bytes(99)])
def test_without_nsys_nothing_but_sqlite_is_taken(
    tmp_path: Path, out: Path, content: bytes
) -> None:
    with pytest.raises(ProfilerError, match=r"a\.sqlite is not SQLite"):
        to_sqlite(written(tmp_path / "a.sqlite", content), None, None, out, print)
    assert not files(out)


NO_NSYS = Nsys(Path("/no/nsys"), (2022, 4, 2))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.qdstrm", b"", "a.qdstrm is empty. Give a .nsys-rep, .qdrep, .qdstrm or"),
        ("a.nsys-rep", b"", "a.nsys-rep is empty"),
        ("a.sqlite", b"", "a.sqlite is empty"),
        ("a.sqlite", b"SQLite format 2\0", "a.sqlite is no file of nsys"),
        ("a.txt", b"some text\n", "a.txt is no file of nsys"),
        ("a", STREAM_BEGINS[:-1], "a is no file of nsys"),
        ("a", REPORT_BEGINS[:-1], "a is no file of nsys"),
    ],
)
def test_what_is_no_file_of_nsys_is_refused_before_any_tool_runs(
    tmp_path: Path, out: Path, name: str, content: bytes, said: str
) -> None:
    assert said in refused(written(tmp_path / name, content), out, NO_NSYS)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def unreadable(path: Path) -> None:
    written(path, STREAM_BEGINS).chmod(0)


def nothing(path: Path) -> None:
    del path


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Give up root's right to read and write everything, where we have it."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (a_folder, "a.qdstrm is a folder. Give a file that nsys wrote"),
        (a_pipe, "a.qdstrm is no regular file"),
        (a_link_to_itself, "cannot read a.qdstrm: Too many levels of symbolic links"),
        (unreadable, "cannot read a.qdstrm: Permission denied"),
        (nothing, "cannot read a.qdstrm: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_refused_without_waiting(
    tmp_path: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], None],
    said: str,
) -> None:
    make(tmp_path / "a.qdstrm")
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with bound_by_modes(), pytest.raises(ProfilerError) as raised:
        to_sqlite(Path("a.qdstrm"), NO_NSYS, None, Path("out"), print)
    assert str(raised.value).startswith(said)
    assert not files(out)


def a_locked_folder(path: Path) -> None:
    path.mkdir(0o555)


def a_file(path: Path) -> None:
    path.touch()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (a_locked_folder, "Permission denied"),
        (a_file, "Not a directory"),
        (nothing, "No such file or directory"),
    ],
)
@pytest.mark.parametrize("content", [STREAM_BEGINS, REPORT_BEGINS])
def test_a_folder_that_cannot_be_written_in_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], None],
    said: str,
    content: bytes,
) -> None:
    written(tmp_path / "a", content).chmod(0o644)
    make(tmp_path / "there")
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with bound_by_modes(), pytest.raises(ProfilerError) as raised:
        to_sqlite(Path("a"), NO_NSYS, None, Path("there"), print)
    assert str(raised.value) == f"cannot write in there: {said}. Choose another folder"


class Scripts:
    """An importer and an nsys that are scripts, and convert by copying."""

    IMPORTS = '[ ! -e "$4" ] && cp "$2" "$4"'
    EXPORTS = 'cp "$0.export" "${4#--output=}"'

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nsys = Nsys(script(folder / "bin" / "nsys", self.EXPORTS), (2022, 4, 2))
        self.export = export_at(folder / "bin" / "nsys.export").read_bytes()
        self.stream = written(folder / "a.qdstrm", STREAM_BEGINS + b"content")
        self.report = written(folder / "a.nsys-rep", REPORT_BEGINS + b"content")

    def exporting(self, text: str) -> Nsys:
        script(self.nsys.path, text)
        return self.nsys

    def importer(self, text: str, folder: str = "bin") -> Path:
        return script(self.folder / folder / "QdstrmImporter", text)


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripts:
    """Scripts; no importer but theirs is found."""
    folder = tmp_path / "on-path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.defpath}")
    monkeypatch.setattr(tools, "_IMPORTER_FOLDERS", ())
    return Scripts(tmp_path)


THROWN = (
    "Import Failed with unexpected exception: /build/FileStream.cpp(281): Throw in function void"
    " QuadDCommon::FileStream::openFile(bool, bool, bool)\n"
    "Dynamic exception type: boost::wrapexcept<QuadDCommon::CreateFileException>\n"
    "std::exception::what: CreateFileException\n"
    '[QuadDCommon::tag_report_file_name*] = "r.nsys-rep"\n'
    '[boost::errinfo_errno_*] = 13, "Permission denied"\n'
)
LIBRARY = "error while loading shared libraries: {}: cannot open shared object file: No such file"
ANOTHER_VERSION = (
    "Qdstrm version 2021.4.2.1-df9881f is not supported. The QdstrmImporter and qdstrm file"
    " versions must match to import successfully."
)


def says(text: str, code: int) -> str:
    return f"cat <<'END'\n{text}\nEND\nexit {code}"


BOTH = {
    "no libdw": (says(LIBRARY.format("libdw.so.1"), 127), "libdw.so.1 is missing: install libdw1"),
    "no libelf": (says(LIBRARY.format("libelf.so.1"), 127), "missing: install libelf1"),
    "no Qt": (
        says(LIBRARY.format("/opt/libQt6Core.so.6"), 127),
        "the library libQt6Core.so.6 is missing: install the package that has libQt6Core.so.6",
    ),
    "killed": ("kill -KILL $$", "it was ended by signal 9"),
    "silent": ("exit 7", "exit code 7, and it said nothing"),
    "no output": ("exit 0", "exit code 0, and it said nothing"),
    "only progress": ("printf 'Processing [==7%% ]\\rProcessing [==8%% ]'; exit 1", "exit code 1"),
    "thrown": (says(THROWN, 1), "Permission denied"),
    "thrown, exit 0": (says(THROWN, 0), "Permission denied"),
    "full": (says("Could not write: No space left on device", 1), "the disk is full: make room"),
    "another version": (says(ANOTHER_VERSION, 1), "an nsys of another version wrote it"),
    "newer": (says("std::exception::what: Version not supported", 1), "a newer nsys wrote it"),
    "a last line": (says("one\n\ntwo.\n", 1), ": two"),
    "not UTF-8": ("printf 'd\\351j\\340'; exit 1", "d\ufffdj\ufffd"),
}
# Of nsys alone; the rest it leaves to its export to show.
EXPORTED = {
    "an empty file": (': >"${4#--output=}"', "exit code 0"),
    "no SQLite": ('echo text >"${4#--output=}"', "exit code 0"),
    "thrown over a good file": (f"{Scripts.EXPORTS}\n{says(THROWN, 0)}", "Permission denied"),
    "failed over a good file": (f"{Scripts.EXPORTS}\nexit 3", "exit code 3"),
}


@pytest.mark.parametrize(("text", "said"), BOTH.values(), ids=BOTH)
def test_an_importer_that_fails_says_why_in_a_line(
    scripts: Scripts, out: Path, text: str, said: str
) -> None:
    importer = scripts.importer(text)
    line = refused(scripts.stream, out, scripts.nsys)
    assert line.startswith(f"{scripts.stream} could not be converted, and is kept as it is: ")
    assert f"{importer} failed: " in line
    assert said in line
    assert f"By hand: QdstrmImporter -i {scripts.stream}" in line


@pytest.mark.parametrize(
    ("text", "said"), [*BOTH.values(), *EXPORTED.values()], ids=[*BOTH, *EXPORTED]
)
def test_an_nsys_that_fails_says_why_in_a_line(
    scripts: Scripts, out: Path, text: str, said: str
) -> None:
    line = refused(scripts.report, out, scripts.exporting(text))
    assert line.startswith(f"Nsight Systems 2022.4.2 cannot export {scripts.report}: ")
    assert said in line


def test_tools_that_work_leave_what_they_made(scripts: Scripts, out: Path) -> None:
    scripts.importer(scripts.IMPORTS)
    assert to_sqlite(scripts.stream, scripts.nsys, None, out, print) == out / "a.sqlite"
    stream = scripts.stream.read_bytes()
    assert files(out) == {"a.sqlite": scripts.export, "a.nsys-rep": stream}


def test_a_failed_importer_spoils_nothing_for_the_next(scripts: Scripts, out: Path) -> None:
    first = scripts.importer('echo junk >>"$2"; echo junk >"$4"; exit 1', "on-path")
    second = scripts.importer(scripts.IMPORTS)
    stream = scripts.stream.read_bytes()
    told: list[str] = []
    to_sqlite(scripts.stream, scripts.nsys, None, out, told.append)
    assert told == [f"importing a.qdstrm with {each}" for each in (first, second)]
    assert files(out) == {"a.sqlite": scripts.export, "a.nsys-rep": stream}
    assert scripts.stream.read_bytes() == stream


def test_an_importer_whose_report_cannot_be_exported_is_followed_by_the_next(
    scripts: Scripts, out: Path
) -> None:
    scripts.importer('echo bad >"$4"', "on-path")
    scripts.importer(scripts.IMPORTS)
    nsys = scripts.exporting(f'grep -q bad "$5" && exit 1\n{scripts.EXPORTS}')
    to_sqlite(scripts.stream, nsys, None, out, print)
    assert (out / "a.nsys-rep").read_bytes() == scripts.stream.read_bytes()


def test_when_every_importer_fails_each_is_named_with_its_reason(
    scripts: Scripts, out: Path
) -> None:
    first = scripts.importer("kill -TERM $$", "on-path")
    second = scripts.importer(says(ANOTHER_VERSION, 1))
    line = refused(scripts.stream, out, scripts.nsys)
    assert f"{first} failed: it was ended by signal 15; {second} failed: an nsys of" in line


def test_the_importer_named_is_the_only_one_tried(scripts: Scripts, out: Path) -> None:
    scripts.importer(scripts.IMPORTS)
    named = script(scripts.folder / "named", "exit 5")
    line = refused(scripts.stream, out, scripts.nsys, str(named))
    assert f"{named} failed: exit code 5, and it said nothing. By hand" in line
    absent = scripts.folder / "absent"
    line = refused(scripts.stream, out, scripts.nsys, str(absent))
    assert f"{absent} does not run: No such file or directory" in line


def test_without_any_importer_the_file_is_kept_and_the_way_told(
    scripts: Scripts, out: Path
) -> None:
    stream = scripts.stream.rename(scripts.folder / "it's.qdstrm")
    line = refused(stream, out, scripts.nsys)
    assert "no QdstrmImporter was found: it is in Nsight Systems' host folder" in line
    assert "name another with --importer" in line
    by_hand = line.partition("By hand: ")[2].partition(", or name")[0]
    said = subprocess.run(f"printf %s, {by_hand}", shell=True, capture_output=True, check=True)
    assert said.stdout.decode() == f"QdstrmImporter,-i,{stream},"


def test_an_nsys_that_is_gone_is_named(scripts: Scripts, out: Path) -> None:
    line = refused(scripts.report, out, NO_NSYS)
    assert line == "/no/nsys does not run: No such file or directory"


@pytest.mark.parametrize("taken", ["a.sqlite", "a.nsys-rep"])
def test_where_one_file_cannot_have_its_name_none_is_left(
    scripts: Scripts, out: Path, taken: str
) -> None:
    scripts.importer(scripts.IMPORTS)
    (out / taken).mkdir()
    assert f"cannot write {out / taken}: " in refused(scripts.stream, out, scripts.nsys)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mount a file system of a size in KiB; skip where that is not allowed."""
    with ExitStack() as stack:

        def mount(size: int) -> Path:
            disk = tmp_path / "disk"
            disk.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", str(disk)]
            if os.geteuid() or not shutil.which("mount"):
                pytest.skip("cannot mount")
            if refusal := subprocess.run(command, capture_output=True, check=False).stderr:
                pytest.skip(f"cannot mount: {refusal!r}")
            stack.callback(subprocess.run, ["umount", str(disk)], check=True)
            return disk

        yield mount


def pages(content: bytes, more: int) -> int:
    """Return a file's size in KiB of whole pages, and some."""
    return -(-len(content) // 4096) * 4 + more


Mount = Callable[[int], Path]


@needs_nsys
def test_a_disk_that_is_full_before_the_import_is_told(
    tmp_path: Path, small_disk: Mount, stream: bytes
) -> None:
    disk = small_disk(pages(stream, -64))
    said = refused(written(tmp_path / "a.qdstrm", stream), disk)
    assert f"cannot be copied into {disk}: No space left on device. Make room" in said


@needs_nsys
@pytest.mark.parametrize("left", [0, 8, 64])
def test_a_disk_that_is_full_while_importing_is_told(
    tmp_path: Path, small_disk: Mount, stream: bytes, left: int
) -> None:
    said = refused(written(tmp_path / "a.qdstrm", stream), small_disk(pages(stream, left)))
    assert "QdstrmImporter failed: the disk is full: make room and try again" in said


@needs_nsys
@pytest.mark.parametrize("size", [16, 128, 256])
def test_a_disk_that_is_full_while_exporting_is_told(
    tmp_path: Path, small_disk: Mount, report: bytes, size: int
) -> None:
    said = refused(written(tmp_path / "a.nsys-rep", report), small_disk(size))
    assert "cannot export" in said
    assert "the disk is full: make room and try again" in said
