"""What comes next in the kernel: blocks, bound loops and decided conditions taken apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.ir.stmt import Alloc, Block, For, If, Leaf, Reduce, Store
from evolve.ir.types import Space
from evolve.validation.context import Context
from evolve.validation.formula import Every, Formula, at_least, below, equal, is_opaque, negation
from evolve.validation.items import Item, Run
from evolve.validation.meaning import kernel_condition, kernel_index
from evolve.validation.polynomial import Poly, bounds, constant, variable
from evolve.validation.state import AXES, GRID, Place, State
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.witness import Witness, happens, unequal, unshown, witness


class Upcoming:
    """Items of the kernel as they are met. Raises DifferenceError and UnreadError."""

    def __init__(self, state: State) -> None:
        self.state = state

    def expose(self, left: list[Item], place: Place) -> Item | None:
        """The first item, blocks, bound loops and decided conditions taken apart."""
        while left:
            head = left[0]
            parts = self.opened(head, place)
            if parts is None:
                return left[0]
            left[:1] = parts
        return None

    def opened(self, item: Item, place: Place) -> list[Item] | None:
        """What an item consists of here; None when it stands as it is."""
        ctx, st, s = place.context, self.state, item.stmt
        if item.guards:
            kept = tuple(g for g in item.guards if not ctx.holds(g))
            if any(ctx.excludes(g) for g in kept):
                return []
            return [replace(item, guards=kept)] if kept != item.guards else None
        match s:
            case Block():
                return [replace(item, stmt=x, settled=False) for x in s.stmts]
            case Alloc():
                if s.buffer.space is Space.GLOBAL:
                    raise UnreadError(f"{s.buffer.name} is scratch memory inside a launch", place.line)
                st.allocate(s.buffer, place.loops)
                return []
            case For() if s.kind.is_grid or s.kind.is_thread:
                return [self._bound(item, s, ctx)]
            case For() if not s.kind.is_combine:
                return self._opened_loop(item, s, ctx)
            case If():
                f = kernel_condition(st, s.cond, item.env, ctx)
                if ctx.holds(f):
                    return [replace(item, stmt=s.body)]
                if ctx.excludes(f) and not is_opaque(f):
                    return [replace(item, stmt=s.orelse)]
                return None
            case _:
                return self._settled(item)

    def _bound(self, item: Item, s: For, ctx: Context) -> Item:
        """A bound loop is a condition on the thread or block."""
        st = self.state
        extent = kernel_index(st, s.extent, item.env, ctx)
        if s.kind.is_grid:
            if not ctx.same(extent, st.grid[s.kind]):
                launched = st.grid[s.kind]
                reason = f"{s.var} runs over {extent.text} blocks, launched are {launched.text}"
                raise unequal(ctx, launched, extent, reason)
            here = st.block_index(s.kind)
            return replace(item, stmt=s.body, env={**item.env, s.var: here}, axes=item.axes | {s.kind})
        there = constant(st.block[s.kind])
        if not ctx.holds(at_least(there, extent)):
            reason = f"{s.var} needs {extent.text} threads, a block has {there.text}"
            raise happens(ctx, below(there, extent), reason)
        here = variable(s.kind.value) if st.block[s.kind] > 1 else constant(0)
        env, axes = {**item.env, s.var: here}, item.axes | {s.kind}
        return Item(s.body, env, axes, (below(here, extent),), item.root)

    def _opened_loop(self, item: Item, s: For, ctx: Context) -> list[Item] | None:
        extent = kernel_index(self.state, s.extent, item.env, ctx)
        n = extent.value
        if n is None and ctx.holds(equal(extent, constant(1))):
            n = 1
        if n is not None and n <= 0:
            return []
        if n == 1:
            return [replace(item, stmt=s.body, env={**item.env, s.var: constant(0)})]
        return None

    def _settled(self, item: Item) -> list[Item] | None:
        """Outside thread loops memory is written by the first thread only, for all."""
        if item.settled:
            return None
        target = _written(item)
        if target is None or self.state.buffers[target].space is Space.REGISTER:
            return None
        st = self.state
        missing = [a for a in AXES if st.block[a] > 1 and a not in item.axes]
        grids = [a for a in GRID if st.grid[a] != constant(1) and a not in item.axes]
        if grids:
            raise UnreadError(f"{target} is written in every block")
        first = tuple(equal(variable(a.value), constant(0)) for a in missing)
        return [replace(item, guards=(*item.guards, *first), settled=True)]

    def counted(self, name: str, extent: Poly, ctx: Context) -> tuple[Poly, Context]:
        """A new variable that counts from 0 up to the extent, and what holds where it does."""
        self.state.serial += 1
        fresh = f"{name}.{self.state.serial}"
        _, high = bounds(extent.plus(-1), ctx.ranges)
        v = variable(fresh)
        self.state.widths.extents[fresh] = extent
        return v, ctx.ranging(fresh, 0, high).given(below(v, extent))

    def drop_dead(self, left: list[Item], place: Place) -> bool:
        """Drops the head where nothing of it happens."""
        if left and self.dead(left[0], place.context):
            left.pop(0)
            return True
        return False

    def unmatched(
        self, head: Item | None, place: Place, reason: str, *differ: Formula
    ) -> DifferenceError | UnreadError:
        """What to raise where the text does something else than the first item, which is to happen at some
        point, and, where conditions or the length of a loop decide it, not at another. What else is to be
        possible: `differ`."""
        if head is None:
            return DifferenceError(reason, place.line)
        ctx = place.context
        found = self.alive(head, ctx)
        if found is None or any(witness(ctx, f) is None for f in (*self._deciding(head, ctx), *differ)):
            return unshown(ctx, reason, place.line)
        return DifferenceError(f"{reason}{found.at()}", place.line)

    def _deciding(self, head: Item, ctx: Context) -> list[Formula]:
        """What must be possible, or the item would always be the same."""
        s = head.stmt
        if head.guards:
            return [negation(Every(head.guards))]
        if isinstance(s, For) and not s.kind.is_combine:
            return [negation(equal(kernel_index(self.state, s.extent, head.env, ctx), constant(1)))]
        f = kernel_condition(self.state, s.cond, head.env, ctx) if isinstance(s, If) else Every()
        return [f, negation(f)] if isinstance(s, If) and not is_opaque(f) else []

    def alive(self, item: Item, ctx: Context) -> Witness | None:
        """A point at which something of an item happens."""
        found: list[Witness] = []

        def nowhere(here: Context) -> bool:
            point = witness(here)
            found.extend([] if point is None else [point])
            return point is None

        return None if self.dead(item, ctx, nowhere) else found[-1]

    def dead(
        self, item: Item, ctx: Context, nowhere: Callable[[Context], bool] = lambda here: here.is_empty
    ) -> bool:
        """Whether nothing of an item happens here."""
        if not item.settled:
            item = next(iter(self._settled(item) or (item,)))
        if item.guards:
            ctx = ctx.given(*item.guards)
            item = replace(item, guards=())
        st, s = self.state, item.stmt
        match s:
            case Block():
                return all(self.dead(replace(item, stmt=x, settled=False), ctx, nowhere) for x in s.stmts)
            case Alloc():
                return True
            case Store(prefetch=True):
                return True
            case For() if s.kind.is_grid or s.kind.is_thread:
                return self.dead(self._bound(item, s, ctx), ctx, nowhere)
            case For() if s.kind.is_combine:
                return nowhere(ctx)
            case For():
                extent = kernel_index(st, s.extent, item.env, ctx)
                v, inner = self.counted(s.var, extent, ctx)
                return self.dead(replace(item, stmt=s.body, env={**item.env, s.var: v}), inner, nowhere)
            case If():
                f = kernel_condition(st, s.cond, item.env, ctx)
                then = replace(item, stmt=s.body)
                orelse = replace(item, stmt=s.orelse)
                sides = ((then, ctx.given(f)), (orelse, ctx.given(negation(f))))
                return all(self.dead(x, here, nowhere) for x, here in sides)
            case _:
                return nowhere(ctx)


def _written(item: Item) -> str | None:
    s = item.stmt
    if isinstance(s, Run):
        return s.update.buffer
    if isinstance(s, Leaf):
        return s.buffer
    if isinstance(s, For) and s.kind.is_combine and not s.kind.is_scan:
        step = s.body.stmts[0]
        return step.buffer if isinstance(step, Reduce) else None
    return None
