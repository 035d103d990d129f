"""Where things are printed: tables to stdout, progress and messages to stderr."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

Item = TypeVar("Item")

# A pipe has no width: nothing is cut or folded there.
_PIPE_WIDTH = 100_000


def output() -> Console:
    """Return the console for tables, on stdout; plain and unfolded where that is no terminal."""
    return Console(highlight=False, markup=False, width=_width(sys.stdout))


def _width(stream: TextIO | None) -> int | None:
    """Return None, for its own, of a terminal. A stream that was closed is no terminal."""
    return None if stream and stream.isatty() else _PIPE_WIDTH


class Messages:
    """What is said beside the tables, on stderr; only errors where `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, width=_width(sys.stderr))
        self._quiet = quiet

    def note(self, text: str) -> None:
        """Say something in passing."""
        if not self._quiet:
            self._console.print(Text(text, style="dim"))

    def error(self, text: str) -> None:
        """Say what went wrong."""
        self._console.print(Text.assemble(("error: ", "bold red"), text))

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner with `text`; yield what says another, in lines where it is a pipe."""
        if self._quiet or not self._console.is_terminal:
            yield self.note
            return
        with self._console.status(Text(text)) as status:
            yield lambda said: status.update(Text(said))

    def progress(self, items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
        """Yield the items behind a bar that is gone at the end; without one in a pipe.

        The bar is drawn between items alone: a thread that redraws it would hold Python's lock
        inside the timed regions.
        """
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            auto_refresh=False,
            disable=self._quiet or not self._console.is_terminal,
        )
        with bar:
            task = bar.add_task(what, total=total)
            bar.refresh()
            for item in items:
                bar.update(task, advance=1, refresh=True)
                yield item
