"""A report of nsys, in whichever of its forms, into SQLite."""

import re
import shlex
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory

from cudabench.errors import ProfilerError
from cudabench.profiling.tools import Nsys, find_importers, run_tool

_PACKAGES = {"libdw.so.1": "libdw1", "libelf.so.1": "libelf1"}
_LIBRARY = re.compile(r"(\S+\.so\S*): cannot open shared object file")
# What the tools print, and what that means; seen of 2022.4 (all) and 2025.3 (its importer).
_MEANINGS = (
    (r"file versions must match", "an nsys of another version wrote it: use that one's importer"),
    (r"Version not supported|newer than", "a newer nsys wrote it: name that one with --nsys"),
    (
        r"corrupted|incomplete or invalid|magic number mismatch|Cannot read from stream"
        r"|ReadStreamException|Version (tag|number) is (not found|invalid)",
        "the file is truncated, damaged or none of nsys's",
    ),
    (r"disk is full|No space left", "the disk is full: make room and try again"),
)
# Where a failure is told among the lines of a C++ exception, the most telling first.
_DETAILS = (
    r"tag_message\*?\] = (.+)",
    r'errinfo_errno_?\*?\] = \d+, "(.+)"',
    r"std::exception::what: (.+)",
)
_THROWN = "Throw in function"  # heads every such exception
_PROGRESS = re.compile(r"^(Processing|Exporting|Importing) .*%")
_FULL = 1 << 16  # bytes free on a disk that counts as full: the importer does not say so


class _Form(Enum):
    """What nsys writes: the bytes that it begins with, and its suffixes."""

    SQLITE = (b"SQLite format 3\0", (".sqlite",))
    STREAM = (b"U3w[END]", (".qdstrm",))
    REPORT = (b"NVIDIA Tegra Pro", (".nsys-rep", ".qdrep"))


def to_sqlite(
    file: Path,
    nsys: Nsys | None,
    importer: str | None,
    folder: Path,
    notify: Callable[[str], None],
) -> Path:
    """Return an nsys report as SQLite, in `folder` unless it is SQLite already.

    Args:
        file: A `.sqlite`, `.nsys-rep`, `.qdrep` or `.qdstrm`, told by its content where that is
            known. It stays as it is.
        nsys: What exports; only a SQLite file needs none.
        importer: Which QdstrmImporter to use; None for those that are found.
        folder: Where to. What an earlier run left there under the same name is replaced; after a
            failure nothing new is there.
        notify: Told in one line before anything that takes seconds.

    Raises:
        ProfilerError: It cannot be converted.
    """
    form = _form(file)
    if form is _Form.SQLITE:
        return file
    if nsys is None:
        raise ProfilerError(f"{file} is not SQLite", "Give it the suffix .nsys-rep or .qdstrm")
    with _workplace(folder) as name:
        work = Path(name).absolute()
        if form is _Form.REPORT:
            notify(f"exporting {file.name}")
            made = [_exported(file, nsys, work, str(file))]
        else:
            made = _imported(file, nsys, find_importers(importer, nsys), work, notify)
        return _placed(made, folder, file)


def _form(file: Path) -> _Form:
    """Return which form a file has, by its first bytes; if those are new, by its suffix."""
    begin = _first_bytes(file)
    for form in _Form:
        if begin.startswith(form.value[0]):
            return form
    for form in (_Form.STREAM, _Form.REPORT):
        if begin and file.suffix in form.value[1]:
            return form
    what = "is no file of nsys" if begin else "is empty"
    raise ProfilerError(f"{file} {what}", "Give a .nsys-rep, .qdrep, .qdstrm or nsys's .sqlite")


def _first_bytes(file: Path) -> bytes:
    try:
        # Opening a pipe would wait for its writer.
        if not stat.S_ISREG(file.stat().st_mode):
            what = "is a folder" if file.is_dir() else "is no regular file"
            raise ProfilerError(f"{file} {what}", "Give a file that nsys wrote")
        with file.open("rb") as opened:
            return opened.read(16)
    except OSError as error:
        raise ProfilerError(f"cannot read {file}: {error.strerror}") from error


def _workplace(folder: Path) -> "TemporaryDirectory[str]":
    """Make a folder for what is half-written, inside the one where it is to end up."""
    try:
        return TemporaryDirectory(prefix=".cudabench-", dir=folder)
    except OSError as error:
        raise ProfilerError(
            f"cannot write in {folder}: {error.strerror}", "Choose another folder"
        ) from error


