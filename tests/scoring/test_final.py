"""The end of a measured run on a fake GPU: who passes, who fails, and what is only open."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.devices.cuda.sanitizer import Finding, Sanitized
from evolve.ir.errors import EvolveError
from evolve.ir.expr import TRUE, Binary, BinaryOp, index, var
from evolve.ir.types import DType
from evolve.scoring import final
from evolve.scoring.built import Built, build
from evolve.scoring.final import Examination, Retimed, examine, watched_runs, watched_sizes
from evolve.scoring.held_out import HeldOut, draw
from evolve.scoring.measured import MeasuredScorer
from evolve.scoring.perturbed import Perturbed, _may_change, changed
from evolve.workload.model import ArraySpec, Values
from tests.devices.cuda.fake_cuda import Launch, stray
from tests.scoring.measured_task import SECRET, candidate, make, task, vecadd

Make = Callable[..., MeasuredScorer]
CLEAN = Sanitized(True)
__all__ = ["make"]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.scoring.held_out.BEYOND_L2", 0)
    monkeypatch.setattr(final, "sanitize", lambda cubin, runs, ordinal: CLEAN)
    monkeypatch.setattr(final, "headline", lambda task, built, secret, ordinal: {"state": "not installed"})


def built(name: str) -> Built:
    return build(candidate(name), "sm_90")


def known() -> set[int | float]:
    of = task()
    return {s["n"] for s in (*of.workload.timed, *of.workload.check, *of.shapes_for(TRUE))}


def test_an_honest_champion_passes(make: Make) -> None:
    got = examine(make(better=vecadd), built("better"))
    assert got.state == "passed" and not got.failures and not got.open_points
    again = got.retimed
    assert again is not None and again.better and again.speedup == pytest.approx(2.0)
    assert again.ratios == ((pytest.approx(2.0), pytest.approx(2.0)),)
    assert again.noise == ((pytest.approx(1.0), pytest.approx(1.0)),)
    assert len(got.held_out) == 3 and not {h.sizes["n"] for h in got.held_out} & known()
    for h in got.held_out:
        assert h.verdict == "right" and h.variant == 0
        assert len(h.families) == 2 and h.families[0] == "normal"
        assert h.speedup == pytest.approx(2.0) and h.fraction is not None and 0 < h.fraction < 1
    # One element of each input, and one of the result depends on it.
    assert [(p.array, p.affected, p.verdict) for p in got.perturbed] == [("a", 1, "right"), ("b", 1, "right")]
    document = json.loads(json.dumps(got.to_json(), allow_nan=False))
    assert document["counters"] == {"state": "not installed"}
    assert int(document["secret"], 16) == SECRET and document["sanitizer"]["state"] == "clean"


def test_what_knows_the_sizes_fails(make: Make) -> None:
    def table(x: Launch) -> None:
        if x.args[3] in known():
            vecadd(x)

    got = examine(make(cheat=table), built("cheat"))
    assert got.state == "failed" and len(got.failures) == 3
    assert {h.verdict for h in got.held_out} == {"failed"} and all(h.time_s is None for h in got.held_out)


def test_what_is_wrong_on_another_family_there_fails(make: Make) -> None:
    def sniffs(x: Launch) -> None:
        a, _, c, n = x.args
        vecadd(x)
        if n not in known() and n > 10 and (x.view(a, 5) == 1.0).all():
            x.view(c, n)[7] += 1.0

    got = examine(make(cheat=sniffs), built("cheat"))
    wrong = [h for h in got.held_out if h.verdict == "failed"]
    # One of the two other families at each of three sizes.
    assert got.state == "failed" and wrong and all("ones inputs: 1 elements of c" in h.message for h in wrong)


def test_what_remembers_by_a_sample_of_its_inputs_fails(make: Make) -> None:
    kept: dict[tuple[int, bytes], object] = {}

    def remembers(x: Launch) -> None:
        a, _, c, n = x.args
        sample = n, x.view(a, n)[:: max(1, n // 4)].tobytes()
        if sample not in kept:
            vecadd(x)
            kept[sample] = x.view(c, n).copy()
        x.view(c, n)[:] = kept[sample]

    got = examine(make(cheat=remembers), built("cheat"))
    assert {h.verdict for h in got.held_out} == {"right"}
    assert got.state == "failed" and "changed: c is off by" in got.failures[0]


def test_a_champion_that_is_no_faster_when_timed_again_is_said_to_be_so(make: Make) -> None:
    got = examine(make(costs={"same": 100.0}, same=vecadd), built("same"))
    assert got.state == "incomplete" and got.open_points == (
        "timed once more, it is not faster than the original beyond the noise",
    )


def test_the_original_is_not_timed_against_itself(make: Make) -> None:
    given = build(render(task().original), "sm_90")
    got = examine(make(), given)
    assert got.retimed is None and got.state == "passed" and got.held_out[0].variant == -1


def test_a_champion_that_breaks_at_other_sizes_fails(make: Make) -> None:
    def breaks(x: Launch) -> None:
        vecadd(x) if x.args[3] in known() else stray(x)

    got = examine(make(cheat=breaks), built("cheat"))
    assert got.state == "failed" and all("broke the GPU context" in h.message for h in got.held_out)


def test_sizes_at_which_the_original_fails_say_nothing(make: Make) -> None:
    def breaks(x: Launch) -> None:
        vecadd(x) if x.args[3] in known() else stray(x)

    given = render(task().original).original.kernel
    scorer = make(costs={given: 100.0}, better=vecadd, **{given: breaks})
    got = examine(scorer, built("better"))
    assert got.state == "incomplete" and {h.verdict for h in got.held_out} == {"not judged"}
    assert len(got.open_points) == 3 and not got.failures


@pytest.mark.parametrize(
    ("code", "judged"), [("bad-values", False), ("sim.reference", False), ("gpu-failed", None)]
)
def test_errors_about_the_sizes_say_nothing_and_others_end_it(
    make: Make, monkeypatch: pytest.MonkeyPatch, code: str, judged: bool | None
) -> None:
    scorer = make(better=vecadd)

    def raises(*args: object) -> None:
        raise EvolveError(code, "so it is")

    monkeypatch.setattr(scorer._preparation, "family", raises)
    if judged is None:
        with pytest.raises(EvolveError):
            scorer.held_out(built("better"))
    else:
        assert {(h.verdict, h.message) for h in scorer.held_out(built("better"))} == {
            ("not judged", "so it is")
        }


def test_a_time_that_cannot_be_is_not_believed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make(costs={"fast": 1e-3}, fast=vecadd)
    got = examine(scorer, built("fast"))
    assert got.state == "incomplete"
    assert {h.verdict for h in got.held_out} == {
        "doubted"
    } and "no correct run takes less" in got.open_points[0]


def test_what_the_sanitizer_finds_fails(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Sanitized(True, (Finding("racecheck", "Race reported", "better", 144, 13),))
    monkeypatch.setattr(final, "sanitize", lambda cubin, runs, ordinal: found)
    got = examine(make(better=vecadd), built("better"))
    assert got.state == "failed" and got.failures == ("racecheck: Race reported in better, line 13",)


AGAIN = Retimed(1e-6, 2e-6, True, False, ((1.9, 2.1),), ((0.99, 1.01),))
RIGHT = HeldOut({"n": 5}, 0, "right", "", 1e-6, 2e-6, 0.5)


def test_states() -> None:
    one = Examination(AGAIN, (RIGHT,), (), Sanitized(False), 1)
    assert one.state == "passed"  # nothing to be said about a tool that is not there
    assert replace(one, held_out=()).state == "incomplete"
    assert replace(one, sanitized=Sanitized(True, (), {"initcheck": "too slow"})).state == "incomplete"
    slow = replace(one, retimed=replace(AGAIN, better=False))
    assert slow.state == "incomplete" and "not faster" in slow.open_points[0]
    wrong = replace(one, retimed=replace(AGAIN, better=False, wrong=True, message="c is off"))
    assert wrong.state == "failed" and wrong.failures == ("c is off",)
    assert replace(one, retimed=None).state == "passed"
    bad = Perturbed({"n": 5}, 0, "a", 3, 1, "failed", "c is off")
    assert replace(one, perturbed=(bad,)).state == "failed"


def test_the_sanitizer_watches_a_small_and_a_partial_size_of_every_variant() -> None:
    rendered = candidate("better")
    small, large = watched_sizes(task(), rendered)
    assert small["n"] <= 3 and large["n"] > 1000 and large["n"] % 32
    first, second = watched_runs(task(), rendered, (small, large), 5)
    assert first.launches[0].kernel == "better"
    assert second.arrays["c"] == 4 * large["n"] and second.arrays["a"].shape == (large["n"],)  # type: ignore[union-attr]
    original = render(task().original)
    assert {s["n"] for s in watched_sizes(task(), original)} == {1, 4099}


def test_too_large_sizes_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final, "WATCHED_BYTES", 12 * 33)
    assert {s["n"] for s in watched_sizes(task(), render(task().original))} == {1, 33}


def test_a_condition_on_the_timed_size_alone_leaves_new_inputs_there() -> None:
    timed = task().workload.timed[0]
    guard = Binary(BinaryOp.EQ, var("n"), index(int(timed["n"])), DType.BOOL)
    assert draw(task(), [guard], 7, 3) == [timed]


def test_row_pointers_and_results_stay_as_they_are() -> None:
    subscripts = ArraySpec("i", "in", DType.I32, (index(4),), Values(index(0), index(10)))
    assert subscripts.values is not None
    pointers = replace(subscripts, values=replace(subscripts.values, nondecreasing=True))
    plain = replace(subscripts, values=None)
    assert [_may_change(a) for a in (plain, subscripts, pointers)] == [True, True, False]
    assert not _may_change(replace(plain, role="out"))


def test_a_changed_element_is_another_value_of_its_type() -> None:
    for a in (
        np.array([1.5, 2.5], np.float32),
        np.array([[1, 2], [3, 4]], np.int32),
        np.array([True, False]),
    ):
        b = changed(a, 1)
        assert b.dtype == a.dtype and b.shape == a.shape
        assert np.flatnonzero((a != b).reshape(-1)).tolist() == [1]
        if a.dtype == np.int32:
            assert b.reshape(-1)[1] in a
    assert changed(np.full(3, 7, np.int64), 1).tolist() == [7, 7, 7]
