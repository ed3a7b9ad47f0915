import pytest

from evolve.sol.causes import CAUSES
from evolve.sol.units import microseconds, percent, size, title, unit


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (7.5e-6, "7.50 us"),
        (133.2e-6, "133 us"),
        (0.9996e-3, "1.00 ms"),
        (5.24e-3, "5.24 ms"),
        (0.0, "0.00 us"),
    ],
)
def test_times_have_three_figures(seconds: float, said: str) -> None:
    assert microseconds(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(12, "12 B"), (999.6, "1.00 kB"), (268435456, "268 MB"), (1.07e9, "1.07 GB")]
)
def test_sizes_are_decimal(count: float, said: str) -> None:
    assert size(count) == said


def test_small_fractions_keep_a_figure() -> None:
    assert [percent(x) for x in (0.0, 0.004, 0.0099, 0.01, 0.126, 1.0)] == [
        *("0%", "0.4%", "1.0%", "1%", "13%", "100%"),
    ]


def test_names_for_people() -> None:
    assert unit("sfu") == "special functions" and unit("l1") == "L1"
    assert title("idle_sms") == "idle SMs" and title("bank_conflicts") == "bank conflicts"
    assert not any("_" in title(name) for name in CAUSES)
