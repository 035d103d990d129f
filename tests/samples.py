"""Made-up sessions: for what shows and stores them, where no real time matters."""

from cudabench.records import (
    Backlog,
    Clock,
    DeviceProperties,
    Environment,
    Measurement,
    Mode,
    Sample,
    Session,
)

BACKLOG = Backlog(launches=10, n=4096, seconds=700e-6)


def measurement(
    mode: Mode,
    microseconds: float | list[float],
    clock: Clock = Clock.TIME,
    backlog: Backlog | None = None,
    operator: str = "add2",
    not_ready: int = 0,
    correct: bool = True,
) -> Measurement:
    """Ten samples of one value, or those given."""
    values = microseconds if isinstance(microseconds, list) else [microseconds] * 10
    samples = tuple(Sample(us * 1e-6, i >= not_ready) for i, us in enumerate(values))
    return Measurement(operator, 1024, 12_288, clock, mode, backlog, samples, correct)


def session(*measurements: Measurement, label: str = "cuda:0 (Tested)") -> Session:
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
        device=DeviceProperties(label, "cuda" if label.startswith("cuda") else "host", 2**34),
        clocks_at_start=None,
        clocks_at_end=None,
    )
    return Session("run-x", "run", "2026-01-01", "2026-01-02", environment, measurements)
