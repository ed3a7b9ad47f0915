"""Programs that begin alike share work; what comes out is the same as without."""

from __future__ import annotations

import random

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.ir.affine import Ranges, simplify
from evolve.ir.expr import add, floordiv, index, mod, mul, var
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import For
from evolve.ir.visit import loop_sites
from evolve.transforms import apply as applying
from evolve.transforms.apply import apply_program
from tests.transforms.fixtures import KERNELS
from tests.transforms.programs import KERNEL_OF, PROGRAMS


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_remembered_beginning_changes_nothing(name: str) -> None:
    kernel, lines = KERNELS[KERNEL_OF[name]](), [x for x in PROGRAMS[name].splitlines() if x]
    applying.forget()
    fresh = apply_program(kernel, parse("\n".join(lines)))
    for length in random.Random(name).sample(range(len(lines)), min(3, len(lines))):
        applying.forget()
        before = apply_program(kernel, parse("\n".join(lines[:length])))
        again = apply_program(kernel, parse("\n".join(lines)))
        assert again == fresh
        assert again.steps[:length] == before.steps


def test_another_kernel_is_another_beginning() -> None:
    program = parse("split(i, 4)\nunroll(i.i)")
    applying.forget()
    vecadd = apply_program(KERNELS["vecadd"](), program)
    assert apply_program(KERNELS["saxpy"](), program).kernel.name != vecadd.kernel.name


def test_what_is_refused_is_refused_again_and_on_its_own_line() -> None:
    kernel = KERNELS["vecadd"]()
    applying.forget()
    for text, line in (("split(i, 4)\nbind(j, grid.x)", 2), ("split(i, 4)\n\n# more\nbind(j, grid.x)", 4)):
        for _ in range(2):
            with pytest.raises(RefusedError) as e:
                apply_program(kernel, parse(text))
            assert e.value.diagnostic.line == line
    assert apply_program(kernel, parse("split(i, 4)\nbind(i.o, grid.x)")).kernel != kernel


def test_simplifying_remembers_under_which_ranges() -> None:
    e = mod(add(mul(var("a"), 8), var("b")), 8)
    small, large = Ranges({"b": (0, 7)}, {}), Ranges({"b": (0, 99)}, {})
    for _ in range(2):
        assert simplify(e, small) == var("b")
        assert simplify(e, large) != var("b")
    many = [simplify(floordiv(var("b"), 8), Ranges({"b": (0, n)}, {})) == index(0) for n in range(20)]
    assert many == [n < 8 for n in range(20)]


def test_the_same_ranges_are_the_same_object() -> None:
    kernel = apply_program(KERNELS["vecadd"](), parse("split(i, 4)")).kernel
    loops = tuple(s.stmt for s in loop_sites(kernel.body).values() if isinstance(s.stmt, For))
    assert ranges_at(kernel, loops) is ranges_at(kernel, loops)
    assert ranges_at(kernel, loops[:1]) is not ranges_at(kernel, loops)
