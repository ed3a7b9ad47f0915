"""Changing kernels in tests, and asking the prover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Barrier, Block, For, Origin, Reduce, Stmt, Store
from evolve.ir.types import LoopKind
from evolve.ir.verify import verify
from evolve.ir.visit import rewrite
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Status, Verdict

Edit = Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]


def edit(k: Kernel, f: Edit) -> Kernel:
    """The kernel rewritten by `f`, which must change it into another well-formed kernel."""
    changed = replace(k, body=rewrite(k.body, f))
    assert changed != k, "the edit changed nothing"
    verify(changed)
    return changed


def at_store(buffer: str, f: Callable[[Store], Stmt | tuple[Stmt, ...]]) -> Edit:
    """Edits the stores into one buffer."""
    return lambda s: f(s) if isinstance(s, Store) and s.buffer == buffer else None


def at_reduce(buffer: str, f: Callable[[Reduce], Stmt | tuple[Stmt, ...]]) -> Edit:
    """Edits the reductions into one buffer."""
    return lambda s: f(s) if isinstance(s, Reduce) and s.buffer == buffer else None


def at_loop(var: str, f: Callable[[For], Stmt | tuple[Stmt, ...]]) -> Edit:
    """Edits one loop."""
    return lambda s: f(s) if isinstance(s, For) and s.var == var else None


def at_barrier(f: Callable[[], Stmt | tuple[Stmt, ...]]) -> Edit:
    """Edits every barrier."""
    return lambda s: f() if isinstance(s, Barrier) else None


def kind(k: LoopKind) -> Callable[[For], Stmt]:
    """Rebinds a loop."""
    return lambda s: replace(s, kind=k)


def extent(e: Expr) -> Callable[[For], Stmt]:
    """Another extent."""
    return lambda s: replace(s, extent=e)


def origin(*instance: Expr) -> Callable[[Store], Stmt]:
    """Another instance claimed."""

    def change(s: Store) -> Stmt:
        assert s.origin is not None
        return replace(s, origin=Origin(s.origin.stmt, instance))

    return change


def codes(v: Verdict) -> set[str]:
    """The codes of a verdict."""
    return {d.code for d in v.diagnostics}


def refused(source: Kernel, target: Kernel, code: str, limits: Limits | None = None) -> Verdict:
    """Asserts that the target is REFUTED with the code."""
    v = prove(source, target, limits)
    assert v.status is Status.REFUTED, v
    assert code in codes(v), v.diagnostics
    return v


def body_of(k: Kernel, *stmts: Stmt) -> Kernel:
    """The kernel with another body."""
    changed = replace(k, body=Block(stmts))
    verify(changed)
    return changed
