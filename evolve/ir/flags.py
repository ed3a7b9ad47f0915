"""Arrays that a kernel touches under a condition on its parameters only, as `if (has_bias) v += bias[c];`.

Who calls it with the condition false may have no such array. A transformed kernel that touches it elsewhere
too, a copy made ahead say, rests on its being there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evolve.ir.expr import Binary, BinaryOp, Expr, Find, Load, Select, Unary, UnaryOp
from evolve.ir.kernel import Flagged, Kernel
from evolve.ir.scope import conjuncts
from evolve.ir.settled import under
from evolve.ir.stmt import Alloc, Block, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import children, loads, variables

Conditions = frozenset[Expr]
_Access = tuple[str, Conditions]


def taken_ahead(source: Kernel, targets: Iterable[Kernel]) -> tuple[Flagged, ...]:
    """The arrays that `source` touches under conditions on its parameters only, and `targets`, made from it,
    under fewer; in the order of the parameters. What the targets' assumptions decide is no condition."""
    targets = tuple(targets)
    facts = conjuncts(fact for k in targets for fact in k.assumptions)
    asked = conditions(under(source, facts))
    found: dict[str, Conditions] = {}
    for name, held in (access for k in targets for access in _accesses(k.body.stmts, frozenset())):
        missing = asked.get(name, frozenset()) - held - set(facts)
        found[name] = found.get(name, frozenset()) | missing
    return tuple(
        Flagged(b.name, tuple(sorted(found[b.name], key=repr))) for b in source.buffers if found.get(b.name)
    )


def conditions(kernel: Kernel) -> dict[str, Conditions]:
    """The conditions on parameters that all accesses stand under, for each array that the kernel touches."""
    parameters = frozenset(s.name for s in kernel.scalars)
    found: dict[str, Conditions] = {}
    for name, held in _accesses(kernel.body.stmts, frozenset()):
        own = frozenset(c for c in held if variables(c) and variables(c) <= parameters and not loads(c))
        found[name] = found[name] & own if name in found else own
    return found


def _accesses(stmts: Iterable[Stmt], held: Conditions) -> Iterator[_Access]:
    for s in stmts:
        match s:
            case Block():
                yield from _accesses(s.stmts, held)
            case For():
                yield from _reads(s.extent, held)
                yield from _accesses(s.body.stmts, held)
            case If():
                yield from _reads(s.cond, held)
                yield from _accesses(s.body.stmts, held | _where(s.cond, True))
                yield from _accesses(s.orelse.stmts, held | _where(s.cond, False))
            case Store() | Reduce():
                yield s.buffer, held
                for e in (*s.indices, s.value):
                    yield from _reads(e, held)
            case Alloc():
                for e in s.buffer.extents:
                    yield from _reads(e, held)
            case _:
                pass


def _reads(e: Expr, held: Conditions) -> Iterator[_Access]:
    match e:
        case Select(cond=cond, then=then, orelse=orelse):
            yield from _reads(cond, held)
            yield from _reads(then, held | _where(cond, True))
            yield from _reads(orelse, held | _where(cond, False))
        case Binary(op=BinaryOp.AND | BinaryOp.OR as op, lhs=lhs, rhs=rhs):
            yield from _reads(lhs, held)
            yield from _reads(rhs, held | _where(lhs, op is BinaryOp.AND))
        case _:
            if isinstance(e, Load | Find):
                yield e.buffer, held
            for part in children(e):
                yield from _reads(part, held)


def _where(cond: Expr, holds: bool) -> Conditions:
    """What is so where a condition holds, or does not; what is compared is written one way."""
    match cond:
        case Binary(op=BinaryOp.AND | BinaryOp.OR as op, lhs=lhs, rhs=rhs):
            if (op is BinaryOp.AND) == holds:
                return _where(lhs, holds) | _where(rhs, holds)
        case Unary(op=UnaryOp.NOT, arg=arg):
            return _where(arg, not holds)
        case Binary(op=op, lhs=lhs, rhs=rhs) if op.is_comparison and not lhs.dtype.is_float:
            return frozenset({cond if holds else Binary(op.negated, lhs, rhs, DType.BOOL)})
        case _:
            pass
    return frozenset({cond if holds else Unary(UnaryOp.NOT, cond, DType.BOOL)})
