"""Every primitive has a description and an implementation, and its examples do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import evolve.transforms
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.dsl.registry import Example, primitives, statements
from evolve.ir.printer import print_kernel
from evolve.transforms.apply import apply_program
from evolve.transforms.call import TRANSFORMS
from evolve.transforms.domains import RULES
from tests.transforms.fixtures import KERNELS, assert_same

EXAMPLES = [(p.name, e) for p in primitives().values() for e in p.examples]
GENERAL = {"E-NAME", "E-HOLE", "E-SIZE"}
"""Codes of resolving arguments and of limits, which any primitive may give."""


def test_registry_and_implementations_agree() -> None:
    assert set(statements()) == set(TRANSFORMS)


@pytest.mark.parametrize("name", primitives())
def test_a_primitive_has_a_legal_and_an_illegal_example(name: str) -> None:
    examples = primitives()[name].examples
    assert any(e.refused is None and name in e.program for e in examples)
    assert any(e.refused is not None for e in examples)


@pytest.mark.parametrize("name", primitives())
def test_a_primitive_is_offered_as_a_move_by_rules_that_exist(name: str) -> None:
    forms = primitives()[name].moves
    assert forms, "say in dsl_spec/ which values its parameters have as a next move"
    for form in forms:
        for parameter, domain in form.items():
            assert domain.rule is None or domain.rule in RULES
            assert domain.rule is not None or domain.values
            spec = primitives()[name].parameter(parameter)
            assert spec is not None
            if spec.type == "choice":
                assert domain.values and set(domain.values) <= set(spec.choices)


def test_every_rule_is_used() -> None:
    used = {d.rule for p in primitives().values() for form in p.moves for d in form.values()}
    assert RULES.keys() <= used


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(EXAMPLES)])
def test_example(name: str, example: Example) -> None:
    kernel = KERNELS[example.kernel]()
    before = print_kernel(kernel, origins=True)
    program = parse(example.program)
    if example.refused is not None:
        with pytest.raises(RefusedError) as refused:
            apply_program(kernel, program)
        assert refused.value.diagnostic.code == example.refused
        assert refused.value.diagnostic.statement == len(program.statements) - 1
        assert print_kernel(kernel, origins=True) == before
        return
    result = apply_program(kernel, program)
    assert print_kernel(result.kernel, origins=True) != before
    for wanted in ((3, 5, 7), (9, 4, 2), (1, 1, 1), (17, 33, 6)):
        assert_same(kernel, result.kernel, *wanted)


def test_documented_codes_are_those_raised() -> None:
    folder = Path(evolve.transforms.__file__).parent
    raised = {
        code
        for path in folder.glob("*.py")
        for code in re.findall(r'"(E-[A-Z-]+)"', path.read_text(encoding="utf-8"))
    }
    documented = {r.code for p in statements().values() for r in p.rejections}
    assert raised - GENERAL == documented - GENERAL


def test_each_documented_code_has_an_example() -> None:
    documented = {r.code for p in primitives().values() for r in p.rejections}
    shown = {e.refused for p in primitives().values() for e in p.examples} - {None}
    assert documented - shown == EXAMPLES_ELSEWHERE


EXAMPLES_ELSEWHERE = {"E-EXPAND"}
"""Shown in the tests of their own families: they need a kernel that no short program reaches."""


@pytest.mark.parametrize("name", primitives())
def test_an_example_is_refused_with_a_documented_code(name: str) -> None:
    spec = primitives()[name]
    codes = {r.code for r in spec.rejections} | GENERAL
    assert {e.refused for e in spec.examples if e.refused} <= codes
