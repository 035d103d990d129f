"""The Chrome trace: its events, their places, and the arrows from calls to works."""

import json
from collections import Counter
from typing import Any

import pytest

from cudabench.ranges import ModeName, OperatorName
from cudabench.records import BOTH, Clock
from cudabench.report.timeline import chrome as module
from cudabench.report.timeline.chrome import chrome
from cudabench.trace import Iteration, Trace
from tests.traces import Call, Range, Work, iteration, trace

Event = dict[str, Any]
START = 1_765_107_600_123_456_789  # an odd one, and too large for a float
HOST, DEVICE = 1, 2

SAMPLE = trace(
    ranges=[
        Range(START, START + 30_001, str(OperatorName("add2", 7))),
        Range(START + 100, START + 30_000, str(ModeName(BOTH, Clock.TIME, False))),
        Range(START + 1_003, START + 25_000, "iteration"),
        Range(START + 26_000, START + 26_000, "reading 17000 ns"),
        Range(START + 26_100, START + 26_100, "tick"),
        Range(START + 26_200, START + 26_200, "clock 17"),
        Range(START + 26_300, START + 26_300, "launched 1 2 3 4"),
    ],
    calls=[
        Call(START + 6_001, START + 14_000, 42),
        Call(START + 14_500, START + 22_000, 43, "cudaDeviceSynchronize_v3020"),
        Call(START + 22_500, START + 22_600, -1, "cudaEventRecord_v3020"),
    ],
    work=[
        Work(START + 15_007, START + 19_000, 42, "void add2<float>(float*)", stream=13),
        Work(START + 19_500, START + 19_600, 99, "memset", "memset"),
        Work(START + 20_000, START + 20_100, -1, "memcpy", "memcpy"),
    ],
    device="NVIDIA H200",
)


def events(made: Trace, iterations: tuple[Iteration, ...] = ()) -> list[Event]:
    found: list[Event] = json.loads(chrome(made, iterations))["traceEvents"]
    return found


def of_phase(found: list[Event], *phases: str) -> list[Event]:
    return [event for event in found if event["ph"] in phases]


def test_it_is_one_json_object_that_says_what_it_shows() -> None:
    text = chrome(SAMPLE, ())
    whole = json.loads(text)
    assert text.endswith("}\n")
    assert whole["displayTimeUnit"] == "ns"
    assert whole["otherData"] == {"source": "a test", "device": "NVIDIA H200"}


def test_events_are_placed_to_the_nanosecond_from_the_traces_start() -> None:
    placed = [
        (event["name"], event["cat"], event["pid"], round(event["ts"] * 1e3, 6), event["dur"])
        for event in of_phase(events(SAMPLE), "X")
    ]
    assert placed == [
        ("operator add2, n = 7", "step", HOST, 0, 30.001),
        ("mode both, clock time, no backlog", "step", HOST, 100, 29.9),
        ("iteration", "step", HOST, 1_003, 23.997),
        ("cudaLaunchKernel_v7000", "call", HOST, 6_001, 7.999),
        ("cudaDeviceSynchronize_v3020", "call", HOST, 14_500, 7.5),
        ("cudaEventRecord_v3020", "call", HOST, 22_500, 0.1),
        ("void add2<float>(float*)", "kernel", DEVICE, 15_007, 3.993),
        ("memset", "memset", DEVICE, 19_500, 0.1),
        ("memcpy", "memcpy", DEVICE, 20_000, 0.1),
    ]


@pytest.mark.parametrize("first", ["ranges", "calls", "work"])
def test_it_begins_with_whichever_table_begins_first(first: str) -> None:
    begins = {"ranges": 500, "calls": 600, "work": 700, first: 100}
    made = trace(
        [Range(begins["ranges"], 900, "iteration")],
        [Call(begins["calls"], 900)],
        [Work(begins["work"], 900)],
    )
    assert min(event["ts"] for event in of_phase(events(made), "X")) == 0
    assert max(event["ts"] + event["dur"] for event in of_phase(events(made), "X")) == 0.8


def test_hours_are_placed_to_the_nanosecond_too() -> None:
    day = 86_400 * 10**9
    (first, second) = of_phase(events(trace(work=[Work(0, 1), Work(day + 1, day + 2)])), "X")
    assert (first["ts"], second["ts"]) == (0, 86_400_000_000.001)


def test_calls_and_works_that_belong_together_are_joined_by_one_arrow() -> None:
    found = events(SAMPLE)
    ((start, end),) = zip(of_phase(found, "s"), of_phase(found, "f"), strict=True)
    assert start["id"] == end["id"] == 42
    assert (start["name"], start["cat"]) == (end["name"], end["cat"])
    call, work = (next(e for e in found if e.get("dur") == dur) for dur in (7.999, 3.993))
    for arrow, event in ((start, call), (end, work)):
        assert [arrow[key] for key in ("ts", "pid", "tid")] == [
            event[key] for key in ("ts", "pid", "tid")
        ]
    assert end["bp"] == "e"
    assert not of_phase(found, "t")


