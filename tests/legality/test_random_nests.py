"""Random small nests, in a random new order: for serial code the prover is exact.

At fixed sizes everything is affine, so PROVED must mean equal by running every instance, and
REFUTED must mean that some cell differs or some access is out of place.
"""

from __future__ import annotations

import random
from dataclasses import replace

from evolve.ir.expr import BinaryOp, Call, Const, Expr, Load, add, compare, index, mul, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Block, For, If, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, LoopKind
from evolve.ir.visit import rewrite
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from tests.kernels_ir import F32, buf
from tests.legality.brute import same

SIZE = 7
NESTS = 150
ORDERS = 4


def subscript(rng: random.Random, loops: list[str]) -> Expr:
    """Between 0 and SIZE - 1 for loops of extent 3."""
    e: Expr = index(rng.randrange(2))
    for v in loops:
        if rng.random() < 0.7:
            e = add(e, mul(var(v), rng.choice((1, 1, 2)) if len(loops) == 1 else 1))
    return e


def statement(rng: random.Random, name: str, loops: list[str]) -> Stmt:
    origin = Origin(name, tuple(var(v) for v in loops))
    reads = tuple(Load(rng.choice("abx"), (subscript(rng, loops),), F32) for _ in range(rng.randint(0, 2)))
    value: Expr = (
        Call("pow", reads, F32) if len(reads) == 2 else Call("exp", reads, F32) if reads else Const(1.0, F32)
    )
    target, where = rng.choice("ab"), (subscript(rng, loops),)
    if rng.random() < 0.4:
        s: Stmt = Reduce(target, where, rng.choice((SUM, SUM, MAX)), value, origin)
    else:
        s = Store(target, where, value, origin)
    if loops and rng.random() < 0.3:
        bound = compare(BinaryOp.LT, var(loops[0]), rng.randint(1, 2))
        return If(bound, Block((s,)))
    return s


def nest(rng: random.Random) -> Kernel:
    names = iter(f"S{i}" for i in range(9))
    loops = iter(f"i{n}" for n in range(9))

    def block(depth: int, around: list[str]) -> list[Stmt]:
        out: list[Stmt] = []
        for _ in range(rng.randint(1, 2)):
            if depth < 2 and rng.random() < 0.6:
                v = next(loops)
                body = Block(tuple(block(depth + 1, [*around, v])))
                out.append(For(v, index(3 if not around else 2), LoopKind.SERIAL, body))
            else:
                out.append(statement(rng, next(names), around))
        return out

    arrays = tuple(buf(n, index(SIZE)) for n in "abx")
    return Kernel("nest", ("a", "b", "x"), arrays, (), Block(tuple(block(0, []))))


def reordered(rng: random.Random, k: Kernel) -> Kernel:
    """Statements exchanged, loops reversed, interchanged or distributed, regardless of the meaning."""

    def change(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if not isinstance(s, For) or rng.random() < 0.4:
            return None
        kind = rng.randrange(4)
        inner = s.body.stmts[0]
        if kind == 0 and len(s.body.stmts) > 1:
            return replace(s, body=Block(s.body.stmts[::-1]))
        if kind == 1 and len(s.body.stmts) == 1 and isinstance(inner, For):
            return replace(inner, body=Block((replace(s, body=inner.body),)))
        if kind == 2:
            from evolve.ir.visit import substitute_block

            last = sub(sub(s.extent, 1), var(s.var))
            return replace(s, body=substitute_block(s.body, {s.var: last}))
        return None

    body = rewrite(k.body, change)
    if rng.random() < 0.3:
        body = Block(body.stmts[::-1])
    return replace(k, body=body)


def test_verdicts_agree_with_running_everything() -> None:
    rng = random.Random("nests")
    seen = {Status.PROVED: 0, Status.REFUTED: 0}
    for _ in range(NESTS):
        source = nest(rng)
        assert prove(source, source).proved or not same(source, source, {}) or mixes(source)
        for _ in range(ORDERS):
            target = reordered(rng, source)
            verdict = prove(source, target)
            if verdict.status is Status.UNKNOWN:
                continue
            right = same(source, target, {})
            seen[verdict.status] += target != source
            if verdict.proved:
                assert right, target
            elif target == source:
                continue
            else:
                assert not right or coincidence(verdict.diagnostics[0].code), (source, target, verdict)
    assert min(seen.values()) > 50, seen


def mixes(k: Kernel) -> bool:
    """Whether sums and maxima may meet in one cell, whose order the prover does not follow."""
    return not prove(k, k).proved and {d.code for d in prove(k, k).diagnostics} == {"E-REDUCTION"}


def coincidence(code: str) -> bool:
    """Refused although equal: another writer of the same value (constants), or a value never used."""
    return code in ("E-FLOW", "E-REDUCTION")
