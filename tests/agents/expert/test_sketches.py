"""The sketches themselves: legal, complete, in a fixed order."""

from __future__ import annotations

import pytest

from evolve.agents.expert.agent import sketches
from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import describe
from evolve.agents.holes import read_template
from evolve.dsl.parser import parse
from tests.agents.expert.extended import EXTENDED
from tests.agents.expert.reach import KERNELS, problem_of

EXAMPLES = sorted(f.stem for f in KERNELS.glob("*.cu"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_sketches_and_the_first_are_proved(name: str) -> None:
    problem = problem_of(name, (KERNELS / f"{name}.cu").read_text())
    info = problem.info()
    found = sketches(info.kernel, info.workload["sizes"])
    assert len(found) == len({s.text for s in found}) >= 4
    for sketch in found[:2]:
        template = read_template(sketch.text)
        compiled = problem.compile(parse(template.fill((0,) * len(template.choices))))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)


def test_sketches_are_a_function_of_the_kernel() -> None:
    text = (KERNELS / "layernorm.cu").read_text()
    infos = [problem_of("layernorm", text).info() for _ in range(2)]
    first, second = (sketches(i.kernel, i.workload["sizes"]) for i in infos)
    assert first == second


def test_columns_outermost_are_brought_inside() -> None:
    info = problem_of("gained", EXTENDED["columns outermost"].text).info()
    shape = describe(info.kernel, info.workload["sizes"])
    assert shape.parallel == ("c", "r")
    assert shape.fastest(shape.parallel) == "c"
    assert "reorder([r, c])" in sketches(info.kernel, info.workload["sizes"])[0].text


def test_the_parts_of_a_nest_are_counted() -> None:
    e = EXTENDED["product with the second operand turned, scaled and added"]
    shape = describe(problem_of("nt", e.text).info().kernel, {"m": 128, "n": 128, "k": 128})
    assert [(p.loop, p.stores) for p in shape.pieces] == [(None, False), ("t", False), (None, True)]


def test_needs_join_into_one_condition_that_holds() -> None:
    info = problem_of("vecadd", (KERNELS / "vecadd.cu").read_text()).info()
    shape = describe(info.kernel, {"n": 4096 * 3})
    facts = Facts(shape, {"n": 4096 * 3})
    assert facts.multiple("i", 4)
    assert facts.multiple("i", 6)
    assert not facts.multiple("i", 5)
    assert facts.statement() == "specialize(n % 12 == 0)"
    facts.constant("i")
    assert facts.statement() == "specialize(n == 12288)"


def test_long_loops_go_to_the_long_axis_of_the_grid() -> None:
    assert on_grid([("r", 100_000)], ("c", 4)) == ["bind(r, grid.x)", "bind(c, grid.y)"]
    assert on_grid([("r", 100)], ("c", 100_000)) == ["bind(r, grid.y)", "bind(c, grid.x)"]
    assert on_grid([("r", 100_000)], ("c", 100_000)) is None