def test_a_launch_of_many_works_has_an_arrow_to_each() -> None:
    work = [Work(100 * i, 100 * i + 50, 1 + i // 3) for i in range(6)]
    found = events(trace(calls=[Call(0, 1, 1), Call(2, 3, 2)], work=work))
    assert Counter(event["id"] for event in of_phase(found, "s")) == {1: 1, 2: 1}
    assert Counter(event["id"] for event in of_phase(found, "f")) == {1: 3, 2: 3}


def test_a_correlation_of_0_is_one_and_none_is_none() -> None:
    found = events(
        trace(calls=[Call(0, 1, 0), Call(2, 3, -1)], work=[Work(4, 5, -1), Work(6, 7, 0)])
    )
    assert [event["id"] for event in of_phase(found, "s", "f")] == [0, 0]


def test_what_the_clock_read_has_a_thread_of_its_own() -> None:
    made = trace([Range(1_000, 25_000, "iteration")])
    read = [iteration(), iteration(seconds=None)]
    (timed,) = (e for e in events(made, tuple(read)) if e.get("cat") == "timed")
    assert (timed["ts"], timed["dur"]) == (4.5, 17.0)
    threads = {e["tid"]: e["args"]["name"] for e in of_phase(events(made), "M") if e["tid"]}
    assert threads[timed["tid"]] == "what the clock read"


def test_every_thread_and_process_that_has_events_has_one_name() -> None:
    found = events(SAMPLE, (iteration(),))
    named = Counter((e["name"], e["pid"], e["tid"]) for e in of_phase(found, "M"))
    assert set(named.values()) == {1}
    for event in of_phase(found, "X", "s", "f"):
        assert ("thread_name", event["pid"], event["tid"]) in named
        assert ("process_name", event["pid"], 0) in named
    names = {e["args"]["name"] for e in of_phase(found, "M")}
    assert {"host", "NVIDIA H200", "stream 7", "stream 13"} <= names


def test_a_device_without_a_name_is_a_device() -> None:
    assert "device" in {e["args"]["name"] for e in of_phase(events(trace(device="")), "M")}


@pytest.mark.parametrize("absent", ["ranges", "calls", "work"])
def test_a_table_may_be_empty(absent: str) -> None:
    tables = {
        "ranges": [Range(100, 900, "iteration")],
        "calls": [Call(200, 300, 1)],
        "work": [Work(400, 500, 1)],
    }
    found = events(trace(**{**tables, absent: []}))  # type: ignore[arg-type]
    assert len(of_phase(found, "X")) == 2
    assert len(of_phase(found, "s", "f")) == (2 if absent == "ranges" else 0)


def test_an_empty_trace_has_only_names() -> None:
    assert {event["ph"] for event in events(trace())} == {"M"}


def test_names_are_kept_as_they_are() -> None:
    names = ["加算<é>", 'quote " and \\', "line\nbreak", "a\x1b[31m"]
    made = trace([Range(0, 9, names[0])], [Call(0, 1, 1, names[1])], [Work(2, 3, 1, names[2])])
    assert [event["name"] for event in of_phase(events(made), "X")] == names[:3]
    assert "加算" in chrome(made, ())


def test_of_each_kind_come_the_first_and_no_arrow_without_its_other_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 3)
    made = trace(
        [Range(10 * i, 10 * i + 5, "iteration") for i in range(9)],
        [Call(10 * i, 10 * i + 1, i) for i in range(9)],
        # The works of later calls run first.
        [Work(100 + 10 * i, 101 + 10 * i, 3 - i) for i in range(4)],
    )
    found = events(made)
    kinds = Counter(event["cat"] for event in of_phase(found, "X"))
    assert kinds == {"step": 3, "call": 3, "kernel": 3}
    assert [event["id"] for event in of_phase(found, "s")] == [1, 2]
    assert [event["id"] for event in of_phase(found, "f")] == [2, 1]


# What the Trace Event Format asks of each phase, and Perfetto's JSON importer reads.
FIELDS: dict[str, dict[str, Any]] = {
    "X": {"name": str, "cat": str, "ts": (int, float), "dur": (int, float), "pid": int, "tid": int},
    "s": {"name": str, "cat": str, "ts": (int, float), "id": int, "pid": int, "tid": int},
    "f": {
        "name": str,
        "cat": str,
        "ts": (int, float),
        "id": int,
        "pid": int,
        "tid": int,
        "bp": str,
    },
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}


def test_each_event_has_the_fields_of_its_phase() -> None:
    found = events(SAMPLE, (iteration(), iteration(clock=Clock.EVENT)))
    assert {event["ph"] for event in found} == set(FIELDS)
    for event in found:
        for field, kind in FIELDS[event["ph"]].items():
            assert isinstance(event[field], kind), event
        assert event.get("dur", 0) >= 0


def test_no_number_is_one_that_json_does_not_know() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for made in (SAMPLE, trace(), trace([Range(0, 0, "iteration")])):
        json.loads(chrome(made, (iteration(),)), parse_constant=refuse)


def test_an_arrow_comes_after_the_event_that_it_is_bound_to() -> None:
    found = events(SAMPLE)
    for arrow in of_phase(found, "s", "f"):
        before = found[found.index(arrow) - 1]
        assert before["ph"] == "X"
        assert before["ts"] <= arrow["ts"] <= before["ts"] + before["dur"]
