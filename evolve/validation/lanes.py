"""Vector loops statement by statement: all lanes of one, then all lanes of the next.

That is another order than the loop's own, so no lane may touch what an earlier lane's later statement does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evolve.ir.expr import Expr as Term
from evolve.ir.stmt import Alloc, Block, For, If, Leaf, Reduce, Stmt, Store
from evolve.ir.visit import loads
from evolve.validation.context import Context
from evolve.validation.formula import Every, equal, is_opaque
from evolve.validation.items import Item
from evolve.validation.meaning import kernel_condition, kernel_index
from evolve.validation.polynomial import constant
from evolve.validation.state import Environment, Place, State
from evolve.validation.verdict import UnreadError


@dataclass(frozen=True)
class _Guarded:
    conditions: tuple[Term, ...]
    leaf: Leaf


def expanded(st: State, item: Item, place: Place) -> list[Item]:
    """The lanes of each statement of a vector loop in turn. Raises UnreadError."""
    loop = item.stmt
    assert isinstance(loop, For)
    width = kernel_index(st, loop.extent, item.env, place.context).value
    if width is None or not 0 < width <= 16:
        raise UnreadError(f"{loop.var} is no vector", place.line)
    allocated: list[Alloc] = []
    parts = list(_parts(loop.body, (), allocated, place))
    own = {a.buffer.name for a in allocated}
    for a in allocated:
        st.allocate(a.buffer, place.loops)
    lanes = [constant(i) for i in range(width)]
    envs: list[Environment] = [{**item.env, loop.var: n, **{f"lane of {b}": n for b in own}} for n in lanes]
    for number, later in enumerate(parts):
        for earlier in parts[:number]:
            for i in range(width):
                for j in range(i + 1, width):
                    if not _apart(st, later, envs[i], earlier, envs[j], own, place.context):
                        raise UnreadError(f"lanes of {loop.var} that depend on one another", place.line)
    out = []
    for part in parts:
        for env in envs:
            guards = tuple(kernel_condition(st, c, env, place.context) for c in part.conditions)
            if any(map(is_opaque, guards)):
                raise UnreadError(f"a condition on data in the lanes of {loop.var}", place.line)
            out.append(replace(item, stmt=part.leaf, env=env, guards=guards, settled=False))
    return out


def _parts(s: Stmt, conditions: tuple[Term, ...], allocated: list[Alloc], place: Place) -> Iterator[_Guarded]:
    match s:
        case Block():
            for x in s.stmts:
                yield from _parts(x, conditions, allocated, place)
        case If() if not s.orelse.stmts:
            yield from _parts(s.body, (*conditions, s.cond), allocated, place)
        case Alloc():
            allocated.append(s)
        case Store() | Reduce():
            yield _Guarded(conditions, s)
        case _:
            raise UnreadError("a vector loop with more than statements in it", place.line)


Cell = tuple[str, tuple[Term, ...]]


def reads_of(leaf: Leaf, conditions: tuple[Term, ...] = ()) -> list[Cell]:
    """Elements that a statement reads before it writes."""
    out = [(x.buffer, x.indices) for e in (*conditions, *leaf.indices, leaf.value) for x in loads(e)]
    if isinstance(leaf, Reduce):
        out.append((leaf.buffer, leaf.indices))
    return out


def _apart(
    st: State,
    first: _Guarded,
    first_env: Environment,
    second: _Guarded,
    second_env: Environment,
    own: set[str],
    ctx: Context,
) -> bool:
    """Whether two statements of different lanes may change places."""
    a, b = first.leaf, second.leaf
    if isinstance(a, Reduce) and isinstance(b, Reduce) and a.atomic and b.atomic and a.monoid == b.monoid:
        return True
    a_reads, b_reads = reads_of(a, first.conditions), reads_of(b, second.conditions)
    pairs = [((a.buffer, a.indices), y) for y in (*b_reads, (b.buffer, b.indices))]
    pairs += [(x, (b.buffer, b.indices)) for x in a_reads]
    return all(x[0] in own or distinct(st, x, first_env, y, second_env, ctx) for x, y in pairs)


def distinct(st: State, x: Cell, x_env: Environment, y: Cell, y_env: Environment, ctx: Context) -> bool:
    """Whether two elements are never the same."""
    if x[0] != y[0]:
        return True
    same = tuple(
        equal(kernel_index(st, p, x_env, ctx), kernel_index(st, q, y_env, ctx))
        for p, q in zip(x[1], y[1], strict=True)
    )
    return ctx.excludes(Every(same))
