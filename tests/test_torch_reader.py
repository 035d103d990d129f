"""Chrome traces in the shape that torch.profiler writes, one of them really written by it."""

import json
from pathlib import Path

import pytest
import torch

from cudabench.errors import ProfilerError
from cudabench.profiling.torch_reader import read_torch
from cudabench.ranges import torch_ranges
from tests.traces import columns

# As it stands there: us with three decimals, too many figures for a float to hold.
TRACE = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150000000000},
    {"id": 1, "name": "NVIDIA A100"}
  ],
  "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "iteration", "pid": 9, "tid": 9,
     "ts": 1765107600123456.001, "dur": 30.010, "args": {"External id": 1}},
    {"ph": "X", "cat": "user_annotation", "name": "launch", "pid": 9, "tid": 9,
     "ts": 1765107600123457.001, "dur": 9.999, "args": {}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "launch", "pid": 0, "tid": 7,
     "ts": 1765107600123467.123, "dur": 3.584},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
     "ts": 1765107600123458.003, "dur": 8.001, "args": {"External id": 1, "correlation": 42}},
    {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 9, "tid": 9,
     "ts": 1765107600123457.500, "dur": 0.001, "args": {"correlation": 43}},
    {"ph": "s", "id": 42, "cat": "ac2g", "name": "ac2g", "pid": 9, "tid": 9,
     "ts": 1765107600123458.003},
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7,
     "ts": 1765107600123480.000, "dur": 1, "args": {"device": 0, "stream": 7, "correlation": 44}},
    {"ph": "X", "cat": "kernel", "name": "void add2<float>(float const*, long)", "pid": 0, "tid": 7,
     "ts": 1765107600123467.123, "dur": 3.584,
     "args": {"device": 0, "context": 1, "stream": 7, "correlation": 42, "grid": [1, 1, 1]}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 1, "tid": 20,
     "ts": 1765107600123479.999, "dur": 0.001,
     "args": {"device": 1, "stream": 20, "correlation": 45, "bytes": 4}},
    {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "i", "s": "g", "name": "Record Window End", "ts": 1765107600999999.000}
  ],
  "traceName": "capture.trace", "displayTimeUnit": "ms"
}"""
US = 1765107600123456_000  # in ns


def written(tmp_path: Path, content: object) -> Path:
    """A file of text, of bytes, or of anything else as JSON."""
    file = tmp_path / "a.trace"
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    file.write_bytes(content if isinstance(content, bytes) else text.encode())
    return file


def test_a_trace_is_read_to_the_nanosecond(tmp_path: Path) -> None:
    read = read_torch(written(tmp_path, TRACE))
    assert (read.source, read.device) == ("torch.profiler", "NVIDIA H200")
    assert columns(read.ranges, "start", "end", "text") == [
        (US + 1, US + 30_011, "iteration"),
        (US + 1_001, US + 11_000, "launch"),
    ]
    assert columns(read.calls, "start", "end", "name", "correlation") == [
        (US + 1_500, US + 1_501, "cuLaunchKernel", 43),
        (US + 2_003, US + 10_004, "cudaLaunchKernel", 42),
    ]
    assert columns(read.work, "start", "end", "kind", "correlation", "device", "stream") == [
        (US + 11_123, US + 14_707, "kernel", 42, 0, 7),
        (US + 23_999, US + 24_000, "memcpy", 45, 1, 20),
        (US + 24_000, US + 25_000, "memset", 44, 0, 7),
    ]
    assert read.work["name"].tolist() == [
        "void add2<float>(float const*, long)",
        "Memcpy HtoD (Pinned -> Device)",
        "Memset (Device)",
    ]


@pytest.mark.parametrize("content", [TRACE, {"traceEvents": []}], ids=["full", "empty"])
def test_the_columns_have_the_promised_types(tmp_path: Path, content: object) -> None:
    read = read_torch(written(tmp_path, content))
    for table in (read.ranges, read.calls, read.work):
        for name, dtype in table.dtypes.items():
            expected = "category" if name in ("name", "kind") else "int64"
            assert name == "text" or str(dtype) == expected, name


@pytest.mark.parametrize("properties", [{}, {"deviceProperties": []}, {"deviceProperties": [{}]}])
def test_a_trace_of_no_device_is_empty(tmp_path: Path, properties: dict[str, object]) -> None:
    read = read_torch(written(tmp_path, {"traceEvents": [], **properties}))
    assert read.device == ""
    assert read.ranges.empty
    assert read.calls.empty
    assert read.work.empty


@pytest.mark.parametrize("said", [{}, {"args": {}}, {"args": {"grid": [1, 1, 1]}}, {"args": None}])
def test_numbers_that_are_absent_are_minus_one(tmp_path: Path, said: dict[str, object]) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "add2", "ts": 2, "dur": 1, **said},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 1, **said},
    ]
    read = read_torch(written(tmp_path, {"traceEvents": events}))
    assert columns(read.work, "correlation", "device", "stream") == [(-1, -1, -1)]
    assert read.calls["correlation"].tolist() == [-1]


def test_what_has_no_duration_has_no_length(tmp_path: Path) -> None:
    events = [{"ph": "X", "cat": "cpu_op", "name": "tick", "ts": 1.5}]
    read = read_torch(written(tmp_path, {"traceEvents": events}))
    assert columns(read.ranges, "start", "end") == [(1500, 1500)]


def test_of_ranges_that_begin_together_the_outer_one_comes_first(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur}
        for name, ts, dur in (("later", 9, 1), ("inner", 1, 2), ("outer", 1, 5))
    ]
    read = read_torch(written(tmp_path, {"traceEvents": events}))
    assert read.ranges["text"].tolist() == ["outer", "inner", "later"]


def test_names_of_any_language_are_read(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "加算<é>", "ts": 1, "dur": 1}
    for text in (json.dumps([event]), json.dumps([event], ensure_ascii=False)):
        read = read_torch(written(tmp_path, f'{{"traceEvents": {text}}}'))
        assert read.work["name"].tolist() == ["加算<é>"]


KERNEL = {"ph": "X", "cat": "kernel", "name": "add2", "ts": 1, "dur": 1}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        TRACE[: len(TRACE) // 2],
        b'{"traceEvents": ["\xff\xfe"]}',
        "[]",
        "null",
        "3",
        '"traceEvents"',
        {},
        {"traceEvents": None},
        {"traceEvents": 3},
        {"traceEvents": ["X"]},
        {"traceEvents": [], "deviceProperties": 3},
        {"traceEvents": [], "deviceProperties": ["H200"]},
        {"traceEvents": [{**KERNEL, "ts": "noon"}]},
        {"traceEvents": [{**KERNEL, "ts": None}]},
        {"traceEvents": [{**KERNEL, "dur": float("nan")}]},
        {"traceEvents": [{**KERNEL, "ts": float("inf")}]},
        {"traceEvents": [{**KERNEL, "ts": 1e300}]},
        {"traceEvents": [{**KERNEL, "args": {"stream": "default"}}]},
        {"traceEvents": [{**KERNEL, "args": 3}]},
        {"traceEvents": [{"ph": "X", "cat": "kernel", "name": "add2"}]},
        {"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1}]},
    ],
)
def test_what_is_no_such_trace_is_refused(tmp_path: Path, content: object) -> None:
    file = written(tmp_path, content)
    with pytest.raises(ProfilerError, match=r"cannot read .*a\.trace: it is no Chrome trace"):
        read_torch(file)


def test_why_a_file_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProfilerError, match="No such file or directory"):
        read_torch(tmp_path / "absent.trace")
    with pytest.raises(ProfilerError, match="Is a directory"):
        read_torch(tmp_path)


@pytest.mark.filterwarnings("ignore")  # torch's own, of a profiler without CUDA
def test_what_torch_writes_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "real.trace"
    ranges = torch_ranges(file)
    with ranges.capture(), ranges.range("operator add2, n = 3"):
        for _ in ranges.iterations(2):
            ranges.around("launch", lambda: torch.ones(3) + 1)()
        ranges.mark("reading 12 ns")
    told = read_torch(file).ranges
    ours = told[~told["text"].str.startswith("aten::")]
    texts = [text for text in ours["text"] if not text.startswith(("tick", "clock"))]
    assert texts == ["operator add2, n = 3", *["iteration", "launch"] * 2, "reading 12 ns"]
    assert (ours["text"] == "tick").sum() == 20
    steps = ours[ours["text"].isin(texts)]
    outer, first, launch, second, _, mark = zip(steps["start"], steps["end"], strict=True)
    assert outer[0] <= first[0] <= launch[0] <= launch[1] <= first[1] <= second[0]
    assert second[1] <= mark[0] <= mark[1] <= outer[1]
