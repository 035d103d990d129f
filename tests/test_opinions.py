"""Second opinions, on the host stream and on CUDA alike where both have them."""

import statistics

import pytest

from cudabench import estimate, opinions, runner
from cudabench.kernels import ADD2_DEFAULT_STREAM, ADD_OUT, Buffers
from cudabench.opinions import CannotSayError
from cudabench.records import L2, Clock, Loop, Method, Opinion, Reading, SecondOpinion
from cudabench.runner import Bench
from cudabench.stopping import StoppingRule
from tests.conftest import bound_add2

GRAPHS = [Opinion.GRAPH, Opinion.DO_BENCH_CUDAGRAPH]


def say(bench: Bench, opinion: Opinion, n: int, method: Method = Method.HELD) -> float:
    launch, _ = bound_add2(bench, n)
    seconds, _ = opinions.opinion_of(opinion, bench.device, launch, method, 0.5)
    return statistics.median(seconds)


def test_a_batch_grows_with_the_operator(bench: Bench) -> None:
    small, large = (say(bench, Opinion.BATCH, n) for n in (2**18, 2**22))
    assert 4 * small < large < 80 * small


def test_a_batch_counts_what_runs_in_the_caller(host_bench: Bench) -> None:
    launch = ADD_OUT.bind(host_bench.library, Buffers.random(host_bench.device, 2**18))
    seconds, beside = opinions.opinion_of(
        Opinion.BATCH, host_bench.device, launch, Method.CALLER, 0.2
    )
    assert statistics.median(seconds) > 0
    assert beside == ()


def test_what_waits_for_its_stream_has_no_batch(bench: Bench) -> None:
    with pytest.raises(CannotSayError, match="waits for its stream"):
        say(bench, Opinion.BATCH, 1024, Method.EVENTS)


@pytest.mark.parametrize("opinion", [o for o in Opinion if o is not Opinion.BATCH])
def test_the_others_are_for_cuda_only(host_bench: Bench, opinion: Opinion) -> None:
    with pytest.raises(CannotSayError, match="CUDA only"):
        say(host_bench, opinion, 1024)


def test_methods_yields_every_method_of_each_operator(bench: Bench) -> None:
    operators = runner.operators_named(["add2", "a+b"], bench.device.properties.kind)
    rule = StoppingRule(precision=0.5, max_time=0.2)
    taken = list(runner.methods(bench, operators, 4096, [L2.WARM], Loop(3, 1), rule))
    said = [(o.operator, o.opinion) for o in taken if isinstance(o, SecondOpinion)]
    assert sorted(said) == sorted((o.name, opinion) for o in operators for opinion in Opinion)
    assert sum(isinstance(one, Reading) for one in taken) == 2
    recorder = runner.Recorder(bench, "m", "methods", Loop(3, 1))
    whole = recorder.session(taken, runner.floors(bench, taken, rule))
    assert len(whole.measurements) == 2 * 8
    assert {m.clock for m in whole.measurements} == {Clock.TIME, Clock.EVENT}
    on_cuda = bench.device.properties.kind == "cuda"
    assert len(whole.observers) == (2 if on_cuda else 0)
    unsaid = {o.why_not for o in whole.opinions if not o.seconds}
    assert unsaid <= ({"triton is not installed"} if on_cuda else {"CUDA only"})


@pytest.fixture
def cuda() -> Bench:
    return runner.open_bench("cuda", print)


@pytest.mark.gpu
def test_batch_graph_and_cupti_agree(cuda: Bench) -> None:
    small = tuple(cuda.small.values())
    launch = ADD_OUT.bind(cuda.library, Buffers.random(cuda.device, 2**20))
    rule = StoppingRule()
    floor = runner.floors_in(cuda, [L2.WARM], rule)[0]
    found = [
        SecondOpinion(
            o, "x", 1, L2.WARM,
            *opinions.opinion_of(o, cuda.device, launch, Method.HELD, 0.5, small),
        ).net(floor)
        for o in (Opinion.BATCH, Opinion.GRAPH, Opinion.CUPTI)
    ]  # fmt: skip
    assert found == pytest.approx([found[-1]] * 3, abs=0.3e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("opinion", GRAPHS)
def test_a_capture_that_recorded_nothing_has_no_time(cuda: Bench, opinion: Opinion) -> None:
    launch = ADD2_DEFAULT_STREAM.bind(cuda.library, Buffers.random(cuda.device, 2**20))
    with pytest.raises(CannotSayError, match="recorded nothing"):
        opinions.opinion_of(opinion, cuda.device, launch, Method.ELSEWHERE, 0.5)
    assert say(cuda, Opinion.GRAPH, 2**20) > 1e-6  # and captures work afterwards


@pytest.mark.gpu
def test_what_cannot_be_captured_has_no_time(cuda: Bench) -> None:
    launch, _ = bound_add2(cuda, 2**20)

    def waiting() -> None:
        launch()
        cuda.device.synchronize()

    with pytest.raises(CannotSayError, match="cannot be captured"):
        opinions.opinion_of(Opinion.GRAPH, cuda.device, waiting, Method.EVENTS, 0.5)
    assert say(cuda, Opinion.GRAPH, 2**20) > 1e-6


@pytest.mark.gpu
def test_cupti_sees_what_runs_elsewhere(cuda: Bench) -> None:
    launch = ADD2_DEFAULT_STREAM.bind(cuda.library, Buffers.random(cuda.device, 2**20))
    seconds, _ = opinions.opinion_of(Opinion.CUPTI, cuda.device, launch, Method.ELSEWHERE, 0.5)
    assert 1e-6 < statistics.median(seconds) < 20e-6


@pytest.mark.gpu
def test_the_observer_is_measured(cuda: Bench) -> None:
    launch, _ = bound_add2(cuda, 2**24)
    outside = estimate.pairs(cuda.device, launch)
    inside = opinions.pairs_in_profiler(cuda.device, launch)
    assert min(outside) > 0
    assert len(inside) == len(outside)


def test_the_host_has_no_cold_opinions(host_bench: Bench) -> None:
    """Its flush runs in the calling thread, before the first of many launches."""
    launch, _ = bound_add2(host_bench, 1024)
    with pytest.raises(CannotSayError, match="cold"):
        opinions.opinion_of(
            Opinion.BATCH, host_bench.device, launch, Method.HELD, 0.1, before=lambda: None
        )


def test_an_opinion_that_fails_loses_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory\nand a stack trace")

    monkeypatch.setattr(opinions, "opinion_of", fail)
    operators = runner.operators_named(["add2"], bench.device.properties.kind)
    rule = StoppingRule(precision=0.5, max_time=0.1)
    taken = list(runner.methods(bench, operators, 4096, [L2.WARM], Loop(2, 1), rule))
    said = [one for one in taken if isinstance(one, SecondOpinion)]
    assert {one.why_not for one in said} == {"out of memory"}
    assert len(said) == len(Opinion)
