"""What the expert does with what has been scored."""

from __future__ import annotations

from random import Random
from typing import Any

from evolve.agents.base import Attempt, Context, Parent
from evolve.agents.expert.agent import PER_ASK, Expert, sketches
from evolve.agents.expert.variations import variations
from tests.agents.expert.reach import KERNELS, problem_of

PROGRAM = """specialize(n % 2048 == 0)
split(i, 4)
split(i.o, 256)
split(i.o.o, 2)
bind(i.o.o.o, grid.x)
bind(i.o.i, thread.x)
unroll(i.o.o.i)
vectorize(i.i, 4)
"""


def gap(*causes: tuple[str, float, tuple[str, ...]]) -> dict[str, Any]:
    return {"causes": [{"name": n, "share": s, "primitives": p} for n, s, p in causes]}


def parent(report: dict[str, Any], proposal: int = 7) -> Parent:
    return Parent(proposal, PROGRAM, 0.9, 400.0, report)


def test_latency_asks_for_more_and_a_tail_for_less() -> None:
    more = variations(parent(gap(("redundant_l2", 0.3, ()))), ())[0]
    less = variations(parent(gap(("tail", 0.3, ()))), ())[0]
    assert "became" in more.why
    assert int(more.why.split()[2]) > int(more.why.split()[0])
    assert int(less.why.split()[2]) < int(less.why.split()[0])


def test_a_named_primitive_is_taken_from_the_legal_moves() -> None:
    moves = ("unroll(k)", "stage(a, at=i.o.o.o, scope=shared)", "launch_bounds(512)")
    first = variations(parent(gap(("global_accesses", 0.4, ("stage",)))), moves)
    texts = [s.text for s in first]
    assert any(t.endswith("stage(a, at=i.o.o.o, scope=shared)\n") for t in texts)
    assert not any(t.endswith("unroll(k)\n") for t in texts)


def test_a_number_changes_wherever_it_stands_and_its_condition_with_it() -> None:
    texts = {s.why: s.text for s in variations(parent({}), ())}
    assert "split(i, 2)" in texts["4 became 2"]
    assert "vectorize(i.i, 2)" in texts["4 became 2"]
    assert "n % 4096 == 0" in texts["256 became 512"]


def test_variations_are_new_and_differ() -> None:
    texts = [s.text for s in variations(parent({}), ())]
    assert PROGRAM not in texts
    assert len(texts) == len(set(texts)) >= 6


def context(ask: int, best: Parent, recent: tuple[Attempt, ...] = ()) -> Context:
    info = problem_of("vecadd", (KERNELS / "vecadd.cu").read_text()).info()
    base = Parent(0, "", 0.5, 700.0)
    return Context(
        ask, info.kernel, info.target, "", {}, info.workload, {}, "reassociate", base, best, (base,), recent,
        100, lambda text: (), Random(0),
    )  # fmt: skip


def test_when_the_sketches_are_used_up_the_best_is_varied() -> None:
    best = parent(gap(("latency", 0.2, ())))
    first = context(0, best)
    offers = len(sketches(first.kernel, first.workload["sizes"]))
    made = Expert().propose(context(offers, best))
    assert len(made) == PER_ASK
    assert all(p.operator == "answer" and p.parents == (7,) for p in made)
    assert list(made) == list(Expert().propose(context(offers, best)))


def test_what_was_tried_lately_is_not_offered_again() -> None:
    best = parent(gap(("latency", 0.2, ())))
    once = Expert().propose(context(50, best))
    recent = tuple(Attempt(n, p.text, "scored", 0.5) for n, p in enumerate(once))
    again = Expert().propose(context(50, best, recent))
    assert not {p.text for p in once} & {p.text for p in again}


def test_all_sketches_are_offered_once() -> None:
    best = Parent(0, "", 0.5, 700.0)
    known = context(0, best)
    wanted = [s.text for s in sketches(known.kernel, known.workload["sizes"])]
    offered = [p.text for ask in range(len(wanted)) for p in Expert().propose(context(ask, best))]
    assert offered == wanted
