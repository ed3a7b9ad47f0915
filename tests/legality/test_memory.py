"""What is remembered is remembered by content, and says the same as asking again."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.kernel import Kernel
from evolve.ir.poly import context
from evolve.ir.stmt import Barrier, For, Stmt
from evolve.ir.types import LoopKind
from evolve.ir.visit import rewrite, walk
from evolve.legality.analysis import plain
from evolve.legality.memory import forget, remembered
from evolve.legality.prove import prove
from evolve.transforms.apply import apply_program
from tests.illegal.lifted import source
from tests.illegal.templates import TEMPLATES

SHARED = [(name, 0) for name in ("matmul", "softmax", "transpose")]


def numbers(text: str) -> object:
    return isl.Map.read_from_str(context(), text)


def test_equal_sets_are_one_question() -> None:
    asked: list[str] = []

    def ask(text: str) -> int:
        def answer() -> int:
            asked.append(text)
            return len(asked)

        return remembered("tests", ("k", numbers(text)), 2, answer)

    once = "{ A[i] -> B[i] : 0 <= i < 4 }"
    assert [ask(once), ask(once), ask("{ A[i] -> B[i] : 0 <= i < 5 }"), ask(once)] == [1, 1, 2, 1]
    ask("{ A[i] -> C[i] : 0 <= i < 4 }")  # the third, so that the one that was not asked for longest goes
    assert [ask(once), ask("{ A[i] -> B[i] : 0 <= i < 5 }")] == [1, 4]
    forget()
    assert ask(once) == 5


def test_what_raises_is_asked_again() -> None:
    def fail() -> int:
        raise ValueError

    with pytest.raises(ValueError):
        remembered("tests", "fails", 2, fail)
    assert remembered("tests", "fails", 2, lambda: 1) == 1


def unrolled(kernel: Kernel) -> Kernel:
    """All serial loops unrolled, as notes say."""

    def change(s: Stmt) -> Stmt | None:
        serial = isinstance(s, For) and s.kind is LoopKind.SERIAL
        return replace(s, kind=LoopKind.UNROLL, note="unrolled") if serial else None

    return replace(kernel, body=rewrite(kernel.body, change))


def without_barriers(kernel: Kernel) -> Kernel:
    return replace(kernel, body=rewrite(kernel.body, lambda s: () if isinstance(s, Barrier) else None))


@pytest.mark.parametrize(("name", "number"), SHARED)
def test_unrolling_changes_neither_barriers_nor_the_verdict(name: str, number: int) -> None:
    kernel = source(name).kernel
    target = apply_program(kernel, parse(TEMPLATES[name][number])).kernel
    forget()
    serial = finish(target)
    first = prove(kernel, serial)
    for known in (True, False):
        if not known:
            forget()
        fast = finish(unrolled(target))
        assert plain(fast) == plain(serial)
        assert {s.stmt.note for s in walk(fast.body) if isinstance(s.stmt, For)} >= {"unrolled"}
        again = prove(kernel, fast)
        assert (again.status, again.assumptions, again.diagnostics) == (
            first.status,
            first.assumptions,
            first.diagnostics,
        )
        assert first.proved


@pytest.mark.parametrize(("name", "number"), SHARED[::2])
def test_a_barrier_less_is_seen_after_the_kernel_was_proved(name: str, number: int) -> None:
    kernel = source(name).kernel
    target = finish(apply_program(kernel, parse(TEMPLATES[name][number])).kernel)
    assert prove(kernel, target).proved
    for bad in (without_barriers(target), without_barriers(unrolled(target))):
        verdict = prove(kernel, bad)
        assert not verdict.proved and {d.code for d in verdict.diagnostics} == {"E-RACE"}
