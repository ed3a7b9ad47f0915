"""The pre-filter over a log: what results say to it, and its balance."""

from __future__ import annotations

from typing import Any

import pytest

from evolve.events.schema import Result
from evolve.search.filtering import saved, seen_of
from evolve.search.prefilter import Seen


def result(proposal: int, status: str, time_us: float | None = None, **detail: Any) -> Result:
    return Result.model_validate(
        {"proposal": proposal, "status": status, "time_us": time_us, "detail": detail}
    )


def decided(action: str, estimated_us: float | None = None) -> dict[str, Any]:
    return {"prefilter": {"action": action, "reason": "slow"}, "estimated_us": estimated_us}


def test_what_was_not_decided_on_says_nothing() -> None:
    assert seen_of(result(1, "illegal")) is None
    assert seen_of(result(2, "scored", 5.0)) is None
    assert seen_of(result(3, "compile_failed", **decided("measure"))) is None
    assert saved(0, [result(1, "scored", 5.0)]) is None


def test_a_wrong_one_has_no_time_and_a_skipped_one_neither() -> None:
    wrong = seen_of(result(1, "incorrect", 7.0, **decided("measure", 3.0)))
    assert wrong is not None and (wrong.estimate_us, wrong.measured_us) == (3.0, None)
    skipped = seen_of(result(2, "prefiltered", **decided("skip", 9.0)))
    assert skipped is not None and (skipped.action, skipped.measured_us) == ("skip", None)


def test_the_balance_counts_what_the_log_holds() -> None:
    found = saved(
        0,
        [
            result(1, "scored", 100.0, **decided("measure")),
            result(2, "prefiltered", **decided("skip", 900.0)),
            result(3, "scored", 80.0, **decided("audit", 900.0)),
        ],
    )
    assert found is not None
    assert (found.seen, found.measured, found.audited, found.skipped) == (3, 2, 1, 1)
    assert found.better == 1 and found.regret == 0.25


@pytest.mark.parametrize("odd", [[], {}, "x", None, True, -1.0, float("nan"), 10**400, [3.0]])
def test_an_edited_log_is_read_all_the_same(odd: Any) -> None:
    action = result(1, "scored", 100.0, prefilter={"action": odd}, estimated_us=90.0)
    estimate = result(2, "scored", 80.0, prefilter={"action": "audit"}, estimated_us=odd)
    assert seen_of(action) == Seen(1, 90.0, 100.0, "measure")
    assert seen_of(estimate) == Seen(2, None, 80.0, "audit")
    found = saved(0, [action, estimate])
    assert found is not None and (found.seen, found.measured, found.audited) == (2, 2, 1)
