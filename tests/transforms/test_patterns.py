"""Patterns apply to the kernels that they are for, with proved results; elsewhere they give a reason."""

from __future__ import annotations

import re
from functools import cache

import pytest

from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse, parse_statement
from evolve.dsl.registry import Example, patterns, primitives
from evolve.legality.verdict import Limits
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.target.data import data_dir
from evolve.transforms.apply import apply_program
from evolve.transforms.call import Call
from evolve.transforms.names import NameTable
from evolve.transforms.patterns import expansion, fill
from evolve.transforms.shapes import CONDITIONS, NAMES

EXAMPLES = [(name, e) for name, p in patterns().items() for e in p.spec.examples]
LEGAL = [(n, e) for n, e in EXAMPLES if e.refused is None]


@cache
def source(kernel: str) -> Source:
    path = data_dir("kernels") / f"{kernel}.cu"
    return open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm")).task.source


def test_those_that_were_asked_for_are_there() -> None:
    asked = "row_reduction tiled_matmul tiled_transpose stencil_tile grid_stride_map histogram_privatize"
    assert set(asked.split()) <= patterns().keys()
    assert not patterns().keys() & primitives().keys()


@pytest.mark.parametrize("name", patterns())
def test_a_pattern_is_described_whole(name: str) -> None:
    pattern = patterns()[name]
    assert any(e.refused is None for e in pattern.spec.examples)
    assert any(e.refused == "E-PATTERN" for e in pattern.spec.examples)
    assert {e.refused for e in pattern.spec.examples} - {None} <= {r.code for r in pattern.spec.rejections}
    assert {d.rule for d in pattern.applies} <= CONDITIONS.keys()
    assert {d.rule for d in pattern.names.values()} <= NAMES.keys()
    known = {p.name for p in pattern.spec.parameters} | pattern.names.keys() | pattern.numbers.keys()
    assert set(re.findall(r"\{(\w+)\}", "\n".join(pattern.program))) <= known


def test_every_condition_and_rule_is_used() -> None:
    assert {d.rule for p in patterns().values() for d in p.applies} == CONDITIONS.keys()
    assert {d.rule for p in patterns().values() for d in p.names.values()} == NAMES.keys()


@pytest.mark.parametrize(
    ("name", "e"), EXAMPLES, ids=[f"{n}-{e.kernel}-{i}" for i, (n, e) in enumerate(EXAMPLES)]
)
def test_example(name: str, e: Example) -> None:
    verdict = compile_program(source(e.kernel), parse(e.program), Limits()).verdict
    if e.refused is None:
        assert verdict.proved, verdict.diagnostics
        return
    assert [d.code for d in verdict.diagnostics] == [e.refused], verdict.diagnostics
    assert e.refused != "E-PATTERN" or f"{name} does not apply: " in verdict.diagnostics[0].message


@pytest.mark.parametrize(("name", "e"), LEGAL, ids=[f"{n}-{e.kernel}-{i}" for i, (n, e) in enumerate(LEGAL)])
def test_a_pattern_is_the_program_that_it_stands_for(name: str, e: Example) -> None:
    kernel = source(e.kernel).kernel
    *before, statement = parse(e.program).statements
    text = "".join(f"{s}\n" for s in before)
    at = apply_program(kernel, parse(text))
    lines = expansion(Call(at.kernel, NameTable(), statement), patterns()[name])
    if text:  # what is known already is not said again
        lines = tuple(x for x in lines if not x.startswith("specialize("))
    assert all(parse_statement(x).primitive in primitives() for x in lines)
    written = apply_program(kernel, parse(text + "".join(f"{x}\n" for x in lines)))
    assert written.kernel == apply_program(kernel, parse(e.program)).kernel


def test_what_is_empty_is_left_out() -> None:
    values = {"a": ("x", "y"), "b": (), "n": ("4",)}
    assert fill("split([{a}.o, {b}.o], {n})", values) == "split([x.o, y.o], 4)"
    assert fill("bind([{b}.i], thread.x)", values) is None
    assert fill("specialize({b} % {n} == 0)", values) is None
    assert fill("{n}_t = stage({n}, at=k)", values) == "4_t = stage(4, at=k)"
