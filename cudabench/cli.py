"""The commands: each parses its options, calls, and reports."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from typer.core import TyperGroup

from cudabench import __version__, store
from cudabench.errors import BadInputError, CudabenchError
from cudabench.records import L2, MODES, Clock, Loop, Opinion, Session, new_session_id
from cudabench.report.console import Messages, output
from cudabench.report.methods import methods_report
from cudabench.report.run import run_report
from cudabench.report.sync_modes import sync_modes_report
from cudabench.stopping import StoppingRule
from cudabench.store import Destination
from cudabench.units import parse_count, parse_device

if TYPE_CHECKING:
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
            Messages().error("interrupted; nothing was written")
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
OutFolder = Annotated[Path, typer.Option("--out", help="Folder for the CSV and JSON files.")]
CsvFile = Annotated[
    Path | None,
    typer.Option(
        "--csv", help="File for the samples, with the summary beside it (default: in --out)."
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="File for the whole session (default: in --out).")
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
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Time add2 against a + b and torch.add(out=): their own time, and with both synchronizes."""
    request = _request("run", n, device, iters, warmup, precision, max_time, out, csv, json, quiet)
    caches = l2.states()

    def measure(bench: "Bench") -> "Iterator[Taken]":
        from cudabench import runner

        operators = runner.operators_named(operator, bench.device.properties.kind)
        return runner.run(bench, operators, request.n, clock, request.loop, caches, request.rule)

    session = _recorded(request, measure, total=(len(operator) or 3) * (1 + len(caches)))
    _report(request, session, run_report(session))


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

        return runner.sync_modes(bench, request.n, clocks, backlogs, request.loop, request.rule)

    situations = len(MODES) * len(clocks) * len(backlogs)
    session = _recorded(request, measure, total=2 + any(backlogs) + situations)
    _report(request, session, sync_modes_report(session, output().width))


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
    _report(request, session, methods_report(session, output().width))


def main() -> None:
    """Run the command line."""
    app()


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


def _report(request: _Request, session: Session, renderables: Iterable[RenderableType]) -> None:
    """Print the session, write it, and exit with 1 where a result was wrong."""
    console = output()
    for renderable in renderables:
        console.print(renderable)
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
