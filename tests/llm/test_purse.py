"""Limits on tokens and USD: what fits, what waits, what is too much."""

from __future__ import annotations

import pytest

from evolve.llm.faults import Fault
from evolve.llm.purse import Price, Purse, read_price


def test_without_limits_everything_fits() -> None:
    purse = Purse()
    assert all(purse.hold(10**12, 10.0**9) for _ in range(3))


def test_requests_in_flight_are_waited_for_and_what_is_too_much_is_not() -> None:
    purse = Purse(max_tokens=100)
    assert purse.hold(60, None)
    assert not purse.hold(60, None), "it fits only if the first one takes less than it may"
    purse.release(60, None)
    purse.spend(30, None)
    assert purse.hold(60, None)
    purse.release(60, None)
    purse.spend(30, None)
    with pytest.raises(Fault) as caught:
        purse.hold(60, None)
    assert caught.value.kind == "limit" and not caught.value.again
    assert (
        caught.value.message == "--max-tokens 100 is reached: 60 were spent, and a request may take 60 tokens"
    )
    assert purse.hold(40, None), "a smaller one still fits"


def test_the_same_of_usd() -> None:
    purse = Purse(max_usd=0.1)
    for _ in range(7):
        assert purse.hold(1, 0.03)
        assert purse.hold(1, 0.03) == (purse.usd <= 0.04)
        purse.release(1, 0.03)
        if purse.usd <= 0.04:
            purse.release(1, 0.03)
        purse.spend(1, 0.01)
    with pytest.raises(Fault) as caught:
        purse.hold(1, 0.0301)
    assert (
        "--max-usd 0.1 is reached: 0.0700 were spent, and a request may take 0.0301 USD"
        in caught.value.message
    )


def test_prices_are_those_of_the_dearest_tier_or_unknown() -> None:
    known = {"usd_a_prompt_token": 1e-6, "usd_a_completion_token": 5e-6}
    price = read_price(known)
    assert price == Price(1e-6, 5e-6) and price.of(1000, 100) == pytest.approx(1.5e-3)
    assert read_price({"keys": []}) is read_price(known | {"usd_a_prompt_token": None}) is None
