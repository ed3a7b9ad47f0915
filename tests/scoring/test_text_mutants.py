"""Correct modules whose emitted text is damaged: execution under checks must not let one pass.

The prover sees no text, so nothing but execution stands between a fault in code generation and a score.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import compile_program
from evolve.devices.sim.build import compile_host
from evolve.ir.errors import EvolveError
from evolve.scoring.correctness import Correctness, Failure
from evolve.scoring.references import References
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from tests.illegal.lifted import FILES
from tests.illegal.templates import TEMPLATES

PROGRAMS = (("softmax", 1), ("layernorm", 0), ("matmul", 1), ("transpose", 0), ("stencil", 0), ("saxpy", 0))
MUTANTS = 3
"""Of each program. One takes up to a second."""


def _each(pattern: str, by: str) -> Callable[[str], list[str]]:
    return lambda s: [s[: m.start()] + m.expand(by) + s[m.end() :] for m in re.finditer(pattern, s)]


def _rounded(mask: str) -> Callable[[str], list[str]]:
    return _each(r"^(\s*\w+\[.*\] = )(.*);$", rf"\1__int_as_float(__float_as_int(\2) & {mask});")


DAMAGE: dict[str, Callable[[str], list[str]]] = {
    "no barrier": _each(r"__sync\w+\([^)]*\);", ";"),
    "no guard": _each(r"^(\s*if) \(.*\) \{$", r"\1 (true) {"),
    "half a guard": _each(r"^(\s*if \(.*) && [^&|]*\) \{$", r"\1) {"),
    "one more": _each(r" < ", " <= "),
    "one less": _each(r" < (\w+);", r" < \1 - 1;"),
    "other sign": _each(r" \+ ", " - "),
    "no product": _each(r" \* ", " + "),
    "element above": _each(r"\[([^\[\]]+)\]", r"[\1 + 1]"),
    "element below": _each(r"\[([^\[\]]+)\]", r"[\1 - 1]"),
    "other identity": _each(r"= (-INFINITY|-?0\.0f|1\.0f);", "= 0.5f;"),
    "minimum": _each("fmaxf", "fminf"),
    "bfloat16": _rounded("0xffff0000"),
    "tf32": _rounded("0xffffe000"),
    "no statement": _each(r"^\s*\w+(\[.*\])? (\+|\*)?= .*;$", ""),
    "other axis": _each(r"threadIdx\.x", "threadIdx.y"),
    "other block axis": _each(r"blockIdx\.x", "blockIdx.y"),
    "other number": _each(r"(?<![\w.])(\d+)(?![\w.])", r"(\1 + 1)"),
}


@dataclass(frozen=True)
class Mutant:
    what: str
    before: str
    after: str
    text: str


def mutants(rendered: Rendered) -> Iterator[Mutant]:
    """Every damage at every place of the first variant's kernel, but for its declarations."""
    name = rendered.variants[0].launches[0].kernel
    lines = rendered.text.split("\n")
    start = next(n for n, s in enumerate(lines) if re.search(rf"\b{name}\(", s))
    stop = next(n for n in range(start, len(lines)) if lines[n].startswith("}"))
    for n in range(start + 1, stop):
        old = lines[n]
        if re.match(r"\s*(//|__shared__|(const )?\w+ ?\*|const float \w+_in)", old):
            continue
        for what, change in DAMAGE.items():
            for new in change(old):
                yield Mutant(what, old, new, "\n".join((*lines[:n], new, *lines[n + 1 :])))


def _drawn(rendered: Rendered, rng: random.Random) -> list[Mutant]:
    """Some mutants, no two with the same kind of damage."""
    by: dict[str, list[Mutant]] = {}
    for m in mutants(rendered):
        by.setdefault(m.what, []).append(m)
    return [rng.choice(by[what]) for what in rng.sample(sorted(by), MUTANTS)]


@pytest.mark.parametrize(("kernel", "number"), PROGRAMS)
def test_damaged_text_does_not_pass(kernel: str, number: int) -> None:
    file: Path = FILES[kernel]
    problem = open_problem(ProblemRequest(str(file), file.read_text(), device="sim:h200-sxm"))
    done = compile_program(problem.task.source, problem.parse(TEMPLATES[kernel][number]), problem.limits)
    assert done.module is not None
    rendered = render(done.module)
    correctness = Correctness(problem.task, References(problem.task))

    def passes(text: str) -> bool:
        try:
            program = compile_host(text, list(rendered.signatures))
        except EvolveError:
            return False
        return not isinstance(correctness.check(rendered, program), Failure)

    assert passes(rendered.text)
    survivors = [m for m in _drawn(rendered, random.Random(kernel)) if passes(m.text)]
    # A damage may turn out to change nothing: a loop bound beyond a guard, a window one larger.
    assert len(survivors) <= 1, survivors
    assert not [m for m in survivors if m.what in ("no barrier", "bfloat16", "tf32", "no statement")]
