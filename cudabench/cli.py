"""The commands: each parses its options, calls, and reports."""

import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from typer.core import TyperCommand, TyperGroup

from cudabench import __version__, store
from cudabench.errors import BadInputError, CudabenchError
from cudabench.ranges import NO_RANGES, NoRanges, nvtx_ranges, torch_ranges
from cudabench.records import L2, MODES, Clock, Loop, Opinion, Session, new_session_id
from cudabench.report.console import Messages, output
from cudabench.report.methods import methods_report
from cudabench.report.run import run_report
from cudabench.report.sync_modes import sync_modes_report
from cudabench.stopping import StoppingRule
from cudabench.store import Destination
from cudabench.units import parse_count, parse_device

if TYPE_CHECKING:
    from cudabench.profile import Outputs, Profile
    from cudabench.runner import Bench, Taken

_DEBUG = "cudabench.debug"
_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
_WRONG_RESULT = 1
_UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
_TYPERS_OWN = ("typer", "click")  # which exception classes end a command as Typer means it to
_MOST_ITERATIONS = 1_000_000


class _Commands(TyperGroup):
    """Shows an error in one line and exits with its code; the traceback only with --debug."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; every error of ours is caught here, once."""
        try:
            return super().invoke(ctx)
        except CudabenchError as error:
            self._show(ctx, error, str(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            Messages().error("interrupted")
            raise typer.Exit(_INTERRUPTED) from error
        except Exception as error:
            if type(error).__module__.startswith(_TYPERS_OWN) or isinstance(error, BrokenPipeError):
                raise
            name = type(error).__name__
            self._show(ctx, error, f"{name}: {error}. A fault of cudabench; see it with --debug")
            raise typer.Exit(_UNEXPECTED) from error

    def _show(self, ctx: Any, error: Exception, text: str) -> None:
        if ctx.meta.get(_DEBUG):
            traceback.print_exception(error)
        Messages().error(text)


class CacheChoice(str, Enum):
    """The values of --l2."""

    WARM = "warm"
    COLD = "cold"
    BOTH = "both"

    def states(self) -> tuple[L2, ...]:
        """Return the states to read in."""
        return (L2.WARM, L2.COLD) if self is CacheChoice.BOTH else (L2(self.value),)


def _remember_debug(context: typer.Context, debug: bool) -> bool:
    context.meta[_DEBUG] = debug
    return debug


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cudabench {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

N = Annotated[
    str,
    typer.Option(
        "--n", metavar="N", help="Elements in each buffer: 1048576, 1_048_576, 2^20 or 1Mi."
    ),
]
DeviceName = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="auto (CUDA where there is a device), cuda, cuda:K, or host: an asynchronous stream"
        " on the CPU.",
    ),
]
Iterations = Annotated[int, typer.Option("--iters", help="Timed iterations.")]
WarmUp = Annotated[int, typer.Option("--warmup", help="Untimed calls before them.")]
OutFolder = Annotated[
    Path,
    typer.Option(
        "--output", "--out", metavar="DIR", help="Folder for the files without one of their own."
    ),
]
CsvFile = Annotated[
    Path | None,
    typer.Option(
        "--csv", help="File for the samples, with the summary beside it (default: in --output)."
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="File for the whole session (default: in --output).")
]
ClockChoices = Annotated[
    list[Clock],
    typer.Option(
        "--clock",
        metavar="CLOCK",
        help="What reads the time: time (time.time), perf_counter (time.perf_counter_ns) or event"
        " (a pair of device events); may be given several times.",
    ),
]
Caches = Annotated[
    CacheChoice,
    typer.Option(
        "--l2",
        metavar="STATE",
        help="State of the device's last cache before each accurate sample: warm, cold or both.",
    ),
]
Operators = Annotated[
    list[str],
    typer.Option(
        "--operator",
        metavar="NAME",
        help="add2, a+b, torch.add(out=), or add2-default-stream: the article's launcher, which"
        " ignores PyTorch's stream (CUDA); may be given several times.",
    ),
]
Precision = Annotated[
    float,
    typer.Option(
        "--precision",
        metavar="PERCENT",
        help="Sample until half the median's 95 % confidence interval is within this of it.",
    ),
]
MaxTime = Annotated[
    float,
    typer.Option("--max-time", metavar="SECONDS", help="Or until this is spent on an operator."),
]
Nvtx = Annotated[
    bool,
    typer.Option("--nvtx", help="Name the steps of each iteration with NVTX, for a profiler."),
]
TorchTrace = Annotated[
    Path | None,
    typer.Option(
        "--torch-trace",
        metavar="FILE",
        help="Record the iterations with torch.profiler; FILE is a Chrome trace.",
    ),
]
NsysPath = Annotated[
    str | None,
    typer.Option(
        "--nsys", metavar="FILE", help="Which nsys (default: NSYS, or the newest there is)."
    ),
]
ImporterPath = Annotated[
    str | None,
    typer.Option("--importer", metavar="FILE", help="Which QdstrmImporter (default: beside nsys)."),
]
Scrub = Annotated[
    bool,
    typer.Option(
        "--scrub", help="Write a SQLite, too, that holds the activity and nothing private."
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Show the page in a browser.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the tables, and errors.")]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_remember_debug)
]


@app.callback()
def cudabench(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show it.")
    ] = False,
) -> None:
    """How long a custom PyTorch CUDA operator really takes, and why other timings are wrong."""


@app.command()
def run(
    n: N = "1048576",
    device: DeviceName = "auto",
    operator: Operators = [],  # noqa: B006 - Typer copies it
    clock: Annotated[
        Clock,
        typer.Option(
            "--clock", metavar="CLOCK", help="What reads the time: time, perf_counter or event."
        ),
    ] = Clock.TIME,
    l2: Caches = CacheChoice.WARM,
    precision: Precision = 1.0,
    max_time: MaxTime = 2.0,
    iters: Iterations = 10,
    warmup: WarmUp = 10,
    out: OutFolder = Path("results"),
    csv: CsvFile = None,
    json: JsonFile = None,
    nvtx: Nvtx = False,
    torch_trace: TorchTrace = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Time add2 against a + b and torch.add(out=): their own time, and with both synchronizes."""
    request = _request("run", n, device, iters, warmup, precision, max_time, out, csv, json, quiet)
    caches = l2.states()

    def measure(bench: "Bench") -> "Iterator[Taken]":
        from cudabench import runner

        operators = runner.operators_named(operator, bench.device.properties.kind)
        ranges = _ranges(nvtx, torch_trace)
        return runner.run(
            bench, operators, request.n, clock, request.loop, caches, request.rule, ranges
        )

    session = _recorded(request, measure, total=(len(operator) or 3) * (1 + len(caches)))
    _report(request, session)


@app.command()
def sync_modes(
    n: N = "16777216",
    device: DeviceName = "auto",
    clock: ClockChoices = [Clock.TIME, Clock.EVENT],  # noqa: B006 - Typer copies it
    backlog: Annotated[
        bool | None,
        typer.Option(
            "--backlog/--no-backlog",
            help="Only with, or only without, work queued before each iteration (default: both).",
        ),
    ] = None,
    precision: Precision = 1.0,
    max_time: MaxTime = 2.0,
    iters: Iterations = 10,
    warmup: WarmUp = 10,
    out: OutFolder = Path("results"),
    csv: CsvFile = None,
    json: JsonFile = None,
    nvtx: Nvtx = False,
    torch_trace: TorchTrace = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Time add2 with and without each synchronize, and say what each way measured."""
    request = _request(
        "sync-modes", n, device, iters, warmup, precision, max_time, out, csv, json, quiet
    )
    clocks = tuple(dict.fromkeys(clock))
    backlogs = (False, True) if backlog is None else (backlog,)

    def measure(bench: "Bench") -> "Iterator[Taken]":
        from cudabench import runner

        ranges = _ranges(nvtx, torch_trace)
        return runner.sync_modes(
            bench, request.n, clocks, backlogs, request.loop, request.rule, ranges
        )

    situations = len(MODES) * len(clocks) * len(backlogs)
    session = _recorded(request, measure, total=2 + any(backlogs) + situations)
    _report(request, session)


@app.command()
def methods(
    n: N = "1048576",
    device: DeviceName = "auto",
    operator: Operators = ["add2"],  # noqa: B006 - Typer copies it
    l2: Caches = CacheChoice.WARM,
    precision: Precision = 1.0,
    max_time: MaxTime = 2.0,
    iters: Iterations = 10,
    warmup: WarmUp = 10,
    out: OutFolder = Path("results"),
    csv: CsvFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Time an operator by every method, and say which disagrees with the others, and why."""
    request = _request(
        "methods", n, device, iters, warmup, precision, max_time, out, csv, json, quiet
    )
    caches = l2.states()

    def measure(bench: "Bench") -> "Iterator[Taken]":
        from cudabench import runner

        operators = runner.operators_named(operator, bench.device.properties.kind)
        return runner.methods(bench, operators, request.n, caches, request.loop, request.rule)

    # The eight modes; and in each state of the cache a reading, the opinions, the observer.
    each = 2 * len(MODES) + len(caches) * (2 + len(Opinion))
    session = _recorded(request, measure, total=len(operator) * each)
    _report(request, session)


class Engine(str, Enum):
    """The values of --engine."""

    AUTO = "auto"
    NSYS = "nsys"
    TORCH = "torch"


_BEHIND_DASHES = "cudabench.behind_dashes"
# How each command's session is printed.
_REPORTS: dict[str, Callable[[Session], Iterable[RenderableType]]] = {
    "run": run_report,
    "sync-modes": lambda session: sync_modes_report(session, output().width),
    "methods": lambda session: methods_report(session, output().width),
}
_PROFILED = ("run", "sync-modes")


class _WithDashes(TyperCommand):
    """Keeps what stands behind `--` apart: options of another program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take it off."""
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_BEHIND_DASHES] = args[place + 1 :]
        return super().parse_args(ctx, args[:place])


@app.command(
    cls=_WithDashes, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def profile(
    context: typer.Context,
    engine: Annotated[
        Engine,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="nsys, torch (torch.profiler), or auto: nsys where there is one.",
        ),
    ] = Engine.AUTO,
    out: OutFolder = Path("results"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what the profiler itself wrote.")
    ] = False,
    open_page: Open = False,
    scrub: Scrub = False,
    nsys: NsysPath = None,
    importer: ImporterPath = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Record a command under Nsight Systems and show what ran when, mode by mode.

    cudabench profile [OPTIONS] [run|sync-modes OPTIONS] [-- OPTIONS OF nsys profile]

    Without a command it is sync-modes.
    """
    command = _profiled(context)
    name, messages = new_session_id("profile"), Messages(quiet)
    destination = Destination.of(out, name, None, None)
    destination.require_writable()
    with messages.waiting("profiling") as say:
        from cudabench import profile as profiling

        outputs = profiling.Outputs(out, name, keep, scrub, open_page)
        tools = profiling.Tools(nsys, importer)
        behind = context.meta[_BEHIND_DASHES]
        done = profiling.profile(command, engine.value, tools, behind, outputs, say)
    if done.session:
        store.write(done.session, destination)
        _print(_REPORTS[command[0]](done.session))
    _show(done, outputs, messages, destination.paths())
    if done.exit_code:
        raise typer.Exit(done.exit_code)


@app.command()
def timeline(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .nsys-rep, .qdrep, .qdstrm or nsys's .sqlite; or torch.profiler's .json."
        ),
    ],
    out: OutFolder = Path("results"),
    open_page: Open = False,
    scrub: Scrub = False,
    nsys: NsysPath = None,
    importer: ImporterPath = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show what ran when in a file that a profiler left, ours or anyone's."""
    name, messages = new_session_id("timeline"), Messages(quiet)
    Destination.of(out, name, None, None).require_writable()
    with messages.waiting("reading") as say:
        from cudabench import profile as profiling

        outputs = profiling.Outputs(out, name, scrub=scrub, open=open_page)
        done = profiling.timeline(file, profiling.Tools(nsys, importer), outputs, say)
    _show(done, outputs, messages)


def main() -> None:
    """Run the command line."""
    # As an interrupt does, this leaves time to end what we started and to keep what there is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app()


def _profiled(context: typer.Context) -> list[str]:
    """Return the command to profile, once its own parser has accepted its options."""
    words = context.args
    name, *options = words if words and not words[0].startswith("-") else ["sync-modes", *words]
    if name not in _PROFILED:
        raise BadInputError(f"cannot profile {name!r}", f"Use one of {', '.join(_PROFILED)}")
    commands: Any = context.parent.command if context.parent else None
    parsed = commands.commands[name].make_context(name, list(options), parent=context.parent)
    for option in ("out", "csv", "json", "nvtx", "torch_trace"):
        if parsed.get_parameter_source(option).name == "COMMANDLINE":
            raise BadInputError(
                f"--{option.replace('_', '-')} is not for a profiled command",
                "Use --output for all files",
            )
    return [name, *options]


def _show(
    done: "Profile", outputs: "Outputs", messages: Messages, written: Iterable[Path] = ()
) -> None:
    """Print the timelines and tables, and write their files."""
    from cudabench import profile as profiling
    from cudabench.report.profile import profile_report

    _print(profile_report(done.trace, done.iterations, output().width))
    for path in written:
        messages.note(f"wrote {path}")
    profiling.write(done, outputs, messages.note)


def _print(renderables: Iterable[RenderableType]) -> None:
    console = output()
    for renderable in renderables:
        console.print(renderable)


@dataclass(frozen=True)
class _Request:
    """The options that every measuring command has, checked."""

    session_id: str
    command: str
    n: int
    device: str
    loop: Loop
    rule: StoppingRule
    destination: Destination
    messages: Messages


def _request(
    command: str,
    n: str,
    device: str,
    iters: int,
    warmup: int,
    precision: float,
    max_time: float,
    out: Path,
    csv: Path | None,
    json: Path | None,
    quiet: bool,
) -> _Request:
    """Check what can be checked before anything heavy is loaded."""
    count = parse_count(n)
    parse_device(device)
    if not 1 <= iters <= _MOST_ITERATIONS:
        raise BadInputError(
            f"--iters must be 1 to {_MOST_ITERATIONS:,}, got {iters}", "Try --iters 10"
        )
    if not 0 <= warmup <= _MOST_ITERATIONS:
        raise BadInputError(
            f"--warmup must be 0 to {_MOST_ITERATIONS:,}, got {warmup}", "Try --warmup 10"
        )
    if not 0 < precision <= 100:
        raise BadInputError(f"--precision must be a percentage above 0, got {precision:g}", "Try 1")
    if not 0 < max_time <= 3600:
        raise BadInputError(
            f"--max-time must be above 0 and at most 3600 s, got {max_time:g}", "Try 2"
        )
    session_id = new_session_id(command)
    destination = Destination.of(out, session_id, csv, json, command == "methods")
    destination.require_writable()
    messages = Messages(quiet)
    return _Request(
        session_id=session_id,
        command=command,
        n=count,
        device=device,
        loop=Loop(iters, warmup),
        rule=StoppingRule(precision / 100, max_time),
        destination=destination,
        messages=messages,
    )


def _ranges(nvtx: bool, torch_trace: Path | None) -> NoRanges:
    """Return what tells the profiler that was asked for."""
    if nvtx and torch_trace:
        raise BadInputError("--nvtx and --torch-trace exclude each other", "Use one of them")
    if nvtx:
        return nvtx_ranges()
    return torch_ranges(torch_trace) if torch_trace else NO_RANGES


def _recorded(
    request: _Request,
    measure: "Callable[[Bench], Iterator[Taken]]",
    total: int,
) -> Session:
    """Open the device and take the measurements behind a progress bar."""
    messages = request.messages
    with messages.waiting("loading PyTorch") as say:
        from cudabench import runner

        bench = runner.open_bench(request.device, say)
    if request.device == "auto" and bench.device.properties.kind == "host":
        messages.note("No CUDA device: timing on the host stream, an asynchronous CPU stream.")
    recorder = runner.Recorder(bench, request.session_id, request.command, request.loop)
    taken = list(messages.progress(measure(bench), total, "measuring"))
    with messages.waiting("calibrating"):
        return recorder.session(taken, runner.floors(bench, taken, request.rule))


def _report(request: _Request, session: Session) -> None:
    """Print the session, write it, and exit with 1 where a result was wrong."""
    _print(_REPORTS[request.command](session))
    store.write(session, request.destination)
    for path in request.destination.paths():
        request.messages.note(f"wrote {path}")
    for operator in session.wrong():
        request.messages.error(
            f"{operator} gave another result than PyTorch, so its timing is invalid."
            " Correct the kernel first"
        )
    if session.wrong():
        raise typer.Exit(_WRONG_RESULT)
