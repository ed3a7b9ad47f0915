"""Errors planted in code generation: execution under checks must catch each of them.

The prover sees no text. What it proved is rendered by a generator with one thing wrong, for programs that use
what is wrong, and run on the host as every program of the suite is: race, bounds and initialisation checks,
three orders of threads, results beside the interpreted kernel's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from evolve.codegen.access import Accesses
from evolve.codegen.collectives import Collectives
from evolve.codegen.ctext import ExprText
from evolve.codegen.emit import KernelEmitter
from evolve.ir.expr import Binary, BinaryOp, add
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Barrier, For, If, Reduce, Stmt, Store, Wait
from evolve.ir.types import DType, Monoid, Space
from tests.illegal.forging import good
from tests.illegal.fuzz import sizes_for
from tests.illegal.lifted import source, workload
from tests.illegal.running import Outcome, run_kernel

ASYNC = 3
"""The template of the matrix product whose copies are asynchronous."""

Wrong = Callable[..., Any]


@dataclass(frozen=True)
class Planted:
    """`method` of `owner` made wrong by `change`, which gets what was there first."""

    name: str
    owner: type
    method: str
    change: Callable[[Wrong], Wrong]
    kernel: str
    number: int


def _offset(was: Wrong) -> Wrong:
    return lambda self, b, indices, place: add(was(self, b, indices, place), 1)


def _shared_index(was: Wrong) -> Wrong:
    """Of stores alone: the same shift of all accesses would change nothing but the place."""

    def store(self: Any, s: Store, value: str, place: Any, kind: str = "") -> Any:
        if self.buffers[s.buffer].space is Space.SHARED:
            s = replace(s, indices=(*s.indices[:-1], add(s.indices[-1], 1)))
        return was(self, s, value, place, kind)

    return store


def _no_guard(was: Wrong) -> Wrong:
    def condition(self: Any, s: If, place: Any) -> Any:
        return self.statements(s.body, place.below(s))

    return condition


def _swapped(was: Wrong) -> Wrong:
    def binary(self: Any, e: Binary) -> Any:
        if e.op in (BinaryOp.SUB, BinaryOp.DIV) and e.dtype is not DType.INDEX:
            e = replace(e, lhs=e.rhs, rhs=e.lhs)
        return was(self, e)

    return binary


def _without(kind: type) -> Callable[[Wrong], Wrong]:
    def planted(was: Wrong) -> Wrong:
        return lambda self, s, place: [] if isinstance(s, kind) else was(self, s, place)

    return planted


def _trip(by: int) -> Callable[[Wrong], Wrong]:
    def planted(was: Wrong) -> Wrong:
        return lambda self, s, place: was(self, replace(s, extent=add(s.extent, by)), place)

    return planted


def _fewer_lanes(was: Wrong) -> Wrong:
    return lambda self, monoid, dtype, lanes: was(self, monoid, dtype, max(lanes // 2, 2))


def _other_monoid(was: Wrong) -> Wrong:
    def warp(self: Any, monoid: Monoid, dtype: DType, lanes: int) -> Any:
        return was(self, Monoid("max" if monoid.name == "sum" else "sum"), dtype, lanes)

    return warp


def _every_thread(was: Wrong) -> Wrong:
    """What one thread is to do, all do."""
    return lambda self, s, place, nodes: nodes


def _not_atomic(was: Wrong) -> Wrong:
    def statement(self: Any, s: Stmt, place: Any) -> Any:
        return was(self, replace(s, atomic=False) if isinstance(s, Reduce) else s, place)

    return statement


def _no_unfinished_rest(was: Wrong) -> Wrong:
    """A thread loop shorter than the block without its guard."""

    def loop(self: Any, s: For, place: Any) -> Any:
        return self.statements(s.body, place.below(s)) if s.kind.is_thread else was(self, s, place)

    return loop


PLANTED = (
    Planted("index one too far", Accesses, "offset", _offset, "saxpy", 0),
    Planted("shared index one too far", Accesses, "store", _shared_index, "transpose", 0),
    Planted("guard dropped", KernelEmitter, "condition", _no_guard, "saxpy", 0),
    Planted("guard of a tile dropped", KernelEmitter, "condition", _no_guard, "transpose", 0),
    Planted("operands swapped", ExprText, "_binary", _swapped, "softmax", 1),
    Planted("barrier left out", KernelEmitter, "statement", _without(Barrier), "transpose", 0),
    Planted("barrier of a loop left out", KernelEmitter, "statement", _without(Barrier), "matmul", 1),
    Planted("wait left out", KernelEmitter, "statement", _without(Wait), "matmul", ASYNC),
    Planted("store left out", KernelEmitter, "statement", _without(Store), "stencil", 0),
    Planted("loop one too long", KernelEmitter, "sequential", _trip(1), "matmul", 1),
    Planted("loop one too short", KernelEmitter, "sequential", _trip(-1), "row_sum", 1),
    Planted("half of the lanes", Collectives, "warp", _fewer_lanes, "row_sum", 1),
    Planted("another operation between lanes", Collectives, "warp", _other_monoid, "row_sum", 1),
    Planted("every thread adds", KernelEmitter, "owned", _every_thread, "accumulate", 0),
    Planted("update not atomic", KernelEmitter, "statement", _not_atomic, "histogram", 0),
    Planted("short thread loop unguarded", KernelEmitter, "loop", _no_unfinished_rest, "stencil", 0),
)


def _run(p: Planted, kernel: Kernel, cache: Path) -> Outcome:
    drawn = [sizes_for(kernel, p.kernel, random.Random(seed)) for seed in range(6)]
    sizes = max((d for d in drawn if d is not None), key=lambda d: sum(d.values()))
    return run_kernel(source(p.kernel), kernel, workload(p.kernel, sizes), cache)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.mark.parametrize("p", PLANTED, ids=lambda p: p.name)
def test_is_caught(p: Planted, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = good(p.kernel, p.number)
    monkeypatch.setattr(p.owner, p.method, p.change(getattr(p.owner, p.method)))
    out = _run(p, kernel, cache)
    assert not out.clean, p.name
    assert out.symptoms != {"unrendered"}, out.detail


@pytest.mark.parametrize("where", sorted({(p.kernel, p.number) for p in PLANTED}))
def test_without_it_nothing_is_found(where: tuple[str, int], cache: Path) -> None:
    p = next(p for p in PLANTED if (p.kernel, p.number) == where)
    assert _run(p, good(*where), cache).clean
