"""Mutation and crossover as a whole: new programs that apply, and enough of them proved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from evolve.agents.holes import read_template
from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.kernel import Kernel
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from evolve.population.archive import Elite
from evolve.population.rng import stream
from evolve.search import variation
from evolve.search.bench import Bench
from evolve.search.variation import CROSSOVERS, MUTATIONS, Workshop, canonical, cross, mutate
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import legal_moves
from tests.transforms.fixtures import KERNELS
from tests.transforms.programs import PROGRAMS

ROWS = (
    """
    specialize(cols == 8192)
    bind(row, grid.x)
    xr = stage(x, at=row, scope=register)
    split([xr.1, c, c_2, c_3], 4)
    split([xr.1.o, c.o, c_2.o, c_3.o], 256)
    block_reduce([c.o.i, c_2.o.i])
    bind([xr.1.o.i, c_3.o.i], thread.x)
    vectorize([xr.1.i, c_3.i], 4)
    unroll([xr.1.o.o, c.o.o, c_2.o.o, c_3.o.o])
    """,
    """
    specialize(cols == 8192)
    bind(row, grid.x)
    k, t = split([c, c_2, c_3], 512)
    block_reduce([c.i, c_2.i])
    bind(c_3.i, thread.x)
    unroll(k)
    """,
    """
    specialize(cols == 8192)
    split(row, 4)
    bind(row.o, grid.x)
    bind(row.i, thread.y)
    split([c, c_2, c_3], 32)
    warp_reduce([c.i, c_2.i])
    bind(c_3.i, thread.x)
    """,
)
TILES = (
    PROGRAMS["transpose"],
    """
    specialize(rows % 64 == 0 and cols % 64 == 0)
    tile([i, j], [64, 64])
    bind(i.o, grid.y)
    bind(j.o, grid.x)
    tile_x = stage(x, at=j.o, scope=shared)
    split([tile_x.0, j.i], 16)
    split(tile_x.1, 4)
    bind(tile_x.1.o, thread.x)
    bind(tile_x.0.i, thread.y)
    vectorize(tile_x.1.i, 4)
    bind(i.i, thread.x)
    bind(j.i.i, thread.y)
    """,
    """
    split(j, 128)
    bind(i, grid.y)
    bind(j.o, grid.x)
    bind(j.i, thread.x)
    """,
)
CASES = {"softmax": ROWS, "layernorm": ROWS, "transpose": TILES}
DRAWN = 24


def elites(programs: Sequence[str]) -> list[Elite]:
    return [Elite(n, text, 0.5, 2.0, ()) for n, text in enumerate(programs, 1)]


def workshop(
    kernel: Kernel | None, known: set[str], moves: Callable[[str], Sequence[str]] | None = None
) -> Workshop:
    def legal(text: str) -> Sequence[str]:
        assert kernel is not None
        at = apply_program(kernel, parse(text))
        return legal_moves(at.kernel, at.names)

    return Workshop(Bench(kernel), moves or legal, known.__contains__)


def first_filling(text: str) -> str:
    template = read_template(text)
    return template.fill((0,) * len(template.choices))


def test_the_parents_are_proved() -> None:
    for name, programs in CASES.items():
        kernel = KERNELS[name]()
        for text in programs:
            assert prove(kernel, finish(apply_program(kernel, parse(text)).kernel)).status is Status.PROVED


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("kind", "floor"), [("cross", 0.4), ("mutate", 0.6)])
def test_most_children_are_new_and_proved(name: str, kind: str, floor: float) -> None:
    kernel, parents = KERNELS[name](), elites(CASES[name])
    known = {canonical(one.program) for one in parents}
    kernels = {apply_program(kernel, parse(one.program)).kernel for one in parents}
    shop = workshop(kernel, known)
    made = good = 0
    for number in range(DRAWN):
        rng = stream(3, kind, number)
        first, second = rng.sample(parents, 2)
        child = cross(first, second, shop, rng) if kind == "cross" else mutate(first, shop, rng)
        if child is None:
            continue
        text = canonical(first_filling(child.text))
        assert text not in known, "proposed twice"
        known.add(text)
        made += 1
        result = apply_program(kernel, parse(text)).kernel  # what is proposed always applies
        if result not in kernels and prove(kernel, finish(result)).status is Status.PROVED:
            good += 1
            kernels.add(result)
    assert made >= DRAWN / 2
    assert good >= floor * made, f"{good} of {made}"


def test_every_operator_is_used_and_named() -> None:
    kernel = KERNELS["transpose"]()
    parents = elites(["tile([i, j], [32, 64])\nbind(i.o, grid.y)\nbind(j.i, thread.x)\n", TILES[1]])
    shop = workshop(kernel, set(), lambda text: ["unroll(i.i)"])
    mutants = [mutate(parents[0], shop, stream(0, "test", n)) for n in range(100)]
    crosses = [cross(parents[0], parents[1], shop, stream(0, "test", n)) for n in range(30)]
    assert {one.operator for one in mutants if one} == {name for name, *_ in MUTATIONS}
    assert {one.operator for one in crosses if one} == {name for name, *_ in CROSSOVERS}
    assert {one.parents for one in mutants if one} == {(1,)}
    assert {one.parents for one in crosses if one} == {(1, 2)}


def test_only_deleting_may_lose_further_statements() -> None:
    parent = elites(["specialize(n % 4 == 0)\nsplit(i, 64)\nvectorize(i.i, 4)\nunroll(i.i.o)\n"])[0]
    shop = workshop(KERNELS["vecadd"](), set())
    lengths: dict[str, set[int]] = {}
    for number in range(100):
        child = mutate(parent, shop, stream(0, "test", number))
        if child is not None:
            lengths.setdefault(child.operator, set()).add(len(parse(child.text).statements))
    assert lengths.pop("delete") == {3, 2}
    assert lengths.pop("extend") == {5}
    assert set().union(*lengths.values()) == {4}


def test_what_was_proposed_is_not_proposed_again() -> None:
    kernel, parents = KERNELS["vecadd"](), elites(["split(i, 256)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"])
    known: set[str] = set()
    shop = workshop(kernel, known)
    for number in range(15):
        child = mutate(parents[0], shop, stream(0, "test", number))
        if child is not None:
            text = canonical(first_filling(child.text))
            assert text not in known
            known.add(text)
    assert len(known) > 10


def test_programs_that_differ_in_names_only_have_no_children_by_crossover() -> None:
    kernel = KERNELS["softmax"]()
    same = elites(["a, b = split(c, 4)\nunroll(b)\n", "split(c, 4)\nunroll(c.i)\n"])
    shop = workshop(kernel, set())
    assert all(cross(*same, shop, stream(0, "test", n)) is None for n in range(20))


def test_the_second_parent_s_copies_take_the_first_one_s_names() -> None:
    shop = workshop(KERNELS["transpose"](), set())
    first, second = elites(TILES[:2])
    texts = [one.text for n in range(20) if (one := cross(first, second, shop, stream(0, "test", n)))]
    assert texts and not any("tile_x" in text for text in texts)


def test_the_baseline_can_be_mutated() -> None:
    child = mutate(elites([""])[0], workshop(KERNELS["vecadd"](), set()), stream(0, "test", 1))
    assert child is not None and child.operator == "extend"
    assert len(parse(child.text).statements) == 1


def test_a_move_is_put_in_where_it_is_legal_and_what_follows_still_applies() -> None:
    parent = elites(["split(i, 256)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"])[0]
    kernel = KERNELS["vecadd"]()
    texts = set()
    shop = workshop(kernel, set())
    for number in range(40):
        child = mutate(parent, shop, stream(0, "test", number))
        if child is not None and child.operator == "extend":
            texts.add(child.text)
            apply_program(kernel, parse(child.text))
    assert any(not text.startswith(parent.program) for text in texts)
    assert any(text.startswith(parent.program) for text in texts)


def test_programs_of_another_language_are_only_extended() -> None:
    parent = elites(["set(tile, 4)"])[0]
    shop = workshop(None, set(), lambda text: ["set(width, 2)"])
    child = mutate(parent, shop, stream(0, "test", 0))
    assert child is not None and child.text == "set(tile, 4)\nset(width, 2)\n"
    assert cross(parent, parent, shop, stream(0, "test", 0)) is None


def test_a_number_of_draws_ends_the_search_for_a_child() -> None:
    drawn = 0

    def moves(text: str) -> Sequence[str]:
        nonlocal drawn
        drawn += 1
        return []

    assert mutate(elites([""])[0], workshop(KERNELS["vecadd"](), set(), moves), stream(0, "test", 0)) is None
    assert 0 < drawn <= variation.DRAWS
