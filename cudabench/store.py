"""A session to JSON and CSV: each file whole or not there at all."""

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudabench import stats
from cudabench.budget import Part, budget
from cudabench.consensus import panels
from cudabench.errors import BadInputError
from cudabench.records import SCHEMA_VERSION, Measurement, Session

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Destination:
    """The files of a session."""

    samples: Path
    summary: Path
    estimates: Path
    session: Path
    opinions: Path | None = None

    @classmethod
    def of(
        cls,
        folder: Path,
        name: str,
        csv: Path | None,
        json_file: Path | None,
        with_opinions: bool = False,
    ) -> "Destination":
        """Return `folder`/`name`-samples.csv and so on, where not named otherwise.

        The other CSV files go beside the samples.
        """
        samples = csv or folder / f"{name}-samples.csv"
        beside = samples.parent / samples.stem.removesuffix("-samples")
        return cls(
            samples=samples,
            summary=Path(f"{beside}-summary.csv"),
            estimates=Path(f"{beside}-estimates.csv"),
            session=json_file or folder / f"{name}.json",
            opinions=Path(f"{beside}-opinions.csv") if with_opinions else None,
        )

    def paths(self) -> tuple[Path, ...]:
        """Return all of them."""
        files = (self.samples, self.summary, self.estimates, self.opinions, self.session)
        return tuple(path for path in files if path)

    def require_writable(self) -> None:
        """Try each place, so that nothing is measured in vain; leave nothing behind.

        Raises:
            BadInputError: A folder cannot be made or written, or a file's place is taken.
        """
        if len({path.absolute() for path in self.paths()}) < len(self.paths()):
            raise BadInputError("two of the files have the same name", "Name others")
        for path in self.paths():
            try:
                _try(path)
            except (OSError, ValueError) as error:
                raise _unwritable(path, error) from error


