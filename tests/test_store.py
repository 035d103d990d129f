import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cudabench import store
from cudabench.errors import BadInputError
from cudabench.records import BOTH, L2, NEITHER, Clock, HandOver, Opinion, SecondOpinion
from cudabench.store import Destination
from tests.samples import BACKLOG, measurement, reading, session

COLUMNS = [
    *("session", "device", "operator", "n", "clock", "first_sync", "second_sync", "backlog"),
    *("iteration", "seconds", "launch_seconds", "waited_seconds", "start_seconds", "ready"),
]


@pytest.fixture
def destination(tmp_path: Path) -> Destination:
    return Destination.of(tmp_path / "new" / "folder", "run-x", None, None)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_samples_are_one_row_each(destination: Destination) -> None:
    measured = session(
        measurement(BOTH, [1.5, 2.5]),
        measurement(NEITHER, [80.0, 81.0], Clock.EVENT, BACKLOG, "x", 1),
    )
    store.write(measured, destination)
    found = rows(destination.samples)
    assert list(found[0]) == COLUMNS
    assert [(r["operator"], r["clock"], r["first_sync"], r["backlog"]) for r in found] == [
        ("add2", "time", "True", "False"),
        ("add2", "time", "True", "False"),
        ("x", "event", "False", "True"),
        ("x", "event", "False", "True"),
    ]
    seconds = [sample.seconds for m in measured.measurements for sample in m.samples]
    assert [float(r["seconds"]) for r in found] == seconds
    assert [(r["iteration"], r["ready"]) for r in found[2:]] == [("0", "False"), ("1", "True")]


def test_summary_is_one_row_a_measurement(destination: Destination) -> None:
    measured = session(
        measurement(BOTH, [1.0, 2.0, 6.0]), measurement(NEITHER, 80, Clock.EVENT, BACKLOG, "x", 4)
    )
    store.write(measured, destination)
    both, neither = rows(destination.summary)
    figures = [float(both[f"{name}_seconds"]) for name in ("mean", "median", "min", "max")]
    assert figures == pytest.approx([3e-6, 2e-6, 1e-6, 6e-6])
    assert (neither["not_ready"], neither["backlog_n"]) == ("4", "4096")


def test_estimates_are_one_row_a_reading(destination: Destination) -> None:
    store.write(session(measurement(BOTH, 1), reading(4.0), reading(-0.5, "x")), destination)
    own, unresolved = rows(destination.estimates)
    assert (own["operator"], own["l2"], own["method"], own["stop"]) == (
        *("add2", "warm", "held", "precision"),
    )
    names = ("gross", "floor", "net", "net_low", "net_high")
    figures = [float(own[f"{name}_seconds"]) for name in names]
    assert figures == pytest.approx([6e-6, 2e-6, 4e-6, 4e-6, 4e-6])
    assert float(own["bytes_per_second"]) == pytest.approx(12_288 / 4e-6)
    assert (unresolved["resolved"], unresolved["bytes_per_second"]) == ("False", "")


def test_the_session_is_whole_in_json(destination: Destination) -> None:
    store.write(session(measurement(BOTH, 1), label="host größer"), destination)
    found = json.loads(destination.session.read_text(encoding="utf-8"))
    assert found["schema"] == 4
    assert found["loop"] == {"iterations": 10, "warmup": 10}
    assert found["environment"]["device"]["label"] == "host größer"
    assert found["environment"]["torch"] == "t"
    assert found["measurements"][0]["mode"] == {"first_sync": True, "second_sync": True}
    assert len(found["measurements"][0]["samples"]) == 10


def test_nothing_else_is_left_in_the_folder(destination: Destination) -> None:
    store.write(session(measurement(BOTH, 1)), destination)
    assert sorted(destination.samples.parent.iterdir()) == sorted(destination.paths())


