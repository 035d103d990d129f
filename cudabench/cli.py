"""The commands: each parses its options, calls, and reports."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from typer.core import TyperGroup

from cudabench import __version__
from cudabench.errors import BadInputError, CudabenchError
from cudabench.records import MODES, Clock, Loop, Measurement, Session, new_session_id
from cudabench.report.console import Messages, output
from cudabench.report.tables import run_report, sync_modes_report
from cudabench.store import Destination
from cudabench.units import parse_count

if TYPE_CHECKING:
    from cudabench.runner import Bench

_DEBUG = "cudabench.debug"
_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
_WRONG_RESULT = 1


class _Commands(TyperGroup):
    """Shows an error in one line and exits with its code; the traceback only with --debug."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; every error of ours is caught here, once."""
        try:
            return super().invoke(ctx)
        except CudabenchError as error:
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            Messages().error(str(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            Messages().error("interrupted; nothing was written")
            raise typer.Exit(_INTERRUPTED) from error


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
Clocks = Annotated[
    list[Clock],
    typer.Option(
        "--clock",
        metavar="CLOCK",
        help="What reads the time: time (time.time), perf_counter (time.perf_counter_ns) or event"
        " (a pair of device events); may be given several times.",
    ),
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
    clock: Annotated[
        Clock,
        typer.Option(
            "--clock", metavar="CLOCK", help="What reads the time: time, perf_counter or event."
        ),
    ] = Clock.TIME,
    iters: Iterations = 10,
    warmup: WarmUp = 10,
    out: OutFolder = Path("results"),
    csv: CsvFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Time add2 against a + b and torch.add(out=), with both synchronizes."""
    request = _request("run", n, device, iters, warmup, out, csv, json, quiet)

    def measure(bench: "Bench") -> Iterator[Measurement]:
        from cudabench import runner

        return runner.run(bench, request.n, clock, request.loop)

    session = _recorded(request, measure, total=3)
    _report(request, session, run_report(session))


@app.command()
def sync_modes(
    n: N = "16777216",
    device: DeviceName = "auto",
    clock: Clocks = [Clock.TIME, Clock.EVENT],  # noqa: B006 - Typer copies it
    backlog: Annotated[
        bool | None,
        typer.Option(
            "--backlog/--no-backlog",
            help="Only with, or only without, work queued before each iteration (default: both).",
        ),
    ] = None,
    iters: Iterations = 10,
    warmup: WarmUp = 10,
    out: OutFolder = Path("results"),
    csv: CsvFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Time add2 with and without each synchronize, and say what each way measured."""
    request = _request("sync-modes", n, device, iters, warmup, out, csv, json, quiet)
    clocks = tuple(dict.fromkeys(clock))
    backlogs = (False, True) if backlog is None else (backlog,)

    def measure(bench: "Bench") -> Iterator[Measurement]:
        from cudabench import runner

        return runner.sync_modes(bench, request.n, clocks, backlogs, request.loop)

    session = _recorded(request, measure, total=len(MODES) * len(clocks) * len(backlogs))
    _report(request, session, sync_modes_report(session, output().width))


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
    destination: Destination
    messages: Messages


def _request(
    command: str,
    n: str,
    device: str,
    iters: int,
    warmup: int,
    out: Path,
    csv: Path | None,
    json: Path | None,
    quiet: bool,
) -> _Request:
    """Check what can be checked before anything heavy is loaded."""
    count = parse_count(n)
    if iters < 1:
        raise BadInputError(f"--iters must be at least 1, got {iters}", "Try --iters 10")
    if warmup < 0:
        raise BadInputError(f"--warmup must be 0 or more, got {warmup}", "Try --warmup 10")
    session_id = new_session_id(command)
    destination = Destination.of(out, session_id, csv, json)
    destination.require_writable()
    messages = Messages(quiet)
    return _Request(session_id, command, count, device, Loop(iters, warmup), destination, messages)


def _recorded(
    request: _Request, measure: Callable[["Bench"], Iterator[Measurement]], total: int
) -> Session:
    """Open the device, take the measurements behind a progress bar, and write the session."""
    messages = request.messages
    with messages.waiting("loading PyTorch") as say:
        from cudabench import runner, store

        bench = runner.open_bench(request.device, say)
    if request.device == "auto" and bench.device.properties.kind == "host":
        messages.note("No CUDA device: timing on the host stream, an asynchronous CPU stream.")
    recorder = runner.Recorder(bench, request.session_id, request.command)
    session = recorder.session(list(messages.progress(measure(bench), total, "measuring")))
    store.write(session, request.destination)
    return session


def _report(request: _Request, session: Session, renderables: Iterable[RenderableType]) -> None:
    """Print the session and where it was written; exit with 1 where a result was wrong."""
    console = output()
    for renderable in renderables:
        console.print(renderable)
    for path in request.destination.paths():
        request.messages.note(f"wrote {path}")
    wrong = sorted({m.operator for m in session.measurements if m.correct is False})
    for operator in wrong:
        request.messages.error(
            f"{operator} gave another result than PyTorch, so its timing is invalid."
            " Correct the kernel first"
        )
    if wrong:
        raise typer.Exit(_WRONG_RESULT)
