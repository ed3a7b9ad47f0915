"""The measured scorer's judgement, on a fake GPU: what is scored, and what each kind of cheat comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from evolve.devices.cuda.messages import Clocks
from evolve.ir.errors import EvolveError
from evolve.ir.expr import TRUE
from evolve.scoring import timed
from evolve.scoring.measured import MeasuredScorer
from evolve.scoring.model import modelled
from evolve.scoring.references import Expected
from evolve.scoring.timed import secret_seed
from tests.devices.cuda.fake_cuda import Launch, hang, stray
from tests.scoring.measured_task import built, candidate, make, task, vecadd

Make = Callable[..., MeasuredScorer]
TIMED = 100_000
VECADD = """extern "C" __global__ void sniffs(const float *a, const float *b, float *c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
__all__ = ["make"]


def test_an_honest_kernel_is_scored(make: Make) -> None:
    scorer = make(better=vecadd)
    first = scorer.baseline()
    assert first.status == "scored" and first.time_s == pytest.approx(100e-6)
    got = scorer.score_rendered(candidate("better"))
    assert got.status == "scored", got.message
    assert got.time_s == pytest.approx(50e-6) and got.fitness > 0
    timing = got.detail["timing"][0]
    assert timing["input_sets"] == 3 and timing["right_by"] == "reference" and timing["persisting_reset"]
    assert timing["checked_launches"] >= 20
    assert timing["warm_us"] == pytest.approx(50.0)


def test_a_time_is_explained_where_the_model_was_asked(make: Make) -> None:
    scorer = make(better=vecadd)
    one = built("better")
    told = replace(one, estimates=modelled(task(), one.rendered, one.cubin))
    for outcome in (scorer.baseline(), scorer.score(told)):
        names = {c["name"] for c in outcome.gap["causes"]}
        assert names and names != {"unexplained"}
        assert outcome.gap["timing"] == "measured"
        assert outcome.gap["time_s"] == pytest.approx(outcome.time_s)
    assert {c["name"] for c in scorer.score(one).gap["causes"]} == {"unexplained"}


def test_the_timed_sets_differ_in_content_and_place(make: Make) -> None:
    scorer = make()
    sets = [scorer.worker.local.sets[k] for k in scorer.shapes[0].keys]
    assert len({s.host["a"].tobytes() for s in sets}) == 3
    assert {s.pointer("a") % 4096 for s in sets} == {0, 256, 512}


def test_fewer_sets_where_memory_is_short(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    size = task().workload.bytes_at(task().workload.timed[0])
    # One of the three arrays is an output, whose lowest and highest right values are kept too.
    for sets, keys in ((2.5, 2), (1.9, 1)):
        monkeypatch.setattr(timed, "SHARE", sets * (size + 2 * size / 3) / (1 << 30))
        assert len(make().shapes[0].keys) == keys
    monkeypatch.setattr(timed, "SHARE", 0.0)
    assert len(make().shapes[0].keys) == 1


def test_inputs_come_from_the_secret(make: Make) -> None:
    assert secret_seed(1, "check") != secret_seed(2, "check") != secret_seed(2, "timed", 0, 0)
    scorer = make()
    sizes = task().workload.check[0]
    public = type(scorer.references)(task()).inputs(sizes, "normal")["a"]
    assert scorer.references.task.seed != task().seed
    assert not np.array_equal(scorer.references.inputs(sizes, "normal")["a"], public)


def test_every_family_is_seen_at_a_size_with_room_for_mistakes(make: Make) -> None:
    """Wrong on one family, from three elements on."""

    def sniffs(x: Launch) -> None:
        a, _, c, n = x.args
        vecadd(x)
        if 2 < n < TIMED and (x.view(a, 2) == 1.0).all():
            x.view(c, n)[0] = 3.0

    got = make(sniffs=sniffs).score_rendered(candidate("sniffs"))
    assert got.status == "incorrect" and "ones inputs" in got.message


def test_each_candidate_sees_another_family_at_the_timed_size(make: Make) -> None:
    """Wrong on one family only, and only at the timed size: the turn comes, or the duel."""
    ones = 0

    def sniffs(x: Launch) -> None:
        nonlocal ones
        a, _, c, n = x.args
        vecadd(x)
        if n == TIMED and x.view(a, n)[0] == 1.0:
            ones += 1
            x.view(c, n)[0] = 3.0

    scorer = make(costs={"sniffs": 100.0}, sniffs=sniffs, better=vecadd)
    assert scorer.score_rendered(candidate("better")).status == "scored"
    families = len(task().workload.families) - 1
    found = [scorer.score_rendered(candidate("sniffs", f"// {i}\n{VECADD}")) for i in range(families)]
    assert ones == 1 and [o.status for o in found].count("incorrect") == 1
    assert next(o for o in found if o.status == "incorrect").message.endswith("tolerances")


def test_what_leads_meets_every_family_at_the_timed_size(make: Make) -> None:
    def sniffs(x: Launch) -> None:
        a, _, c, n = x.args
        vecadd(x)
        if n == TIMED and x.view(a, n)[0] == 1.0:
            x.view(c, n)[0] = 3.0

    got = make(sniffs=sniffs).score_rendered(candidate("sniffs", VECADD))
    assert got.status == "incorrect" and "ones inputs" in got.message


def test_a_wrong_incumbent_loses(make: Make) -> None:
    def sniffs(x: Launch) -> None:
        a, _, c, n = x.args
        vecadd(x)
        if n == TIMED and x.view(a, n)[0] == 1.0:
            x.view(c, n)[0] = 3.0

    scorer = make(costs={"right": 100.0}, right=vecadd, sniffs=sniffs)
    duel = scorer.compare(built("right"), built("sniffs"))
    assert duel.better and duel.wrong == 1 and "ones inputs" in duel.message
    duel = scorer.compare(built("sniffs"), built("right"))
    assert not duel.better and duel.wrong == 0


def test_an_incumbent_that_cannot_be_judged_decides_nothing(make: Make) -> None:
    scorer = make(hang=hang, better=vecadd)
    scorer.baseline()
    duel = scorer.compare(built("better"), built("hang"))
    assert not duel.better and duel.wrong is None and "ran for more than" in duel.message


def test_a_duel_checks_every_family_at_the_timed_size(make: Make) -> None:
    seen: set[bytes] = set()

    def watched(x: Launch) -> None:
        vecadd(x)
        if x.args[3] == TIMED:
            seen.add(x.view(x.args[0], 1000).tobytes())

    scorer = make(costs={"slow": 100.0}, fast=watched, slow=vecadd)
    assert scorer.compare(built("fast"), built("slow")).better
    # Three sets to time on, and one of each family.
    assert len(seen) == 3 + len(task().workload.families)


def test_what_knows_the_sizes_fails_at_others(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.scoring.held_out.BEYOND_L2", 0)  # no size as large as that for a fake GPU
    of = task()
    known = {s["n"] for s in (*of.workload.timed, *of.workload.check, *of.shapes_for(TRUE))}

    def table(x: Launch) -> None:
        if x.args[3] in known:
            vecadd(x)

    scorer = make(cheat=table, better=vecadd)
    assert scorer.score_rendered(candidate("cheat")).status == "scored"
    cheat, honest = scorer.held_out(built("cheat")), scorer.held_out(built("better"))
    assert len(cheat) == len(honest) == 3
    assert all("wrong" in h.message and h.time_s is None for h in cheat)
    for h in honest:
        assert h.message == "" and h.variant == 0
        assert (h.time_s, h.original_s) == (pytest.approx(50e-6), pytest.approx(100e-6))


def stale(x: Launch) -> None:
    """Writes nothing: hopes that the last result is still there."""


def tail_ignored(x: Launch) -> None:
    a, b, c, n = x.args
    n -= n % 256
    x.view(c, n)[:] = x.view(a, n) + x.view(b, n)


def low_precision(x: Launch) -> None:
    a, b, c, n = x.args
    x.view(c, n)[:] = x.view(a, n).astype(np.float16) + x.view(b, n).astype(np.float16)


def only_when_small(x: Launch) -> None:
    """Right at the sizes that are checked in full, half of it at the timed one."""
    a, b, c, n = x.args
    m = n if n < 50_000 else n // 2
    x.view(c, m)[:] = x.view(a, m) + x.view(b, m)


def one_element(x: Launch) -> None:
    vecadd(x)
    c, n = x.args[2:]
    if n == TIMED:
        x.view(c, n)[77_777] += 1.0


def guard(x: Launch) -> None:
    vecadd(x)
    c, n = x.args[2:]
    x.view(c, n + 9)[n + 8] = 0.0


def spoil(x: Launch) -> None:
    vecadd(x)
    x.view(x.args[0], 1)[0] = 0.0


def zeros(x: Launch) -> None:
    x.view(x.args[2], x.args[3])[:] = 0.0


def copy(x: Launch) -> None:
    a, _, c, n = x.args
    x.view(c, n)[:] = x.view(a, n)


WRONG = [stale, tail_ignored, low_precision, only_when_small, one_element, guard, spoil, zeros, copy, stray]


@pytest.mark.parametrize("cheat", WRONG, ids=lambda f: f.__name__)
def test_wrong_results_are_seen(make: Make, cheat: Callable[[Launch], None]) -> None:
    scorer = make(cheat=cheat)
    got = scorer.score_rendered(candidate("cheat"))
    assert got.status == "incorrect", got.message
    assert got.fitness == 0.0 and got.message


def test_a_kernel_that_tires_of_working(make: Make) -> None:
    """Right in its first launches at the timed size, then it does nothing: seen launch by launch."""
    count = 0

    def lazy(x: Launch) -> None:
        nonlocal count
        count += x.args[3] == TIMED
        if count <= 10:
            vecadd(x)

    got = make(cheat=lazy).score_rendered(candidate("cheat"))
    assert got.status == "incorrect" and "timed launches" in got.message
    assert got.detail["audit"]["measured"]["mismatches"]


def test_a_memo_by_address_is_stale(make: Make) -> None:
    """Remembers results by pointer. Other contents at the same addresses show it."""
    memo: dict[int, np.ndarray] = {}

    def cached(x: Launch) -> None:
        a, b, c, n = x.args
        key = (a, n)
        if key not in memo:
            memo[key] = x.view(a, n) + x.view(b, n)
        x.view(c, n)[:] = memo[key]

    got = make(cheat=cached).score_rendered(candidate("cheat"))
    assert got.status == "incorrect"


def test_a_memo_in_variables_of_the_module_is_always_empty(make: Make) -> None:
    def cached(x: Launch) -> None:
        a, b, c, n = x.args
        if "memo" in x.state:
            x.gpu.costs_us["cheat"] = 1e-3
        x.state["memo"] = x.view(a, n) + x.view(b, n)
        x.view(c, n)[:] = x.state["memo"]

    text = (
        'extern "C" __global__ void cheat(float *a, float *b, float *c, int n) { static int k; c[0] = k++; }'
    )
    got = make(cheat=cached).score_rendered(candidate("cheat", text))
    assert got.status == "scored" and got.time_s == pytest.approx(50e-6)


def test_faster_than_the_memory_is_quarantined_with_its_record(make: Make) -> None:
    scorer = make(costs={"cheat": 0.01}, cheat=vecadd)
    got = scorer.score_rendered(candidate("cheat"))
    assert got.status == "quarantined" and "hard dram bound" in got.message and got.fitness == 0.0
    audit = got.detail["audit"]
    assert audit["measured"]["samples_us"] and audit["floor_s"] > 0 and len(audit["digests"]) == 3


def test_ten_times_faster_is_looked_at_twice(make: Make) -> None:
    scorer = make(costs={"better": 5.0}, better=vecadd)
    scorer.baseline()
    got = scorer.score_rendered(candidate("better"))
    assert got.status == "scored" and got.detail["looked_at_twice"] is True


def test_what_is_far_slower_than_the_best_is_timed_by_few_samples(make: Make) -> None:
    scorer = make(costs={"best": 100.0, "near": 250.0, "far": 350.0}, best=vecadd, near=vecadd, far=vecadd)
    took = {name: scorer.score_rendered(candidate(name)) for name in ("best", "near", "far")}
    samples = {name: len(o.detail["samples_us"][0]) for name, o in took.items()}
    assert samples["best"] >= 10 and samples["near"] >= 10 and samples["far"] == 3
    warm = {name: o.detail["timing"][0]["warm_us"] is not None for name, o in took.items()}
    assert warm == {"best": True, "near": True, "far": False}
    assert took["far"].time_s == pytest.approx(350e-6)


def test_what_only_waited_for_the_host_when_it_was_checked_is_timed_by_many_samples(make: Make) -> None:
    def waits(x: Launch) -> None:
        vecadd(x)
        x.gpu.now_us += 0.0 if "ev_read" in x.gpu.log[-4:] else 400.0

    scorer = make(costs={"best": 100.0, "waits": 90.0}, best=vecadd, waits=waits)
    scorer.score_rendered(candidate("best"))
    got = scorer.score_rendered(candidate("waits"))
    assert got.time_s == pytest.approx(90e-6) and len(got.detail["samples_us"][0]) >= 10


def test_the_warm_time_decides_nothing(make: Make) -> None:
    """One that is ten times as fast with warm caches, and twice as slow after a flush."""

    def warmer(x: Launch) -> None:
        vecadd(x)
        x.gpu.now_us += 0.0 if "ev_wait" in x.gpu.log[-3:] else 190.0

    scorer = make(costs={"warmer": 10.0}, warmer=warmer)
    original = scorer.baseline()
    got = scorer.score_rendered(candidate("warmer"))
    assert got.detail["timing"][0]["warm_us"] == pytest.approx(10.0)
    assert got.time_s == pytest.approx(200e-6) and got.fitness < original.fitness
    assert not scorer.compare(built("warmer"), scorer._original).better


def test_faults_cost_their_candidate_and_the_next_is_right(make: Make) -> None:
    scorer = make(hang=hang, stray=stray, better=vecadd)
    scorer.baseline()
    assert scorer.score_rendered(candidate("hang")).status == "quarantined"
    assert scorer.score_rendered(candidate("stray")).status == "incorrect"
    assert scorer.score_rendered(candidate("nowhere")).status == "compile_failed"
    assert scorer.score_rendered(candidate("better")).status == "scored"
    assert scorer.worker.replaced == 2


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ({"NUM_REGS": 200}, "registers a thread in the image, 200 by the driver"),
        ({"BLOCKS": 1}, "by our occupancy (limited by threads), 1 by the driver"),
    ],
)
def test_what_the_driver_sees_otherwise_is_said(make: Make, says: dict[str, int], said: str) -> None:
    scorer = make(better=vecadd)
    assert scorer.baseline().message == ""
    scorer.worker.gpu.driver.says = says
    got = scorer.score_rendered(candidate("better"))
    assert got.status == "scored" and said in got.message
    scorer.worker.gpu.driver.says = {}
    assert (
        scorer.score_rendered(
            candidate("better", "// another\n" + VECADD.replace("sniffs", "better"))
        ).message
        == ""
    )


def test_text_that_does_not_compile(make: Make) -> None:
    got = make().score_rendered(candidate("bad", 'extern "C" __global__ void bad(float *a) { a[0] = ; }'))
    assert got.status == "compile_failed"


def test_a_duel_of_long_kernels_and_one_of_short_ones(make: Make) -> None:
    for cost in (100.0, 8.0):
        scorer = make(costs={"slow": cost * 1.1, "fast": cost}, slow=vecadd, fast=vecadd)
        duel = scorer.compare(built("fast"), built("slow"))
        assert duel.better and duel.second_s / duel.first_s == pytest.approx(1.1)
        assert duel.detail["in_batches"] == [cost == 8.0]
        assert not scorer.compare(built("slow"), built("fast")).better


def test_a_duel_is_lost_by_wrong_results(make: Make) -> None:
    scorer = make(costs={"cheat": 1.0}, cheat=one_element, fast=vecadd)
    duel = scorer.compare(built("cheat"), built("fast"))
    assert not duel.better and duel.wrong == 0 and "wrong" in duel.message


class Moving:
    """A clock that falls by 4 % during every measurement."""

    def __init__(self) -> None:
        self.readings = 0

    def read(self) -> Clocks:
        self.readings += 1
        return Clocks(1980 if self.readings % 2 else 1900, 3000, 40, 300.0, ())


def test_a_score_says_that_the_clock_moved_in_both_takes(make: Make) -> None:
    scorer = make(better=vecadd)
    scorer.baseline()
    scorer.worker.local.nvml = Moving()
    got = scorer.score_rendered(candidate("better"))
    assert got.status == "scored" and got.time_s == pytest.approx(50e-6)
    assert "moved from 1980 to 1900 MHz" in got.message and got.detail["timing"][0]["clock_moved"]
    assert scorer.worker.local.nvml.readings == 4


def test_a_duel_that_the_clock_could_have_decided_is_undecided(make: Make) -> None:
    costs = {"fast": 100.0, "near": 103.0, "far": 110.0}
    scorer = make(costs=costs, fast=vecadd, near=vecadd, far=vecadd)
    assert scorer.compare(built("fast"), built("near")).better
    scorer.worker.local.nvml = Moving()
    near, far = (scorer.compare(built("fast"), built(n)) for n in ("near", "far"))
    assert not near.better and near.wrong is None and near.message.startswith("undecided: the SM clock moved")
    assert near.first_s == pytest.approx(100e-6) and near.detail["clock_moved"] == [True]
    assert far.better and far.message == ""
    slower = scorer.compare(built("near"), built("fast"))
    assert not slower.better and slower.message == ""


def test_a_task_that_cannot_tell_zeros_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make()
    sure = scorer.references.expected

    def vague(*args: object, **more: object) -> Expected:
        e = sure(*args, **more)  # type: ignore[arg-type]
        return replace(e, tolerances={n: np.full(t.shape, 1e9) for n, t in e.tolerances.items()})

    monkeypatch.setattr(scorer.references, "expected", vague)
    with pytest.raises(EvolveError) as e:
        scorer.baseline()
    assert e.value.code == "task-too-loose" and "zeros" in e.value.message
