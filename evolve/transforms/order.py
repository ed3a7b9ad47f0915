"""Dependences that are seen at a glance, so that what breaks them is not offered as a next move.

Only memory cells that all iterations of a loop share are looked for. What depends on more is the prover's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from evolve.ir.effects import Access, Mode, effects
from evolve.ir.expr import Binary, BinaryOp, Expr, Var, var
from evolve.ir.memo import by_object
from evolve.ir.stmt import For, If, Stmt
from evolve.ir.visit import children, inside, substitute, variables
from evolve.transforms.edit import declared_in


def is_joined_in_order(first: For, second: For) -> bool:
    """False where one loop has to end before the other begins: what passes between them is a cell that all
    its iterations write, or is not found where the same iteration put it."""
    local = declared_in(first) | declared_in(second)
    return not any(
        _depend(a, b) and a.buffer not in local and not _in_one_iteration(a, first.var, b, second.var)
        for a in _accesses(first.body)
        for b in _accesses(second.body)
    )


def _in_one_iteration(a: Access, loop: str, b: Access, other: str) -> bool:
    """Whether a subscript that the first one's loop chooses is the same for both, by the number of theirs."""
    by = {other: var(loop)}
    return any(
        loop in _choosing(x) and x == substitute(y, by) for x, y in zip(a.indices, b.indices, strict=True)
    )


def is_divided_in_order(loops: Sequence[For]) -> bool:
    """False where statements of a nest's body, taken apart, would meet only the last of the values that pass
    between them: they pass in a cell that all iterations of a loop share."""
    body = loops[-1].body
    while len(body.stmts) == 1 and isinstance(body.stmts[0], If):
        body = body.stmts[0].body
    names = tuple(x.var for x in loops)
    local = declared_in(body)
    return not any(
        _crossing(a, b, names, local)
        for position, a in enumerate(body.stmts)
        for b in body.stmts[position + 1 :]
    )


def takes_turns(loop: For) -> bool:
    """Whether iterations use the cells of a buffer declared outside in turn, and so cannot run at once."""
    local = declared_in(loop.body)
    return any(
        a.mode is not Mode.READ
        and a.buffer not in local
        and _is_shared(a, (loop.var,))
        and _mentions(a, loop)
        for a in _accesses(loop.body)
    )


def _mentions(a: Access, loop: For) -> bool:
    return any(loop.var in variables(i) for i in a.indices)


def _crossing(a: Stmt, b: Stmt, loops: tuple[str, ...], local: frozenset[str]) -> bool:
    return any(
        _depend(x, y) and x.buffer not in local and (_writes_shared(x, loops) or _writes_shared(y, loops))
        for x in _accesses(a)
        for y in _accesses(b)
    )


def _depend(a: Access, b: Access) -> bool:
    """Whether two accesses may be of one cell and their order matters."""
    both_read = a.mode is Mode.READ and b.mode is Mode.READ
    both_reduce = a.mode is Mode.REDUCE and b.mode is Mode.REDUCE and a.monoid == b.monoid
    return a.buffer == b.buffer and not both_read and not both_reduce


@by_object
def _accesses(s: Stmt) -> tuple[Access, ...]:
    """Of a statement and all inside it."""
    return (*effects(s).accesses, *chain.from_iterable(map(_accesses, inside(s))))


def _writes_shared(a: Access, loops: tuple[str, ...]) -> bool:
    return a.mode is not Mode.READ and _is_shared(a, loops)


def _is_shared(a: Access, loops: tuple[str, ...]) -> bool:
    """Whether iterations of one of the loops touch the same cell: no subscript has it but in a remainder."""
    own = frozenset().union(*(_choosing(i) for i in a.indices), frozenset())
    return any(name not in own for name in loops)


def _choosing(e: Expr) -> frozenset[str]:
    """Variables of a subscript outside of remainders."""
    if isinstance(e, Var):
        return frozenset((e.name,))
    if isinstance(e, Binary) and e.op is BinaryOp.MOD:
        return frozenset()
    return frozenset().union(*(_choosing(x) for x in children(e)), frozenset())
