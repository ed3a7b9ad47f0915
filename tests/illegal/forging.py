"""How a wrong kernel is made from a good one: its register and the edits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Barrier, For, Leaf, Stmt
from evolve.ir.types import DType
from evolve.ir.visit import map_expr, rewrite, walk
from evolve.transforms.apply import apply_program
from tests.illegal.lifted import source
from tests.illegal.templates import TEMPLATES

F32 = DType.F32


@dataclass(frozen=True)
class Forged:
    """`refused`: the first code; `shown_by` empty where `not_shown` says why."""

    name: str
    kernel: str
    build: Callable[[], Kernel]
    refused: str
    shown_by: frozenset[str] = frozenset()
    not_shown: str = ""
    sizes: dict[str, int] = field(default_factory=dict)


FORGED: list[Forged] = []


def forged(
    kernel: str, refused: str, *shown_by: str, not_shown: str = "", **sizes: int
) -> Callable[[Callable[[], Kernel]], Callable[[], Kernel]]:
    def register(build: Callable[[], Kernel]) -> Callable[[], Kernel]:
        FORGED.append(Forged(build.__name__, kernel, build, refused, frozenset(shown_by), not_shown, sizes))
        return build

    return register


def good(kernel: str, number: int = 0) -> Kernel:
    return scheduled(kernel, TEMPLATES[kernel][number])


def scheduled(kernel: str, text: str) -> Kernel:
    return finish(apply_program(source(kernel).kernel, parse(text)).kernel)


def change(k: Kernel, f: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> Kernel:
    """Statements rewritten; something must change."""
    out = replace(k, body=rewrite(k.body, f))
    assert out != k
    return out


def the(k: Kernel, wanted: Callable[[Stmt], bool]) -> Stmt:
    """The one statement that is wanted."""
    (found,) = [s.stmt for s in walk(k.body) if wanted(s.stmt)]
    return found


def leaves_of(buffer: str) -> Callable[[Stmt], bool]:
    return lambda s: isinstance(s, Leaf) and s.buffer == buffer


def loop(k: Kernel, name: str) -> For:
    found = the(k, lambda s: isinstance(s, For) and s.var == name)
    assert isinstance(found, For)
    return found


def with_loop(k: Kernel, name: str, f: Callable[[For], Stmt | tuple[Stmt, ...]]) -> Kernel:
    return change(k, lambda s: f(s) if isinstance(s, For) and s.var == name else None)


def with_values(k: Kernel, buffer: str, f: Callable[[Expr], Expr]) -> Kernel:
    """`f` on all parts of what is stored into a buffer."""

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Leaf) and s.buffer == buffer:
            return replace(s, value=map_expr(s.value, f))
        return None

    return change(k, one)


def without_barrier(k: Kernel, number: int) -> Kernel:
    """Barrier `number` in text order dropped."""
    seen = [-1]

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        if isinstance(s, Barrier):
            seen[0] += 1
            return () if seen[0] == number else None
        return None

    return change(k, one)