def write(session: Session, destination: Destination) -> None:
    """Write the session's samples and summary as CSV and the whole of it as JSON.

    CSV has decimal points and UTF-8 whatever the locale; JSON holds the raw samples.

    Raises:
        BadInputError: A file could not be written; what was in its place is untouched.
    """
    whole = json.dumps(dataclasses.asdict(session), indent=1, ensure_ascii=False)
    texts = {
        destination.samples: samples_frame(session).to_csv(index=False),
        destination.summary: summary_frame(session).to_csv(index=False),
        destination.estimates: estimates_frame(session).to_csv(index=False),
        destination.session: whole + "\n",
    }
    if destination.opinions:
        texts[destination.opinions] = opinions_frame(session).to_csv(index=False)
    for path, text in texts.items():
        write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Put a new file with `text` in the place of `path`, whole, in UTF-8.

    Raises:
        BadInputError: It could not be written; what was in its place is untouched.
    """
    try:
        with _temporary(path) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
            temporary.replace(path.resolve())
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error


def read(path: Path) -> Session:
    """Return the session in a JSON file of this version's schema.

    Raises:
        BadInputError: It is no such file.
    """
    import cattrs

    try:
        return cattrs.structure(json.loads(path.read_text(encoding="utf-8")), Session)
    except (OSError, ValueError, cattrs.BaseValidationError) as error:
        why = getattr(error, "strerror", None) or f"it is no session of schema {SCHEMA_VERSION}"
        raise BadInputError(f"cannot read {path}: {why}") from error


def samples_frame(session: Session) -> "pd.DataFrame":
    """Return one row per sample; `seconds` of events are read after the loop, `ready` at once."""
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame.from_records(
        [
            {
                **_what(session, m),
                "iteration": i,
                "seconds": sample.seconds,
                "launch_seconds": sample.launch_seconds,
                "waited_seconds": sample.waited_seconds,
                "start_seconds": sample.start_seconds,
                "ready": sample.ready,
            }
            for m in session.measurements
            for i, sample in enumerate(m.samples)
        ]
    )
    return frame


def summary_frame(session: Session) -> "pd.DataFrame":
    """Return one row per measurement, in seconds."""
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame.from_records(
        [{**_what(session, m), **_figures(m), **_parts(session, m)} for m in session.measurements]
    )
    return frame


def estimates_frame(session: Session) -> "pd.DataFrame":
    """Return one row per accurate reading, in seconds and bytes per second."""
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame.from_records(
        [
            {
                "session": session.id,
                "device": session.environment.device.label,
                "operator": estimate.reading.operator,
                "n": estimate.reading.n,
                "l2": estimate.reading.l2.value,
                "method": estimate.reading.method.value,
                "stop": estimate.reading.stop.value,
                "samples": len(estimate.reading.gross),
                "outliers": stats.outliers(estimate.reading.gross),
                "gross_seconds": estimate.gross.value,
                "gross_first_quartile_seconds": stats.quartiles(estimate.reading.gross)[0],
                "gross_third_quartile_seconds": stats.quartiles(estimate.reading.gross)[1],
                "floor_seconds": estimate.taken_off.value,
                "net_seconds": estimate.net.value,
                "net_low_seconds": estimate.net.low,
                "net_high_seconds": estimate.net.high,
                "resolved": estimate.resolved,
                "bytes_per_second": estimate.bandwidth,
            }
            for estimate in session.estimates
        ]
    )
    return frame


def opinions_frame(session: Session) -> "pd.DataFrame":
    """Return one row per second opinion, in seconds; without a figure where it cannot say."""
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame.from_records(
        [
            {
                "session": session.id,
                "device": session.environment.device.label,
                "operator": panel.operator,
                "n": panel.n,
                "l2": panel.l2.value,
                "method": opinion.opinion.value,
                "seconds": panel.figure(opinion),
                "consensus_seconds": panel.consensus,
                "agrees": panel.agrees(panel.figure(opinion) or math.inf),
                "why_not": opinion.why_not,
            }
            for panel in panels(session)
            for opinion in panel.opinions
        ]
    )
    return frame


def _what(session: Session, measurement: Measurement) -> dict[str, Any]:
    return {
        "session": session.id,
        "device": session.environment.device.label,
        "operator": measurement.operator,
        "n": measurement.n,
        "clock": measurement.clock.value,
        "first_sync": measurement.mode.first_sync,
        "second_sync": measurement.mode.second_sync,
        "backlog": measurement.backlog is not None,
    }


def _figures(measurement: Measurement) -> dict[str, Any]:
    summary, backlog = measurement.summary, measurement.backlog
    return {
        "backlog_launches": backlog.launches if backlog else 0,
        "backlog_n": backlog.n if backlog else 0,
        "backlog_seconds": backlog.seconds if backlog else 0.0,
        "iterations": len(measurement.samples),
        "not_ready": measurement.not_ready,
        "mean_seconds": summary.mean,
        "median_seconds": summary.median,
        "min_seconds": summary.minimum,
        "max_seconds": summary.maximum,
        "correct": measurement.correct,
    }


def _parts(session: Session, measurement: Measurement) -> dict[str, Any]:
    """Return the parts of the median, in seconds; none where they were not measured."""
    found = budget(session, measurement)
    if found is None:
        return {}
    parts = {f"part_{part.value.replace(' ', '_')}_seconds": found.seconds(part) for part in Part}
    return {**parts, "part_unexplained_seconds": found.unexplained}


def _unwritable(path: Path, error: Exception) -> BadInputError:
    why = getattr(error, "strerror", None) or str(error)
    return BadInputError(
        f"cannot write {path}: {why}", "Name another with --output, --csv or --json"
    )


def _try(path: Path) -> None:
    """Do all that writing `path` takes but the last step, and take it back."""
    made = [folder for folder in path.absolute().parents if not folder.exists()]
    try:
        with _temporary(path):
            pass
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield a new file beside the one that `path` leads to; it is gone at the end."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise ValueError("it is no regular file")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{os.getpid()}-{target.name}"[:200])
    temporary.touch()
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
