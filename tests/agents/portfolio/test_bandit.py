"""Who is asked: gain per cost, fresh arms first, arms that fail less and less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from evolve.agents.portfolio.arms import Arm, arms_of
from evolve.agents.portfolio.bandit import (
    MOST_REST,
    TOKENS_A_PROGRAM,
    Pull,
    Rates,
    choose,
    failures,
    rests,
    standings,
)
from evolve.events.schema import Settings
from evolve.population.rng import stream

ARMS = ("first", "second", "third")


def pull(arm: str, gain: float = 0.0, cost: int = 1, **fields: object) -> Pull:
    made = Pull(arm, 0.5, closed_at=0, best=0.5 + gain / 2, proposals=list(range(cost)), judged=1)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def asked(count: int, outcome: Callable[[int, str], Pull], seed: int = 1) -> list[str]:
    """Who is asked, one ask after the other."""
    pulls: list[Pull] = []
    for n in range(count):
        arm = choose(ARMS[:2], pulls, Rates(), stream(seed, "arm", n))
        pulls.append(outcome(n, arm))
    return [one.arm for one in pulls]


def test_a_gain_is_the_share_of_what_was_left() -> None:
    assert [Pull("a", 0.6, best=b).gain for b in (0.0, 0.6, 0.8, 1.0, 1.2)] == pytest.approx(
        [0, 0, 0.5, 1, 1]
    )
    assert Pull("a", 1.0, best=1.0).gain == 0


def test_who_was_never_asked_comes_first_in_order() -> None:
    pulls: list[Pull] = []
    for arm in ARMS:
        assert choose(ARMS, pulls, Rates(), Random(0)) == arm
        pulls.append(pull(arm, closed_at=None))


@pytest.mark.parametrize("seed", range(5))
def test_who_gains_is_asked_more(seed: int) -> None:
    counts = Counter(asked(60, lambda n, arm: pull(arm, 0.4 * (arm == "second")), seed))
    assert counts["second"] > 1.5 * counts["first"] and counts["first"] >= 1


@pytest.mark.parametrize("seed", range(5))
def test_who_costs_more_for_the_same_is_asked_less(seed: int) -> None:
    counts = Counter(asked(60, lambda n, arm: pull(arm, 0.2, 1 + 3 * (arm == "first")), seed))
    assert counts["second"] > 1.5 * counts["first"] > 0


@pytest.mark.parametrize("seed", range(5))
def test_what_was_long_ago_is_forgotten(seed: int) -> None:
    def outcome(n: int, arm: str) -> Pull:
        return pull(arm, 0.4 * (arm == ("second" if n < 50 else "first")))

    told = asked(150, outcome, seed)
    assert Counter(told[:50])["second"] > 25 and Counter(told[100:])["first"] > 25


def test_the_same_stream_draws_the_same() -> None:
    assert asked(40, lambda n, arm: pull(arm, 0.1)) == asked(40, lambda n, arm: pull(arm, 0.1))


def test_the_index_by_hand() -> None:
    """Two asks of the first arm before the last: weights 0.95^2 and 0.95; costs 3 and 1; the scale is 0.8."""
    pulls = [pull("first", 0.4, 3), pull("first", 0.0, 1), pull("second", 0.8, 2)]
    found = standings(ARMS[:2], pulls, Rates())
    first = found["first"]
    assert (first.gained, first.weight) == pytest.approx((0.5 * 0.95**2, 0.95**2 + 0.95))
    assert first.cost == pytest.approx((2 + 3 + 1) / 3), "the mean of all three, as one ask before"
    assert first.worth == pytest.approx((1 + 0.45125) / (2 + 1.8525) / 2)
    assert found["second"].gained == 1
    tiny = standings(ARMS[:1], [pull("first", 0.001)], Rates())["first"]
    assert tiny.gained == pytest.approx(0.1), "what is hardly a gain stays hardly one"
    assert standings(("third",), pulls, Rates())["third"].worth == pytest.approx(0.5 / 2)


def test_an_ask_whose_programs_are_in_work_says_nothing_yet() -> None:
    pulls = [pull("first", 0.4), pull("second", judged=0), pull("third", closed_at=None)]
    found = standings(ARMS, pulls, Rates())
    assert [found[arm].asks for arm in ARMS] == [1, 0, 0]
    assert standings(ARMS, [pull("first", judged=0, failed="nothing")], Rates())["first"].asks == 1


def test_tokens_and_money_cost_programs() -> None:
    rates = Rates()
    assert rates.cost(pull("a", cost=3, tokens=2 * int(TOKENS_A_PROGRAM))) == pytest.approx(5)
    assert rates.cost(pull("a", cost=3, usd=0.04, tokens=10)) == pytest.approx(7)
    assert rates.cost(pull("a", cost=0)) == 1, "an ask that brings nothing is one too"


def test_an_arm_that_fails_rests_longer_each_time() -> None:
    pulls: list[Pull] = []
    skipped, asks = [], 0
    for _ in range(10):
        asks += 1
        pulls.append(pull("first", failed="fault", closed_at=asks))
        before = asks
        while rests("first", pulls, asks):
            asks += 1
        skipped.append(asks - before)
    assert skipped == [0, 0, 1, 2, 4, 8, 16, 32, 64, 64] and skipped[-1] == MOST_REST
    assert not rests("second", pulls, asks)
    pulls.append(pull("first", closed_at=asks))
    assert not failures("first", pulls)


def test_a_failure_for_good_is_a_long_rest_at_once() -> None:
    pulls = [pull("first", failed="for-good", closed_at=7)]
    assert rests("first", pulls, 7 + MOST_REST - 1) and not rests("first", pulls, 7 + MOST_REST)


def test_nothing_to_offer_is_no_failure() -> None:
    assert not failures("first", [pull("first", failed="nothing")] * 5)


def test_the_arms_of_settings() -> None:
    settings = Settings(
        budget=1,
        agent="llm+expert",
        models=("openai/a", "openai/a", "openai/b"),
        api_bases=("", "http://127.0.0.1:1/v1", ""),
    )
    assert arms_of(settings) == (
        Arm("openai/a", "llm", "openai/a", None, 2),
        Arm("openai/a (2)", "llm", "openai/a", "http://127.0.0.1:1/v1", 2),
        Arm("openai/b", "llm", "openai/b", None, 2),
        Arm("expert", "expert"),
    )
    assert arms_of(Settings(budget=1)) == (Arm("expert", "expert"),)
