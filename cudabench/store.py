"""A session to JSON and CSV: each file whole or not there at all."""

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudabench.errors import BadInputError
from cudabench.records import Measurement, Session

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Destination:
    """The three files of a session."""

    samples: Path
    summary: Path
    session: Path

    @classmethod
    def of(cls, folder: Path, name: str, csv: Path | None, json_file: Path | None) -> "Destination":
        """Return `folder`/`name`-samples.csv, -summary.csv and .json, where not named otherwise.

        The summary goes beside the samples.
        """
        samples = csv or folder / f"{name}-samples.csv"
        stem = samples.stem.removesuffix("-samples")
        return cls(
            samples=samples,
            summary=samples.with_name(f"{stem}-summary.csv"),
            session=json_file or folder / f"{name}.json",
        )

    def paths(self) -> tuple[Path, Path, Path]:
        """Return all three."""
        return self.samples, self.summary, self.session

    def require_writable(self) -> None:
        """Try each place, so that nothing is measured in vain; leave nothing behind.

        Raises:
            BadInputError: A folder cannot be made or written, or a file's place is taken.
        """
        if len({path.absolute() for path in self.paths()}) < len(self.paths()):
            raise BadInputError("--csv and --json name the same file", "Name two files")
        for path in self.paths():
            if path.is_dir():
                raise BadInputError(f"cannot write {path}: it is a folder", "Name a file")
            made = [folder for folder in path.absolute().parents if not folder.exists()]
            try:
                with _replacing(path, keep=False):
                    pass
            except OSError as error:
                raise _unwritable(path, error) from error
            finally:
                for folder in made:
                    with suppress(OSError):
                        folder.rmdir()


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
        destination.session: whole + "\n",
    }
    for path, text in texts.items():
        try:
            with _replacing(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error


def samples_frame(session: Session) -> "pd.DataFrame":
    """Return one row per sample; `seconds` of events are read after the loop, `ready` at once."""
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame.from_records(
        [
            {**_what(session, m), "iteration": i, "seconds": sample.seconds, "ready": sample.ready}
            for m in session.measurements
            for i, sample in enumerate(m.samples)
        ]
    )
    return frame


def summary_frame(session: Session) -> "pd.DataFrame":
    """Return one row per measurement, in seconds and bytes per second."""
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame.from_records(
        [{**_what(session, m), **_figures(m)} for m in session.measurements]
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
        "bytes_per_second": measurement.bandwidth,
        "correct": measurement.correct,
    }


def _unwritable(path: Path, error: OSError) -> BadInputError:
    return BadInputError(f"cannot write {path}: {error.strerror}", "Name another place with --out")


@contextmanager
def _replacing(path: Path, keep: bool = True) -> Iterator[Path]:
    """Yield a new file beside `path`, which takes its place at the end where `keep` is true."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.touch()
    try:
        yield temporary
        if keep:
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
