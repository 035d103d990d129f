"""Made-up sessions: for what shows and stores them, where no real time matters."""

from dataclasses import replace

from cudabench.records import (
    L2,
    Backlog,
    Clock,
    ClockRates,
    DeviceProperties,
    Environment,
    Floor,
    HandOver,
    Loop,
    Measurement,
    Method,
    Mode,
    Observer,
    Reading,
    Sample,
    SecondOpinion,
    Session,
    SmallLaunch,
    Stop,
)

BACKLOG = Backlog(launches=10, n=4096, seconds=700e-6)
# 2 us: what its kernel takes is 1 us of the 3 that are read.
FLOOR = Floor(L2.WARM, (SmallLaunch("add2", 1, (3e-6,) * 10, kernel_seconds=1e-6),))


def measurement(
    mode: Mode,
    microseconds: float | list[float],
    clock: Clock = Clock.TIME,
    backlog: Backlog | None = None,
    operator: str = "add2",
    not_ready: int = 0,
    correct: bool = True,
    launch: float = 8.0,
    period: float = 200.0,
    waited: float = 0.0,
    clocks: ClockRates | None = None,
) -> Measurement:
    """Ten samples of one value, or those given; launch call, first wait and period are in us."""
    values = microseconds if isinstance(microseconds, list) else [microseconds] * 10
    samples = tuple(
        Sample(us * 1e-6, launch * 1e-6, waited * 1e-6, i * period * 1e-6, i >= not_ready)
        for i, us in enumerate(values)
    )
    return Measurement(operator, 1024, clock, mode, backlog, samples, correct, clocks)


def reading(
    net: float,
    operator: str = "add2",
    l2: L2 = L2.WARM,
    method: Method = Method.HELD,
    stop: Stop = Stop.PRECISION,
) -> Reading:
    """Return a reading that comes to `net` microseconds once the floor is taken off."""
    gross = (net * 1e-6 + (2e-6 if method is Method.HELD else 0.0),) * 10
    beside = (3e-6,) * 10 if method is Method.HELD else ()
    return Reading(operator, 1024, 12_288, l2, method, gross, beside, stop)


Taken = Measurement | Reading | HandOver | SecondOpinion | Observer


def session(*taken: Taken, label: str = "cuda:0 (Tested)", warmup: int = 10) -> Session:
    environment = Environment(
        cudabench="0",
        command="cudabench run",
        python="3",
        platform="p",
        cpu="c",
        torch="t",
        torch_cuda="13.0",
        cxx="g++ 12",
        nvcc="V13",
        device=DeviceProperties(
            label,
            "cuda" if label.startswith("cuda") else "host",
            memory_bytes=2**34,
            l2_bytes=2**20,
            peak_bandwidth=1e12,
        ),
        clocks_at_start=None,
        clocks_at_end=None,
    )
    return Session(
        id="run-x",
        command="run",
        started="2026-01-01",
        ended="2026-01-02",
        environment=environment,
        loop=Loop(warmup=warmup),
        measurements=tuple(one for one in taken if isinstance(one, Measurement)),
        readings=tuple(one for one in taken if isinstance(one, Reading)),
        floors=(FLOOR, replace(FLOOR, l2=L2.COLD)),
        hand_over=next((one for one in taken if isinstance(one, HandOver)), None),
        opinions=tuple(one for one in taken if isinstance(one, SecondOpinion)),
        observers=tuple(one for one in taken if isinstance(one, Observer)),
    )
