"""Consecutive entries that one thread adds to the segments of an array that they are in.

    for i in 0..8:  if i + base < entries:  atomic y[find(starts, base + i)] sum= e(i)

is emitted as what it means with fewer searches and updates: the contributions go into registers first, those
of entries that a guard leaves out being the monoid's identity, then one search finds where the first belongs,
and each run of entries of one segment is combined before memory is updated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from evolve.codegen.ctree import Node, line
from evolve.codegen.place import Place, line_origin
from evolve.ir.affine import Linear, expression, linear, simplify
from evolve.ir.expr import Const, Expr, Find, Load, Var, add, conjunction, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import fresh, loads, local_buffers, loop_sites, rewrite, variables
from evolve.target.limits import WARP

if TYPE_CHECKING:
    from evolve.codegen.emit import KernelEmitter

MOST = 64
"""Contributions that a thread keeps in registers."""


def gather_runs(kernel: Kernel) -> Block:
    """The body with every nest of such entries in two: contributions into registers, and their update."""
    taken = {*kernel.params, *local_buffers(kernel.body), *loop_sites(kernel.body)}
    made: dict[str, tuple[Stmt, ...]] = {}
    # Loops are walked outermost first: one inside a nest is part of it.
    for name, site in loop_sites(kernel.body).items():
        found = None if made.keys() & {x.var for x in site.loops} else _nest(site.stmt)
        gathered = None if found is None else found.gathered(taken)
        if gathered is not None:
            made[name] = gathered
    return rewrite(kernel.body, lambda s: made.get(s.var) if isinstance(s, For) else None)


@dataclass(frozen=True)
class _Nest:
    """Loops of constant extents directly inside one another, outermost first, around one update, `digits` of
    one count of entries; the conditions under which they update."""

    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    update: Reduce
    base: Expr

    def gathered(self, taken: set[str]) -> tuple[Stmt, ...] | None:
        """The nest in two; None where it is too large or nothing to gather."""
        extents = [_extent(x) for x in self.loops]
        number = prod(extents)
        if not 1 < number <= MOST:
            return None
        monoid, dtype = self.update.monoid, self.update.value.dtype
        values, start, run = (fresh(f"{self.update.buffer}_{n}", taken) for n in ("values", "start", "run"))
        taken |= {values, start, run}
        buffer = Buffer(values, dtype, (index(number),), Space.REGISTER)
        identity = Const(monoid.identity(dtype), dtype)
        (where,) = self.update.indices
        assert isinstance(where, Find)
        own = {x.var for x in self.loops}
        outside = tuple(c for c in self.conditions if not variables(c) & own)
        inside = tuple(c for c in self.conditions if variables(c) & own)
        cell = simplify(sub(where.value, self.base))
        body = Block((Store(values, (cell,), self.update.value, span=self.update.span),))
        if inside:
            body = Block((If(conjunction(inside), body),))
        for x in reversed(self.loops):
            body = Block((replace(x, body=body),))
        begin = Block((Store(values, (var(start),), identity),))
        start_loop = For(start, index(number), LoopKind.UNROLL, begin)
        target = replace(where, value=add(self.base, var(run)))
        moved = replace(self.update, indices=(target,), value=Load(values, (var(run),), dtype))
        run_loop = For(run, index(number), LoopKind.UNROLL, Block((moved,)), self.loops[0].note)
        result = Block((Alloc(buffer), start_loop, *body.stmts, run_loop))
        return (If(conjunction(outside), result),) if outside else (For(*_once(result, taken)),)


def _once(body: Block, taken: set[str]) -> tuple[str, Expr, LoopKind, Block]:
    """A loop of one iteration, which is a scope of its own."""
    name = fresh("once", taken)
    taken.add(name)
    return name, index(1), LoopKind.SERIAL, body


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, Const)
    return int(loop.extent.value)


def _nest(outermost: Stmt) -> _Nest | None:
    loops: list[For] = []
    conditions: list[Expr] = []
    at: Stmt = outermost
    while not isinstance(at, Reduce):
        if isinstance(at, For):
            if not at.kind.is_sequential or not isinstance(at.extent, Const):
                return None
            loops.append(at)
        elif isinstance(at, If) and not at.orelse.stmts:
            conditions += conjuncts((at.cond,))
        elif not isinstance(at, Block):
            return None
        stmts = at.stmts if isinstance(at, Block) else at.body.stmts
        if len(stmts) != 1:
            return None
        (at,) = stmts
    if not at.atomic or len(at.indices) != 1 or not isinstance(at.indices[0], Find):
        return None
    if any(x.buffer == at.buffer for e in (at.value, *conditions) for x in loads(e)):
        return None
    base = _base(tuple(loops), at.indices[0].value)
    return None if base is None else _Nest(tuple(loops), tuple(conditions), at, base)


def _base(loops: tuple[For, ...], position: Expr) -> Expr | None:
    """The position of the first entry when the loops count on from it one by one."""
    form = linear(position)
    coefficients = dict(form.terms)
    stride = 1
    for x in reversed(loops):
        if coefficients.pop(Var(x.var), 0) != stride:
            return None
        stride *= _extent(x)
    base = expression(Linear(tuple(coefficients.items()), form.constant))
    return None if variables(base) & {x.var for x in loops} else base


def run_update(emitter: KernelEmitter, s: For, place: Place) -> list[Node] | None:
    """The update of a run in registers, which `gather_runs` has made; None for any other loop."""
    only = s.body.stmts[0] if len(s.body.stmts) == 1 else None
    if not isinstance(only, Reduce) or not only.atomic or not isinstance(only.value, Load):
        return None
    (where,) = only.indices if len(only.indices) == 1 else (None,)
    values = emitter.buffers[only.value.buffer]
    if not isinstance(where, Find) or values.space is not Space.REGISTER:
        return None
    if only.value.indices != (var(s.var),):
        return None
    base = _base((s,), where.value)
    if base is None:
        return None
    starts = emitter.buffers[where.buffer]
    function = emitter.collectives.runs(
        only.monoid, values.dtype, starts.dtype, _extent(s), together=only.aggregated
    )
    # The search of a warp looks up to a warp's width beyond.
    emitter.require(add(starts.extents[0], WARP), place)
    arguments = (
        emitter.names.of(values.name),
        emitter.names.of(starts.name),
        emitter.value(sub(starts.extents[0], 1), place),
        emitter.value(base, place),
        emitter.names.of(only.buffer),
    )
    call = line(f"{function}({', '.join(arguments)});", line_origin(only, place))
    return emitter.owned(only, place, [call])
