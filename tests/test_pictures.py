"""Iterations and stretches of a trace as pictures: lanes, windows, captions and names."""

import pytest

from cudabench.records import BOTH, FIRST_ONLY, MODES, NEITHER, SECOND_ONLY, Clock, Mode
from cudabench.report.timeline.pictures import of_iteration, of_stretch, short_name, typical
from cudabench.trace import Bar, Iteration, Picture, Role, Span, Trace
from tests.traces import Call, Work, iteration, trace

KERNEL = Work(15_000, 19_000, 1)
OURS = trace(work=[KERNEL])


def lane(picture: Picture, name: str) -> tuple[Bar, ...]:
    (found,) = (lane.bars for lane in picture.lanes if lane.name == name)
    return found


def test_the_typical_iteration_has_the_median_reading() -> None:
    readings = [9e-6, 1e-6, 5e-6, 7e-6, 3e-6]
    found = typical(iteration(seconds=s, index=i) for i, s in enumerate(readings))
    assert [one.index for one in found] == [2]


def test_the_first_iteration_is_not_typical_it_waits_for_the_warm_up() -> None:
    readings = [5e-6, 9e-6, 7e-6, 1e-6, 2e-6]
    found = typical(iteration(seconds=s, index=i) for i, s in enumerate(readings))
    assert [one.index for one in found] == [2]


def test_of_two_in_the_middle_the_slower_is_typical() -> None:
    readings = [1e-6, 9e-6, 4e-6, 3e-6]
    found = typical(iteration(seconds=s, index=i) for i, s in enumerate(readings))
    assert [one.index for one in found] == [2]


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": "mul"},
        {"n": 7},
        {"backlogged": True},
        {"clock": Clock.EVENT},
        {"mode": NEITHER},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_operator_size_backlog_clock_and_mode_has_its_own(changes: dict[str, object]) -> None:
    both = [iteration(), iteration(**changes), iteration(index=1), iteration(index=1, **changes)]
    assert typical(both) == [both[2], both[3]]


def test_without_readings_one_is_typical_all_the_same() -> None:
    assert len(typical([iteration(seconds=None), iteration(seconds=None)])) == 1
    assert typical([]) == []


STEPS = {
    BOTH: ["first synchronize", "launch", "second synchronize"],
    FIRST_ONLY: ["first synchronize", "launch"],
    SECOND_ONLY: ["launch", "second synchronize"],
    NEITHER: ["launch"],
}


def in_mode(mode: Mode, **changes: object) -> Iteration:
    """An iteration without the steps that its mode leaves out."""
    absent = {"first_sync": mode.first_sync, "second_sync": mode.second_sync}
    left_out = {step: None for step, kept in absent.items() if not kept}
    return iteration(mode=mode, **left_out, **changes)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.label)
def test_the_host_has_a_bar_for_each_step(mode: Mode) -> None:
    steps = lane(of_iteration(in_mode(mode), OURS), "host")
    assert [bar.label for bar in steps] == STEPS[mode]
    expected = [Role.LAUNCH if label == "launch" else Role.SYNCHRONIZE for label in STEPS[mode]]
    assert [bar.role for bar in steps] == expected


def test_bars_last_as_long_as_what_they_stand_for() -> None:
    shown = of_iteration(iteration(), OURS)
    assert lane(shown, "host") == (
        Bar(Span(2_000, 5_000), "first synchronize", Role.SYNCHRONIZE),
        Bar(Span(6_000, 14_000), "launch", Role.LAUNCH),
        Bar(Span(14_500, 22_000), "second synchronize", Role.SYNCHRONIZE),
    )
    assert lane(shown, "device") == (Bar(Span(15_000, 19_000), "kernel 4.00 us", Role.KERNEL),)
    assert lane(shown, "clock") == (Bar(Span(5_500, 22_500), "read 17.0 us", Role.TIMED),)


def test_what_a_clock_read_stands_beside_the_lane_that_it_was_read_on() -> None:
    for clock, names in (
        (Clock.TIME, ["clock", "host", "device"]),
        (Clock.PERF_COUNTER, ["clock", "host", "device"]),
        (Clock.EVENT, ["host", "device", "events"]),
    ):
        shown = of_iteration(iteration(clock=clock), OURS)
        assert [lane.name for lane in shown.lanes] == names


