"""From a profiled command, or a file that somebody's profiler left, to timelines and files."""

import csv
import io
import re
import shutil
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cudabench import store
from cudabench.errors import BadInputError, ProfilerError
from cudabench.profiling import capture
from cudabench.profiling.capture import Captured
from cudabench.profiling.convert import to_sqlite
from cudabench.profiling.experiment import iterations, with_host_launches
from cudabench.profiling.nsys_reader import read_nsys
from cudabench.profiling.scrub import scrub
from cudabench.profiling.tools import Nsys, NsysNotFoundError, find_nsys
from cudabench.profiling.torch_reader import read_torch
from cudabench.records import Session
from cudabench.report.profile import pictures_of, tables_of
from cudabench.report.timeline.chrome import MOST_EVENTS, chrome
from cudabench.report.timeline.html import html
from cudabench.report.timeline.svg import svg
from cudabench.trace import Activity, Iteration, Trace, activities

Notify = Callable[[str], None]

_NO_KERNELS = ProfilerError(
    "no kernels were captured",
    "Did the program launch any on a CUDA device, itself and not in a child process, inside the"
    " captured range? Was CUDA traced (nsys profile -t cuda,nvtx), and did no other profiler run?",
)
_PRIVATE = (
    "it holds the environment's variables, tokens included, the process list, host and user names:"
    " give it to nobody, or use --scrub"
)
_CHROME_TRACES = (".json", ".trace")
_ERROR = "error: "  # how our commands begin one
# What nsys prints after any program, and below any error of its own.
_NOISE = re.compile(
    r"Capture range |Collecting |Processing |Generat|Importer error status|\[\d+/\d+\]"
    r"|/|usage:|Try "
)


@dataclass(frozen=True)
class Tools:
    """Which tools the command line names, where it names any."""

    nsys: str | None = None
    importer: str | None = None


@dataclass(frozen=True)
class Outputs:
    """Where files go, and which beside the usual ones.

    Attributes:
        folder: Where to.
        name: What each file's name begins with.
        keep: The profiler's own report, and its SQLite, too.
        scrub: A SQLite that holds the activity only, too.
        open: Show the page in a browser.
    """

    folder: Path
    name: str
    keep: bool = False
    scrub: bool = False
    open: bool = False

    def path(self, suffix: str) -> Path:
        """Return the file that ends so."""
        return self.folder / f"{self.name}{suffix}"


@dataclass(frozen=True)
class Profile:
    """A trace, what of it is the experiment's, and the session that came with it."""

    trace: Trace
    iterations: tuple[Iteration, ...]
    session: Session | None = None
    exit_code: int = 0


def profile(
    command: Sequence[str],
    engine: str,
    tools: Tools,
    extra: Sequence[str],
    outputs: Outputs,
    notify: Notify,
) -> Profile:
    """Run a command of ours under a profiler and return what it recorded.

    Args:
        command: The arguments of `cudabench`.
        engine: `nsys`, `torch`, or `auto`: nsys where there is one.
        tools: Which tools to use.
        extra: Options for `nsys profile`.
        outputs: Where to keep what is to be kept.
        notify: Told in one line before anything that takes seconds.

    Raises:
        ProfilerError: No profiler, the command failed, or nothing of use came out.
    """
    nsys = _nsys_for(engine, tools, notify)
    if extra and not nsys:
        raise BadInputError("options after -- are for nsys, which is not used", "Leave them out")
    with _workplace(outputs, notify) as folder:
        notify(f"running: cudabench {' '.join(command)}")
        if nsys:
            ran = capture.with_nsys(nsys, command, extra, folder)
        else:
            ran = capture.with_torch(command, folder)
        if ran.session is None:
            raise _failed(ran)
        session = store.read(ran.session)
        if ran.report is None:
            raise ProfilerError(f"the profiler left no report: {_said(ran.said)}")
        trace = _read(ran.report, nsys, tools, folder, outputs, notify)
        return _profile(trace, session, ran.exit_code)


def timeline(file: Path, tools: Tools, outputs: Outputs, notify: Notify) -> Profile:
    """Return what a file of a profiler holds: nsys's in any of its forms, or torch.profiler's.

    Raises:
        ProfilerError: It cannot be read, or holds no kernels.
    """
    with TemporaryDirectory(prefix="cudabench-") as folder:
        nsys = None
        if file.suffix not in (".sqlite", *_CHROME_TRACES):
            nsys = _nsys_for("nsys", tools, notify)
        return _profile(_read(file, nsys, tools, Path(folder), outputs, notify))