def _placed(made: Sequence[Path], folder: Path, source: Path) -> Path:
    """Give each finished file its name, or none where one cannot have it; return the last."""
    placed: list[Path] = []
    try:
        for each in made:
            placed.append(each.replace(_target(each, folder, source)))
    except OSError as error:
        for path in placed:
            path.unlink()
        where = error.filename2 or folder
        raise ProfilerError(f"cannot write {where}: {error.strerror}") from error
    return placed[-1]


def _target(made: Path, folder: Path, source: Path) -> Path:
    """Return the name for a finished file: another, if that is the file that it was made of."""
    target = folder / f"{source.stem}{made.suffix}"
    if target.exists() and target.samefile(source):
        return target.with_name(f"{target.stem}-converted{target.suffix}")
    return target


def _imported(
    file: Path,
    nsys: Nsys,
    importers: Sequence[Path],
    work: Path,
    notify: Callable[[str], None],
) -> list[Path]:
    """Return a `.qdstrm` as a report and as SQLite, by the first importer that leads to both."""
    failures = []
    for importer in importers:
        notify(f"importing {file.name} with {importer}")
        stream = _copied(file, work)
        try:
            report = _report(stream, importer, work)
            return [report, _exported(report, nsys, work, f"what {importer} made")]
        except ProfilerError as error:
            failures.append(str(error))
    why = "; ".join(failures) or "no QdstrmImporter was found: it is in Nsight Systems' host folder"
    raise ProfilerError(
        f"{file} could not be converted, and is kept as it is: {why}",
        f"By hand: QdstrmImporter -i {shlex.quote(str(file))}, or name another with --importer",
    )


def _copied(file: Path, work: Path) -> Path:
    """Return a copy for one importer: that of 2022.4 writes into what it reads."""
    try:
        return Path(shutil.copyfile(file, work / "report.qdstrm"))
    except OSError as error:
        raise ProfilerError(
            f"{file} cannot be copied into {work.parent}: {error.strerror}",
            "Make room, or choose another folder",
        ) from error


def _report(stream: Path, importer: Path, work: Path) -> Path:
    report = work / "report.nsys-rep"
    report.unlink(missing_ok=True)  # what another importer made; this one would refuse it
    ran = _ran([str(importer), "-i", str(stream), "-o", str(report)])
    if ran.returncode != 0 or not report.exists():
        raise ProfilerError(f"{importer} failed: {_why(ran, work)}")
    stream.unlink()
    return report


def _exported(file: Path, nsys: Nsys, work: Path, what: str) -> Path:
    sqlite = work / "report.sqlite"
    ran = _ran(
        [
            *(str(nsys.path), "export", "--type=sqlite", "--force-overwrite=true"),
            f"--output={sqlite}",
            str(file.absolute()),
        ]
    )
    # Of a full disk, nsys 2022.4 prints an exception, leaves an empty file and exits with 0.
    if ran.returncode != 0 or _THROWN in ran.stdout or not _is_export(sqlite):
        raise ProfilerError(f"{nsys.label} cannot export {what}: {_why(ran, work)}")
    return sqlite


def _is_export(sqlite: Path) -> bool:
    """Say whether a file can be read, and holds what every export holds."""
    if not sqlite.exists():
        return False
    uri = f"{sqlite.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as opened:
            return opened.execute("SELECT 1 FROM StringIds LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return False


def _ran(command: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return run_tool(command)
    except OSError as error:
        raise ProfilerError(f"{command[0]} does not run: {error.strerror}") from error


def _why(ran: "subprocess.CompletedProcess[str]", work: Path) -> str:
    """Return in a line why a tool failed, and what to do where that is known."""
    if missing := _LIBRARY.search(ran.stdout):
        library = missing[1].rpartition("/")[2]
        package = _PACKAGES.get(library, f"the package that has {library}")
        return f"the library {library} is missing: install {package}"
    if ran.returncode < 0:
        return f"it was ended by signal {-ran.returncode}"
    said = _telling(ran)
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, ran.stdout):
            return f"{meaning} ({said!r})"
    if shutil.disk_usage(work).free < _FULL:
        return f"the disk is full: make room and try again ({said!r})"
    return said


def _telling(ran: "subprocess.CompletedProcess[str]") -> str:
    """Return of what a tool printed the line that says most."""
    for pattern in _DETAILS:
        if found := re.search(pattern, ran.stdout):
            return found[1].strip()
    lines = [line.strip() for line in ran.stdout.splitlines()]
    telling = [line for line in lines if line and not _PROGRESS.match(line)]
    last = telling[-1] if telling else f"exit code {ran.returncode}, and it said nothing"
    return last.removeprefix("Exportation error: ").rstrip(".")
