import pytest

from cudabench.errors import BadInputError
from cudabench.units import duration, microseconds, parse_count, size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1048576", 2**20),
        ("1_048_576", 2**20),
        ("2^20", 2**20),
        ("2**20", 2**20),
        ("1Mi", 2**20),
        ("3Ki", 3072),
        ("2Gi", 2**31),
        (" 7 ", 7),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_counts_as_people_write_them(text: str, value: int) -> None:
    assert parse_count(text) == value


@pytest.mark.parametrize("text", ["", "abc", "1.5", "1e6", "2^", "^3", "1 000", "1M", "١٢", "2^-1"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="whole number"):
        parse_count(text)


@pytest.mark.parametrize("text", ["0", "-1", "-1Ki", "0^3", "00"])
def test_less_than_one_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="at least 1"):
        parse_count(text)


@pytest.mark.parametrize("text", ["2^63", "9223372036854775808", "9999999Ti", "999999999^999"])
def test_more_than_64_bits_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="64 bits"):
        parse_count(text)


def test_durations_have_three_figures() -> None:
    assert [duration(s) for s in (0, 3.58e-6, 18.43e-6, 0.0026781, 1.5, 999.6e-6)] == [
        "0.00 us",
        "3.58 us",
        "18.4 us",
        "2.68 ms",
        "1.50 s",
        "1.00 ms",
    ]


def test_microseconds_and_sizes() -> None:
    assert [microseconds(s * 1e-6) for s in (3.584, 99.996, -186.32, 999.96, 13500.62)] == [
        "3.58",
        "100.0",
        "-186.3",
        "1,000",
        "13,501",
    ]
    assert [size(b) for b in (12, 12 * 2**20, 20 * 2**40)] == ["12 B", "12.0 MiB", "20.0 TiB"]