def test_without_a_reading_the_clocks_lane_is_empty() -> None:
    shown = of_iteration(iteration(seconds=None), OURS)
    assert lane(shown, "clock") == ()
    assert shown.caption == ""


@pytest.mark.parametrize(
    ("one", "title"),
    [
        (iteration(), "add2, both synchronizes, time.time, idle"),
        (
            iteration(clock=Clock.EVENT, backlogged=True, mode=SECOND_ONLY),
            "add2, second synchronize only, events, behind a backlog",
        ),
        (
            iteration(clock=Clock.PERF_COUNTER, mode=FIRST_ONLY, operator="加算"),
            "加算, first synchronize only, perf_counter, idle",
        ),
        (iteration(mode=NEITHER), "add2, neither synchronize, time.time, idle"),
    ],
)
def test_the_title_says_what_is_shown(one: Iteration, title: str) -> None:
    assert of_iteration(one, OURS).title == title


@pytest.mark.parametrize(
    ("one", "window"),
    [
        # 24_000 long, and 2 % at either end.
        (iteration(), Span(520, 25_480)),
        # The work outlives the iteration.
        (iteration(kernels=(Span(30_000, 51_000),)), Span(0, 52_000)),
        # So does the first of two, on another stream.
        (iteration(kernels=(Span(15_000, 51_000), Span(20_000, 30_000))), Span(0, 52_000)),
        # Events were passed long before: from -31_000 to 25_000.
        (iteration(clock=Clock.EVENT, seconds=50e-6), Span(-32_120, 26_120)),
    ],
)
def test_the_window_holds_the_iteration_its_work_and_what_was_timed(
    one: Iteration, window: Span
) -> None:
    assert of_iteration(one, trace()).window == window


def test_the_devices_lane_tells_the_operators_work_from_other_work() -> None:
    one = iteration(
        backlogged=True,
        backlog=Span(1_100, 1_900),
        backlog_kernels=(Span(1_500, 1_700), Span(1_700, 9_000)),
    )
    work = [
        Work(-900, -100, 7),
        Work(-800, 1_200, 8),
        Work(1_500, 1_700, 2),
        Work(1_700, 9_000, 2),
        KERNEL,
        Work(24_000, 99_000, 9),
        Work(99_000, 99_100, 10),
    ]
    shown = of_iteration(one, trace(work=work))
    assert lane(shown, "device") == (
        Bar(Span(-800, 1_200), "another iteration's", Role.OTHER),
        Bar(Span(1_500, 1_700), "backlog", Role.BACKLOG),
        Bar(Span(1_700, 9_000), "backlog", Role.BACKLOG),
        Bar(Span(15_000, 19_000), "kernel 4.00 us", Role.KERNEL),
        Bar(Span(24_000, 99_000), "another iteration's", Role.OTHER),
    )
    assert lane(shown, "host")[0] == Bar(Span(1_100, 1_900), "queue the backlog", Role.BACKLOG)


# Neither synchronize, so what the clock read lies about the launch: from 6_000 to 14_000.
UNSYNCHRONIZED = in_mode(NEITHER, seconds=8e-6)


@pytest.mark.parametrize(
    ("kernels", "caption"),
    [
        (
            [(15_000, 19_000)],
            "The clock stopped before the kernel had started, 5.00 us before its end.",
        ),
        (
            [(13_000, 19_000)],
            "The clock stopped before the kernel had ended, 5.00 us before its end.",
        ),
        (
            [(14_000, 14_500)],
            "The clock stopped before the kernel had ended, 0.50 us before its end.",
        ),
        ([(9_000, 14_000)], "Of the 8.00 us read, the kernel took 5.00 us."),
        ([(9_000, 10_000), (11_000, 13_000)], "Of the 8.00 us read, the kernel took 3.00 us."),
        (
            [(13_000, 21_000), (13_500, 13_600)],
            "The clock stopped before the kernel had ended, 7.00 us before its end.",
        ),
        ([], "Nothing of the operator ran on the device: it runs in the calling thread."),
    ],
    ids=["not started", "not ended", "at its start", "ended", "two", "overlap", "nothing"],
)
def test_the_caption_says_where_the_clock_stopped(
    kernels: list[tuple[int, int]], caption: str
) -> None:
    one = in_mode(NEITHER, seconds=8e-6, kernels=tuple(Span(*kernel) for kernel in kernels))
    assert one.timed == Span(6_000, 14_000)
    assert of_iteration(one, OURS).caption == caption


