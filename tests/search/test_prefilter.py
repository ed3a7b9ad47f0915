"""The pre-filter: what it skips, when it abstains, what its balance says; and how it does on the H200's
programs (a tenth of them: one kernel of ten, that on which the model does worst)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import comb
from random import Random

import pytest

from benchmarks.prefilter import RECORDS, evaluate_policy, replay, streams
from benchmarks.validation.evaluate import Row, evaluate, read
from evolve.search.prefilter import Policy, Prefilter, Seen, share_at_most

SEED = 7
USUAL = Policy()
TIMES = [float(t) for t in range(100, 1100, 25)]


def filled(pairs: Sequence[tuple[float, float]], policy: Policy = USUAL) -> Prefilter:
    """A filter that saw these estimates and measured times."""
    return Prefilter(SEED, policy, [Seen(n, e, m) for n, (e, m) in enumerate(pairs)])


def shuffled(values: Sequence[float]) -> list[float]:
    return Random(3).sample(values, len(values))


def exact() -> Prefilter:
    return filled([(t, t) for t in shuffled(TIMES)])


def test_what_is_surely_slow_is_not_measured() -> None:
    decision = exact().decide(100, 5000.0)
    assert decision.reason == "slow"
    assert decision.optimistic_us == pytest.approx(5000.0) and decision.useful_us == pytest.approx(200.0)
    assert exact().decide(100, 150.0).reason == "useful"


def test_only_the_relation_to_measured_times_counts() -> None:
    scaled = filled([(10 * t, t) for t in shuffled(TIMES)])
    assert scaled.decide(100, 1500.0).reason == "useful"
    assert scaled.decide(100, 50000.0).reason == "slow"


def test_the_error_seen_near_an_estimate_widens_what_may_be_useful() -> None:
    # One in ten was three times faster than estimated.
    doubtful = filled([(t * (3 if n % 10 == 0 else 1), t) for n, t in enumerate(shuffled(TIMES))])
    assert exact().decide(100, 500.0).reason == "slow"
    assert doubtful.decide(100, 500.0).reason == "useful"
    assert doubtful.decide(100, 5000.0).reason == "slow"


def test_few_measurements_show_nothing() -> None:
    few = [(t, t) for t in shuffled(TIMES)[: USUAL.least - 1]]
    assert filled(few).decide(100, 1e6).reason == "few"
    assert filled([*few, (1.0, 1.0)]).decide(100, 1e6).reason == "slow"


def test_skipped_candidates_are_no_measurements() -> None:
    prefilter = Prefilter(SEED, Policy(), [Seen(n, 9e9, None, "skip") for n in range(50)])
    assert prefilter.decide(100, 1e6).reason == "few"


@pytest.mark.parametrize("order", ["random", "reversed"])
def test_a_model_that_ranks_badly_skips_nothing(order: str) -> None:
    estimates = shuffled(TIMES) if order == "random" else TIMES[::-1]
    prefilter = filled(list(zip(estimates, TIMES, strict=True)))
    assert prefilter.agreement is not None and prefilter.agreement < 0.5
    assert prefilter.decide(100, 1e6).reason == "ranking"


def test_a_model_that_tells_nothing_apart_skips_nothing() -> None:
    assert filled([(100.0, t) for t in TIMES]).decide(100, 1e6).reason == "ranking"
    assert filled([(t, 100.0) for t in TIMES]).decide(100, 1e6).reason == "ranking"


def test_a_candidate_like_a_useful_one_is_measured() -> None:
    policy = Policy(neighbours=4)
    pairs = [(t, t) for t in TIMES] + [(600.0, 190.0)] + [(603.0, 600.0 + k) for k in range(4)]
    prefilter = filled(pairs, policy)
    assert prefilter.decide(100, 605.0).reason == "tie"
    assert prefilter.decide(100, 660.0).reason == "slow"


def test_an_estimate_at_the_limit_is_a_tie() -> None:
    assert exact().decide(100, 201.0).reason == "tie"
    assert exact().decide(100, 205.0).reason == "slow"


@pytest.mark.parametrize("estimate", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_without_an_estimate_is_measured(estimate: float | None) -> None:
    assert exact().decide(100, estimate).reason == "no_estimate"


def test_the_audit_follows_from_seed_and_number() -> None:
    actions = [exact().decide(n, 5000.0).action for n in range(400)]
    assert actions == [exact().decide(n, 5000.0).action for n in range(400)]
    assert 0.07 < actions.count("audit") / 400 < 0.18
    assert set(actions) == {"audit", "skip"}
    other = Prefilter(SEED + 1, seen=[Seen(n, t, t) for n, t in enumerate(shuffled(TIMES))])
    assert actions != [other.decide(n, 5000.0).action for n in range(400)]


def test_what_the_log_holds_rebuilds_the_filter() -> None:
    rng = Random(5)
    live = Prefilter(SEED)
    log = []
    for number in range(300):
        measured = 100 * 2 ** (5 * rng.random())
        estimate = measured * 2 ** rng.uniform(-0.5, 0.5)
        decision = live.decide(number, estimate)
        log.append(Seen(number, estimate, measured if decision.measures else None, decision.action))
        live.observe(log[-1])
    assert {one.action for one in log} == {"measure", "audit", "skip"}
    again = Prefilter(SEED, seen=log)
    assert again.saved() == live.saved()
    asked = [50.0, 400.0, 800.0, 3000.0]
    assert [again.decide(n, e) for n, e in enumerate(asked)] == [
        live.decide(n, e) for n, e in enumerate(asked)
    ]


def test_the_balance_says_what_the_audit_found() -> None:
    prefilter = exact()
    for n in range(100, 120):
        prefilter.observe(Seen(n, 5000.0, None, "skip"))
    for n, time in enumerate([4000.0, 150.0, 80.0, 5000.0]):
        prefilter.observe(Seen(200 + n, 5000.0, time, "audit"))
    saved = prefilter.saved()
    assert (saved.seen, saved.measured, saved.audited, saved.skipped) == (64, 44, 4, 20)
    assert (saved.useful, saved.better) == (2, 1)
    assert saved.regret == pytest.approx(100 / 80 - 1)
    assert saved.better_at_most == pytest.approx(share_at_most(1, 4))
    assert "saved 20 of 64" in saved.text() and "25.0%" in saved.text()
    # The audit taught it: such an estimate is no longer surely slow.
    assert prefilter.decide(300, 5000.0).reason == "useful"


def test_an_audit_as_good_as_the_best_costs_nothing() -> None:
    prefilter = exact()
    prefilter.observe(Seen(100, 5000.0, 99.5, "audit"))
    assert prefilter.saved().better == 0 and prefilter.saved().regret == 0


def test_a_candidate_without_a_time_teaches_nothing() -> None:
    prefilter = exact()
    prefilter.observe(Seen(100, 5000.0, None, "audit"))
    assert prefilter.saved().audited == 0 and prefilter.saved().measured == len(TIMES)


def test_the_bound_on_a_share() -> None:
    assert share_at_most(0, 0) == share_at_most(3, 3) == 1
    assert share_at_most(0, 20) == pytest.approx(1 - 0.05 ** (1 / 20))
    share = share_at_most(2, 30)
    few = sum(comb(30, k) * share**k * (1 - share) ** (30 - k) for k in range(3))
    assert few == pytest.approx(0.05)


# ---- programs that were measured on an H200


@cache
def row_sums() -> tuple[Row, ...]:
    _, records = read(RECORDS)
    return tuple(evaluate([r for r in records if r["kernel"] == "row_sum"]))


def test_half_the_measurements_are_saved_and_the_best_is_found() -> None:
    found = evaluate_policy(row_sums(), USUAL, range(5))
    every = found["all"]["row_sum"]
    assert every["saved"] > 0.5
    assert every["worst_regret"] < 0.01
    assert every["false_skips"] < 0.05
    assert every["covered"] >= 0.95
    near = found["near"]["row_sum"]
    assert near["worst_regret"] < 0.01 and near["saved"] < 0.1


def test_those_bounds_fail_for_a_model_that_knows_nothing() -> None:
    rows = row_sums()
    estimates = shuffled([r.estimated for r in rows])
    blind = [replace(r, estimated=e) for r, e in zip(rows, estimates, strict=True)]
    trusting = evaluate_policy(blind, Policy(agreement=-1.0), range(5))["all"]["row_sum"]
    assert trusting["false_skips"] > 0.05
    careful = replay(streams(blind, 0)["all"][0], 0, USUAL)
    assert len(careful.skipped) < 0.05 * len(blind)
