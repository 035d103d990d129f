import pytest

from cudabench.stats import Summary, summarise


def test_summary_of_an_even_number_of_samples() -> None:
    assert summarise([4.0, 1.0, 3.0, 12.0]) == Summary(5.0, 3.5, 1.0, 12.0)


def test_no_samples_have_no_summary() -> None:
    with pytest.raises(ValueError, match="at least one"):
        summarise([])
