"""A kernel under facts about its parameters that are no sizes: conditions that they decide are gone.

A fact is a comparison of a scalar with a number, as `mode == 1`. `select(mode == 1, a, b)` is then `a`, of an
If its body remains, and `mode` itself is 1. Of floats, equality with 0 leaves the sign open, so that the
parameter stays. NaN satisfies `!=` only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from evolve.ir.expr import (
    FALSE,
    TRUE,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    UnaryOp,
    Var,
    decide,
)
from evolve.ir.kernel import Kernel
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import If, Leaf, Stmt
from evolve.ir.types import DType
from evolve.ir.visit import map_block_exprs, map_expr, rewrite, subexpressions, walk

_MIRRORED = {
    BinaryOp.LT: BinaryOp.GT,
    BinaryOp.LE: BinaryOp.GE,
    BinaryOp.GT: BinaryOp.LT,
    BinaryOp.GE: BinaryOp.LE,
    BinaryOp.EQ: BinaryOp.EQ,
    BinaryOp.NE: BinaryOp.NE,
}
Fact = tuple[BinaryOp, int | float]
"""What a scalar compares to; of integers never `<` and `>`."""
Facts = Mapping[str, tuple[Fact, ...]]


def data_facts(assumptions: Iterable[Expr]) -> Facts:
    """Those of the assumptions that are facts about scalars which are no sizes, by scalar."""
    out: dict[str, tuple[Fact, ...]] = {}
    for fact in conjuncts(assumptions):
        found = _comparison(fact)
        if found is not None:
            name, op, value = found
            out[name] = (*out.get(name, ()), (op, value))
    return out


def settled(e: Expr, facts: Facts) -> Expr:
    """The expression where the facts hold: the same value, bit for bit."""
    return map_expr(e, partial(_settled, facts)) if facts else e


def under(kernel: Kernel, assumptions: Iterable[Expr]) -> Kernel:
    """The kernel where the facts among the assumptions hold; itself if there are none."""
    facts = data_facts(assumptions)
    if not facts:
        return kernel

    def taken(s: Stmt) -> tuple[Stmt, ...] | None:
        if isinstance(s, If) and s.cond in (TRUE, FALSE):
            return (s.body if s.cond == TRUE else s.orelse).stmts
        return None

    body = map_block_exprs(kernel.body, lambda e: settled(e, facts))
    return replace(kernel, body=rewrite(body, taken))


def compared(kernel: Kernel) -> Iterator[tuple[str, BinaryOp, int | float]]:
    """What the kernel compares such scalars with; a truth value with true."""
    for e in evaluated(kernel):
        found = _comparison(e)
        if isinstance(e, Var) and e.dtype is DType.BOOL:
            found = e.name, BinaryOp.EQ, 1
        if found is not None:
            yield found


def evaluated(kernel: Kernel) -> Iterator[Expr]:
    """What conditions and stored values are made of."""
    for site in walk(kernel.body):
        s = site.stmt
        values = (s.cond,) if isinstance(s, If) else (s.value,) if isinstance(s, Leaf) else ()
        for v in values:
            yield from subexpressions(v)


def at_values(kernel: Kernel, values: Mapping[str, int | float]) -> Kernel:
    """The kernel where the scalars that it compares with numbers have these values; sizes stay."""
    types = {s.name: s.dtype for s in kernel.scalars}
    names = dict.fromkeys(n for n, _, _ in compared(kernel) if n in values)
    equal = [(Var(n, types[n]), Const(held(values[n], types[n]), types[n])) for n in names]
    return under(kernel, [Binary(BinaryOp.EQ, v, c, DType.BOOL) for v, c in equal])


def decided(
    kernel: Kernel, values: Mapping[str, tuple[int | float, ...]]
) -> Iterator[tuple[str, BinaryOp, int]]:
    """How the kernel's comparisons of such scalars with whole numbers come out, where for all values alike.

    None that follows from one before.
    """
    facts: dict[str, tuple[Fact, ...]] = {}
    for name, op, number in dict.fromkeys(compared(kernel)):
        answers = {decide(op, v, number) for v in values.get(name, ())}
        if len(answers) != 1 or not number >= 0 or number != int(number):
            continue
        if any(_answer(f, op, number) is not None for f in facts.get(name, ())):
            continue
        holds = op if answers.pop() else op.negated
        facts[name] = (*facts.get(name, ()), (holds, number))
        yield name, holds, int(number)


def held(value: int | float, dtype: DType) -> int | float:
    """The number as a constant of that type holds it."""
    if dtype is DType.F32:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    return float(value) if dtype.is_float else int(value)


def _comparison(e: Expr) -> tuple[str, BinaryOp, int | float] | None:
    """`scalar op number`, for scalars that are no sizes."""
    match e:
        case Binary(op=op, lhs=Var(name=name, dtype=dtype), rhs=Const(value=value)):
            pass
        case Binary(op=op, lhs=Const(value=value), rhs=Var(name=name, dtype=dtype)):
            op = _MIRRORED.get(op, op)
        case _:
            return None
    if not op.is_comparison or dtype is DType.INDEX:
        return None
    number = held(value, dtype)
    if not dtype.is_float and op in (BinaryOp.LT, BinaryOp.GT):
        low = op is BinaryOp.LT
        return name, BinaryOp.LE if low else BinaryOp.GE, number - 1 if low else number + 1
    return name, op, number


def _settled(facts: Facts, e: Expr) -> Expr:
    """`e`, whose operands are settled."""
    match e:
        case Var(name=name, dtype=dtype) if name in facts and dtype is not DType.INDEX:
            return _value(facts[name], e)
        case Binary(op=BinaryOp.AND | BinaryOp.OR):
            return _logic(e)
        case Binary(op=op, lhs=Const() as a, rhs=Const() as b) if op.is_comparison:
            return _truth(decide(op, held(a.value, a.dtype), held(b.value, b.dtype)))
        case Binary():
            found = _comparison(e)
            if found is None:
                return e
            name, op, value = found
            answers = {a for a in (_answer(f, op, value) for f in facts.get(name, ())) if a is not None}
            return _truth(answers.pop()) if len(answers) == 1 else e
        case Unary(op=UnaryOp.NOT, arg=Const(value=value)):
            return _truth(not value)
        case Cast(arg=Const(value=value, dtype=kind), dtype=dtype) if _is_small(kind) and _is_small(dtype):
            return Const(bool(value) if dtype is DType.BOOL else int(value), dtype)
        case Select(cond=Const(value=value)):
            return e.then if value else e.orelse
        case _:
            return e


def _is_small(dtype: DType) -> bool:
    """Of these types a conversion of 0 or 1, which conditions are made of, is that number."""
    return dtype in (DType.BOOL, DType.I32)


def _truth(value: bool) -> Const:
    return TRUE if value else FALSE


def _value(facts: tuple[Fact, ...], e: Var) -> Expr:
    for op, value in facts:
        if op is BinaryOp.EQ and not (e.dtype.is_float and value == 0):
            return Const(bool(value) if e.dtype is DType.BOOL else value, e.dtype)
    return e


def _logic(e: Binary) -> Expr:
    neutral, absorbing = (TRUE, FALSE) if e.op is BinaryOp.AND else (FALSE, TRUE)
    if absorbing in (e.lhs, e.rhs):
        return absorbing
    if e.lhs == neutral:
        return e.rhs
    return e.lhs if e.rhs == neutral else e


def _answer(fact: Fact, op: BinaryOp, b: int | float) -> bool | None:
    """Whether `v op b` for each v that satisfies the fact; None if that depends on v."""
    known, a = fact
    if known is BinaryOp.EQ:
        return decide(op, a, b)
    if known is BinaryOp.NE:
        return op is BinaryOp.NE if a == b and op in (BinaryOp.EQ, BinaryOp.NE) else None
    if known in (BinaryOp.GE, BinaryOp.GT):
        return _answer((_MIRRORED[known], -a), _MIRRORED[op], -b)
    # v <= a, or v < a. Known to be below b, and known to be at most b:
    below = a < b or (known is BinaryOp.LT and a == b)
    most = a <= b
    return {
        BinaryOp.LT: True if below else None,
        BinaryOp.LE: True if most else None,
        BinaryOp.GT: False if most else None,
        BinaryOp.GE: False if below else None,
        BinaryOp.EQ: False if below else None,
        BinaryOp.NE: True if below else None,
    }[op]
