"""Every node class has an entry: what `effects` does not know must not pass in silence."""

from __future__ import annotations

import typing

from evolve.ir import stmt
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import Const, index, var
from evolve.ir.types import SUM, DType, LoopKind, Space
from tests.kernels_ir import buf, ld

EXAMPLES: dict[type, stmt.Stmt] = {
    stmt.Block: stmt.Block(()),
    stmt.For: stmt.For("i", ld("n", index(0)), LoopKind.SERIAL, stmt.Block(())),  # type: ignore[arg-type]
    stmt.If: stmt.If(ld("p", var("i")), stmt.Block(())),
    stmt.Alloc: stmt.Alloc(buf("t", space=Space.REGISTER)),
    stmt.Store: stmt.Store("y", (var("i"),), ld("x", var("i"))),
    stmt.Reduce: stmt.Reduce("s", (), SUM, ld("x", var("i"))),
    stmt.Barrier: stmt.Barrier(),
    stmt.Commit: stmt.Commit(),
    stmt.Wait: stmt.Wait(0),
    stmt.Boundary: stmt.Boundary(),
}


def test_every_statement_class_has_effects() -> None:
    assert set(EXAMPLES) == set(typing.get_args(stmt.Stmt))
    for example in EXAMPLES.values():
        effects(example)


def test_modes_and_slots() -> None:
    accesses = effects(EXAMPLES[stmt.Store]).accesses
    assert [(a.buffer, a.mode, a.slot) for a in accesses] == [("x", Mode.READ, 0), ("y", Mode.WRITE, 1)]
    assert [a.mode for a in effects(EXAMPLES[stmt.Reduce]).accesses] == [Mode.READ, Mode.REDUCE]
    assert [a.buffer for a in effects(EXAMPLES[stmt.If]).accesses] == ["p"]
    assert effects(stmt.Store("y", (), Const(0.0, DType.F32))).accesses[0].mode is Mode.WRITE