def test_a_failed_write_leaves_the_old_file_whole(
    destination: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(session(measurement(BOTH, 1)), destination)
    before = destination.session.read_text()

    def half(path: Path, text: str, encoding: str, errors: str) -> int:
        path.write_bytes(text[:10].encode(encoding, errors))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(BadInputError, match="No space left"):
        store.write(session(measurement(BOTH, 2)), destination)
    assert destination.session.read_text() == before
    assert sorted(destination.samples.parent.iterdir()) == sorted(destination.paths())


def test_a_named_csv_takes_the_summary_along(tmp_path: Path) -> None:
    destination = Destination.of(tmp_path, "run-x", tmp_path / "my.csv", None)
    assert destination.samples == tmp_path / "my.csv"
    assert destination.summary == tmp_path / "my-summary.csv"
    assert destination.estimates == tmp_path / "my-estimates.csv"
    assert destination.session == tmp_path / "run-x.json"


def test_trying_a_place_leaves_nothing_behind(destination: Destination, tmp_path: Path) -> None:
    destination.require_writable()
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", Path("/proc/nothing")):
        with pytest.raises(BadInputError, match="cannot write"):
            Destination.of(folder, "x", None, None).require_writable()
    for taken in (tmp_path, Path("/dev/null"), Path()):
        with pytest.raises(BadInputError, match="it is no regular file"):
            Destination.of(tmp_path, "x", None, taken).require_writable()
    with pytest.raises(BadInputError, match="cannot write"):
        Destination.of(tmp_path / ("long" * 100), "x", None, None).require_writable()


def test_a_link_is_followed_not_replaced(destination: Destination, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "target.json")
    store.write(session(measurement(BOTH, 1)), replace(destination, session=link))
    assert link.is_symlink()
    assert json.loads((tmp_path / "target.json").read_text(encoding="utf-8"))["id"] == "run-x"


def test_what_is_no_unicode_is_escaped(destination: Destination) -> None:
    store.write(session(measurement(BOTH, 1), label="caf\udce9"), destination)
    assert "caf" in destination.session.read_text(encoding="utf-8")


def test_one_file_cannot_hold_both(tmp_path: Path) -> None:
    same = tmp_path / "x"
    with pytest.raises(BadInputError, match="same name"):
        Destination.of(tmp_path, "x", same, same).require_writable()


def test_the_parts_are_in_the_summary_where_they_were_measured(destination: Destination) -> None:
    way = HandOver(start=3e-6, work=4e-6, end=4e-6, pair=6e-6, gap=9e-6, gap_launch=7e-6)
    store.write(session(measurement(BOTH, 20), reading(4.0), way), destination)
    (row,) = rows(destination.summary)
    assert float(row["part_launch_call_seconds"]) == pytest.approx(8e-6)
    assert float(row["part_operator_seconds"]) == pytest.approx(4e-6)
    parts = ("launch_call", "backlog", "launch_to_start", "launch_gap", "operator", "event_pair")
    total = sum(
        float(row[f"part_{part}_seconds"]) for part in (*parts, "end_to_return", "unexplained")
    )
    assert total == pytest.approx(20e-6)


def test_opinions_are_one_row_each(tmp_path: Path) -> None:
    destination = Destination.of(tmp_path, "m", None, None, with_opinions=True)
    said = SecondOpinion(Opinion.BATCH, "add2", 1024, L2.WARM, (5e-6,), (2e-6,))
    silent = SecondOpinion(Opinion.GRAPH, "add2", 1024, L2.WARM, (), why_not="CUDA only")
    store.write(session(measurement(BOTH, 20), reading(4.0), said, silent), destination)
    assert destination.opinions
    batch, graph = rows(destination.opinions)
    assert (batch["method"], batch["agrees"]) == ("batch", "True")
    assert float(batch["seconds"]) == pytest.approx(4e-6)
    assert (graph["seconds"], graph["agrees"], graph["why_not"]) == ("", "False", "CUDA only")