@pytest.mark.parametrize(
    ("backlog_end", "caption"),
    [
        (
            9_500,
            "The clock started while the backlog still had 4.00 us to run;"
            " the kernel took 4.00 us.",
        ),
        (5_500, "Of the 17.0 us read, the kernel took 4.00 us."),
    ],
)
def test_the_caption_says_what_of_the_backlog_was_timed(backlog_end: int, caption: str) -> None:
    one = iteration(backlogged=True, backlog_kernels=(Span(1_000, backlog_end),))
    assert of_iteration(one, OURS).caption == caption


def test_the_caption_of_events_compares_what_they_read() -> None:
    one = iteration(clock=Clock.EVENT, seconds=6.5e-6, backlog_kernels=(Span(0, 15_000),))
    assert of_iteration(one, OURS).caption == "The events read 6.50 us; the kernel took 4.00 us."


def stretch(calls: list[Call], work: list[Work]) -> Picture:
    found = of_stretch(trace(calls=calls, work=work))
    assert found
    return found


def test_a_stretch_shows_the_first_works_and_the_calls_around_them() -> None:
    calls = [
        Call(0, 50, 99, "cudaMalloc_v3020"),
        Call(1_000, 1_100, 1),
        Call(1_200, 1_500, 98, "cudaStreamSynchronize_v3020"),
        Call(1_550, 1_560, 97, "cudaEventRecord_v3020"),
        Call(9_000, 9_100, 96),
    ]
    shown = stretch(calls, [Work(1_150, 1_400, 1, "void add2<float>(float*)"), Work(1_600, 2_000)])
    assert shown.title == "the first 2 works on the device"
    assert shown.window == Span(980, 2_020)
    assert lane(shown, "host") == (
        Bar(Span(1_000, 1_100), "cudaLaunchKernel", Role.LAUNCH),
        Bar(Span(1_200, 1_500), "cudaStreamSynchronize", Role.SYNCHRONIZE),
        Bar(Span(1_550, 1_560), "cudaEventRecord", Role.OTHER),
    )
    assert [(bar.label, bar.role) for bar in lane(shown, "device")] == [
        ("add2", Role.KERNEL),
        ("add2", Role.KERNEL),
    ]


def test_a_stretch_ends_after_twelve_works() -> None:
    shown = stretch([], [Work(100 * i, 100 * i + 50) for i in range(30)])
    assert shown.window == Span(-23, 1_173)
    assert len(lane(shown, "device")) == 12


def test_a_stretch_begins_with_the_first_work_where_no_call_is_known() -> None:
    assert stretch([], [Work(1_000, 2_000)]).window == Span(980, 2_020)
    assert stretch([Call(10, 20)], [Work(1_000, 2_000)]).window == Span(980, 2_020)


def test_a_stretch_of_nothing_is_none() -> None:
    nothing: Trace = trace(calls=[Call(0, 1)])
    assert of_stretch(nothing) is None


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("add2", "add2"),
        ("add2_v2", "add2_v2"),
        ("customKernel_v2", "customKernel_v2"),
        ("void add2<float>(const float *, const float *, float *, long)", "add2"),
        ("add2(float*, float*, float*, long)", "add2"),
        ("ns::inner::add2", "add2"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,"
            " std::array<char *, 3>>(int, T2, T3)",
            "vectorized_elementwise_kernel",
        ),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 2>(float*)",
            "CatArrayBatchedCopy",
        ),
        (
            "void at::native::<unnamed>::softmax_warp_forward<float>(float *)",
            "softmax_warp_forward",
        ),
        ("(anonymous namespace)::add2(float*)", "add2"),
        ("void for_each<main::{lambda(int)#1}>(int, main::{lambda(int)#1})", "for_each"),
        ("void apply<&Foo::operator(), (bool)1>(Foo)", "apply"),
        ("Foo::operator()(int) const", "operator"),
        ("voided<int>", "voided"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
        ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync"),
        ("cuLaunchKernel", "cuLaunchKernel"),
        ("host kernel", "host kernel"),
        ("void 加算<é>(int)", "加算"),
        ("<int>", "<int>"),
        ("(int)", "(int)"),
        ("void ", "void "),
        ("", ""),
    ],
)
def test_a_short_name_has_no_templates_arguments_namespaces_or_versions(
    name: str, short: str
) -> None:
    assert short_name(name) == short
