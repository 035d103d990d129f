"""Pictures and tables as one page that needs no network, with timelines to zoom and pan."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.cells import cell_len

from cudabench.report.timeline.axis import ROLE_NAMES, Axis, Tick, plain, ticks, unit
from cudabench.report.timeline.labels import Row, rows
from cudabench.trace import Picture

# The narrowest that a timeline gets, in letters: labels that find a place there find it anywhere.
_CELLS = 80
_CELLS_A_TICK = 12
_MOST_NAME_CELLS = 12


@dataclass(frozen=True)
class Table:
    """A table of texts: a row has as many cells as the header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def html(
    pictures: Sequence[Picture], tables: Sequence[Table], title: str, notes: Sequence[str]
) -> str:
    """Return the page: its title, the notes as paragraphs, the pictures, and the tables."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters["digest"] = _digest
    return environment.get_template("page.html").render(
        timelines=[_timeline(picture) for picture in pictures],
        tables=tables,
        title=title,
        notes=notes,
        roles=ROLE_NAMES,
        cells=_CELLS,
    )


@dataclass(frozen=True)
class _Timeline:
    """A picture, and where its bars fall."""

    picture: Picture
    axis: Axis
    ticks: tuple[Tick, ...]
    unit: tuple[str, int]
    lanes: list[tuple[str, tuple[Row, ...]]]
    names: int


def _timeline(picture: Picture) -> _Timeline:
    axis = Axis(picture, _CELLS)
    longest = max((cell_len(plain(lane.name)) for lane in picture.lanes), default=0)
    return _Timeline(
        picture,
        axis,
        ticks(axis.length, _CELLS // _CELLS_A_TICK),
        unit(axis.length),
        [(lane.name, rows(lane, axis)) for lane in picture.lanes],
        round(min(longest, _MOST_NAME_CELLS) * 6.7) + 20,
    )


def _digest(script: str) -> str:
    """Return by what a Content-Security-Policy knows a script."""
    return b64encode(sha256(script.encode()).digest()).decode()