def write(profile: Profile, outputs: Outputs, notify: Notify) -> None:
    """Write the pictures, the tables and the Chrome trace.

    Args:
        profile: What to write.
        outputs: Where to.
        notify: Told of each file, and of what it leaves out.
    """
    trace, found = profile.trace, profile.iterations
    pictures = pictures_of(trace, found)
    title = f"cudabench: {outputs.name}"
    notes = (f"{trace.device or 'unknown device'}, recorded by {trace.source}",)
    texts = {
        ".html": html(pictures, list(tables_of(trace, found)), title, notes),
        ".svg": svg(pictures, title),
        ".trace.json": chrome(trace, found),
        "-kernels.csv": _activities_csv(activities(trace.work)),
        "-calls.csv": _activities_csv(activities(trace.calls)),
    }
    if found:
        texts["-iterations.csv"] = _iterations_csv(found)
    for suffix, text in texts.items():
        path = outputs.path(suffix)
        store.write_text(path, text)
        notify(f"wrote {path}")
    if max(len(trace.work), len(trace.calls)) > MOST_EVENTS:
        notify(f"the Chrome trace has the first {MOST_EVENTS:,} of what ran, and of the calls")
    if outputs.open:
        webbrowser.open(outputs.path(".html").absolute().as_uri())


def _nsys_for(engine: str, tools: Tools, notify: Notify) -> Nsys | None:
    if engine == "torch":
        return None
    try:
        nsys = find_nsys(tools.nsys)
    except NsysNotFoundError as error:
        if engine == "nsys" or tools.nsys:
            raise
        notify(f"{error.args[0]}: torch.profiler is used")
        return None
    notify(f"using {nsys.label}: {nsys.path}")
    return nsys


@contextmanager
def _workplace(outputs: Outputs, notify: Notify) -> Iterator[Path]:
    """Yield a new folder inside the one for outputs; a report in it outlives a failure."""
    outputs.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".cudabench-", dir=outputs.folder) as name:
        folder = Path(name)
        try:
            yield folder
        except BaseException:
            _keep(folder, outputs, notify)
            raise
        if outputs.keep:
            _keep(folder, outputs, notify)


def _keep(folder: Path, outputs: Outputs, notify: Notify) -> None:
    """Move the profiler's own files to where they stay."""
    for file in sorted(folder.glob("capture.*")):
        kept = outputs.path(file.suffix)
        shutil.move(file, kept)
        notify(f"kept {kept}: {_PRIVATE}")


def _read(
    file: Path, nsys: Nsys | None, tools: Tools, folder: Path, outputs: Outputs, notify: Notify
) -> Trace:
    if file.suffix in _CHROME_TRACES:
        if outputs.scrub:
            raise BadInputError("--scrub is for nsys's files", "Leave it out")
        return read_torch(file)
    sqlite = to_sqlite(file, nsys, tools.importer, folder, notify)
    trace = read_nsys(sqlite)
    if outputs.scrub:
        scrub(sqlite, outputs.path("-scrubbed.sqlite"))
        notify(f"wrote {outputs.path('-scrubbed.sqlite')}")
    return trace


def _profile(trace: Trace, session: Session | None = None, exit_code: int = 0) -> Profile:
    trace = with_host_launches(trace)
    if trace.work.empty:
        raise _NO_KERNELS
    return Profile(trace, iterations(trace), session, exit_code)


def _failed(ran: Captured) -> ProfilerError:
    """Return what a command, or the profiler itself, died of, with its own exit code."""
    error = ProfilerError(f"the profiled command failed: {_said(ran.said)}")
    if ran.exit_code:
        # By a signal, it is the shell's: 128 and the signal's number.
        error.exit_code = ran.exit_code if ran.exit_code > 0 else 128 - ran.exit_code
    return error


def _said(said: str) -> str:
    """Return the line that says what went wrong: our command's own, else the last that may."""
    lines = [line.strip() for line in said.splitlines()]
    ours = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    others = [line for line in lines if line and not _NOISE.match(line)]
    return (ours or others or ["it said nothing"])[-1]


def _activities_csv(found: Sequence[Activity]) -> str:
    return _csv(
        {
            "name": one.name,
            "count": one.count,
            "total_ns": one.total,
            "mean_ns": one.mean,
            "median_ns": one.median,
            "min_ns": one.minimum,
            "max_ns": one.maximum,
        }
        for one in found
    )


def _iterations_csv(found: Sequence[Iteration]) -> str:
    return _csv(
        {
            "operator": one.operator,
            "n": one.n,
            "clock": one.clock.value,
            "first_sync": one.mode.first_sync,
            "second_sync": one.mode.second_sync,
            "backlog": one.backlogged,
            "iteration": one.index,
            "launch_seconds": one.launch.seconds,
            "launch_to_start_seconds": one.launch_to_start,
            "kernel_seconds": one.kernel,
            "end_to_return_seconds": one.end_to_return,
            "seconds": one.seconds,
        }
        for one in found
    )


def _csv(rows: Iterable[dict[str, object]]) -> str:
    """Return rows as CSV under their names; what is None is left blank."""
    text, rows = io.StringIO(), list(rows)
    writer = csv.DictWriter(text, rows[0] if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
