"""A report of nsys, in whichever of its forms, into SQLite."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from cudabench.errors import ProfilerError
from cudabench.profiling.tools import Nsys, find_importers, run_tool

_SQLITE = b"SQLite format 3\0"
_STREAM = b"U3w[END]"
_REPORT = b"NVIDIA Tegra Pro"
_LIBRARY = re.compile(r"(\S+\.so\S*): cannot open shared object file")
_PACKAGES = {"libdw.so.1": "libdw1", "libelf.so.1": "libelf1"}
# What says nothing about a failure: progress, where a C++ exception was thrown, its type.
_NOISE = re.compile(r"^(Processing|Exporting|Dynamic exception|.*Throw in function|Usage:|$)")


def to_sqlite(
    file: Path,
    nsys: Nsys | None,
    importer: str | None,
    folder: Path,
    notify: Callable[[str], None],
) -> Path:
    """Return an nsys report as SQLite, in `folder` unless it is SQLite already.

    Args:
        file: A `.sqlite`, `.nsys-rep`, `.qdrep` or `.qdstrm`, told by its content. It stays.
        nsys: What exports; only a SQLite file needs none.
        importer: Which QdstrmImporter to use; None for those that are found.
        folder: Where to.
        notify: Told in one line before anything that takes seconds.

    Raises:
        ProfilerError: It cannot be converted.
    """
    form = _form(file)
    if form == _SQLITE:
        return file
    if nsys is None:
        raise ProfilerError(f"{file} takes nsys to be read", "Name one with --nsys")
    if form == _STREAM:
        return _imported(file, nsys, find_importers(importer, nsys), folder, notify)
    return _exported(file, nsys, folder, notify)


def _form(file: Path) -> bytes:
    """Return what a file begins with, one of three."""
    try:
        with file.open("rb") as opened:
            begin = opened.read(16)
    except OSError as error:
        raise ProfilerError(f"cannot read {file}: {error.strerror}") from error
    for form in (_SQLITE, _STREAM, _REPORT):
        if begin.startswith(form):
            return form
    what = "is empty" if not begin else "is no file of nsys"
    raise ProfilerError(f"{file} {what}", "Give a .nsys-rep, .qdrep, .qdstrm or nsys's .sqlite")


def _exported(file: Path, nsys: Nsys, folder: Path, notify: Callable[[str], None]) -> Path:
    notify(f"exporting {file.name}")
    sqlite = folder / f"{file.stem}.sqlite"
    sqlite.unlink(missing_ok=True)  # an earlier one is never taken for this one's
    ran = run_tool(
        [
            *(str(nsys.path), "export", "--type=sqlite", "--force-overwrite=true"),
            f"--output={sqlite}",
            str(file.absolute()),
        ]
    )
    if ran.returncode != 0 or not sqlite.exists() or sqlite.stat().st_size == 0:
        sqlite.unlink(missing_ok=True)
        raise ProfilerError(
            f"{nsys.label} cannot export {file}: {_why(ran.stdout, ran.returncode)}",
            "Is it whole, and is there room on the disk? A report of a newer nsys takes that one:"
            " name it with --nsys",
        )
    return sqlite


def _imported(
    file: Path,
    nsys: Nsys,
    importers: Iterable[Path],
    folder: Path,
    notify: Callable[[str], None],
) -> Path:
    """Return a `.qdstrm` as SQLite by the first importer whose report can be exported."""
    report = folder / f"{file.stem}.nsys-rep"
    failures = []
    for importer in importers:
        notify(f"importing {file.name} with {importer}")
        report.unlink(missing_ok=True)  # the importer refuses to overwrite it
        try:
            ran = run_tool([str(importer), "-i", str(file.absolute()), "-o", str(report)])
        except OSError as error:
            failures.append(f"{importer} does not run: {error.strerror}")
            continue
        if ran.returncode == 0 and report.exists():
            return _exported(report, nsys, folder, notify)
        report.unlink(missing_ok=True)
        failures.append(f"{importer}: {_why(ran.stdout, ran.returncode)}")
    why = "; ".join(failures) or "no QdstrmImporter was found"
    raise ProfilerError(
        f"{file} could not be converted, and stays as it is: {why}",
        f"Convert it with the importer of the nsys that wrote it: QdstrmImporter -i {file}, or"
        " name that with --importer",
    )


def _why(said: str, exit_code: int) -> str:
    """Return in a line why a tool failed, by what it printed."""
    if missing := _LIBRARY.search(said):
        library = missing[1]
        package = _PACKAGES.get(library, f"the package that has {library}")
        return f"{library} is missing: install {package}"
    if exit_code < 0:
        return f"it was ended by signal {-exit_code}"
    lines = [line.strip() for line in re.split(r"[\r\n]+", said)]
    telling = [line for line in lines if not _NOISE.match(line)]
    last = telling[-1] if telling else f"exit code {exit_code}"
    return re.sub(r"^(\[.*tag_message\*?\] = |Exportation error: )", "", last).rstrip(".")
