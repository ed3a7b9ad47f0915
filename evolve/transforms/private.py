"""atomic, aggregate, privatize: cells that several threads reduce into.

    for i.o in 0..B:  for i.i in 0..T:  atomic h[x[i]] sum= 1

contends for few cells, over all of the GPU. With a copy of them for each block it becomes

    for i.o in 0..B:
      alloc h_p: shared[256]
      for b in 0..256:  h_p[b] = 0
      for i.i in 0..T:  atomic h_p[x[i]] sum= 1
      for b in 0..256:  atomic h[b] sum= h_p[b]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import simplify
from evolve.ir.effects import effects
from evolve.ir.expr import Const, Expr, Load, add, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Monoid, Space
from evolve.ir.visit import Site, fresh, rewrite, walk
from evolve.transforms.call import Call, Result, loop_of, transform
from evolve.transforms.edit import constant_extent, reads_memory, replace_loop
from evolve.transforms.memory import MAX_SHARED_BYTES
from evolve.transforms.names import claim, taken_names
from evolve.transforms.places import check_runs_in_order, check_scope
from evolve.transforms.window import Reach, Window, check_inside, window_of

Cell: TypeAlias = dict[str, Expr]
"""A variable for each loop over the cells of a copy, by what the loop counts: a dimension, or the copies."""

COPY = "copy"


@transform("atomic")
def atomic(call: Call) -> Result:
    """See dsl_spec/atomic.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    if buffer.space is Space.REGISTER:
        raise RefusedError("E-ATOMIC", f"{buffer.name} is in registers, which no two threads update")
    found = (s.stmt for s in walk(kernel.body))
    updates = [s for s in found if isinstance(s, Reduce) and s.buffer == buffer.name]
    if not updates:
        raise RefusedError("E-REDUCE-NONE", f"nothing is reduced into {buffer.name}")
    for s in updates:
        if not s.monoid.has_atomic(buffer.dtype):
            what = f"there is no atomic {s.monoid.name} of {buffer.dtype.c_name}"
            raise RefusedError("E-ATOMIC", f"`{print_stmt(s)}`: {what}")
    if all(s.atomic for s in updates):
        raise RefusedError("E-NO-CHANGE", f"reductions into {buffer.name} are atomic already")

    def indivisible(s: Stmt) -> Stmt | None:
        return replace(s, atomic=True) if isinstance(s, Reduce) and s.buffer == buffer.name else None

    return replace(kernel, body=rewrite(kernel.body, indivisible)), call.names


@transform("aggregate")
def aggregate(call: Call) -> Result:
    """See dsl_spec/aggregate.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    found = (s.stmt for s in walk(kernel.body))
    updates = [s for s in found if isinstance(s, Reduce) and s.buffer == buffer.name]
    if not updates:
        raise RefusedError("E-REDUCE-NONE", f"nothing is reduced into {buffer.name}")
    for s in updates:
        if not s.atomic:
            raise RefusedError(
                "E-ATOMIC",
                f"`{print_stmt(s)}` is made by one thread alone",
                repair=f"atomic({buffer.name})",
            )
    if all(s.aggregated for s in updates):
        raise RefusedError("E-NO-CHANGE", f"updates of {buffer.name} are aggregated already")

    def together(s: Stmt) -> Stmt | None:
        return replace(s, aggregated=True) if isinstance(s, Reduce) and s.buffer == buffer.name else None

    return replace(kernel, body=rewrite(kernel.body, together)), call.names


@transform("privatize")
def privatize(call: Call) -> Result:
    """See dsl_spec/privatize.yaml."""
    kernel, target = call.kernel, call.buffer("buffer")
    site = call.site("at")
    at = loop_of(site)
    _check_place(site, at, target)
    updates = tuple(_updates(at, target))
    window = _window(kernel, target, site, at, updates)
    check_inside(kernel, target, window, (*site.path, at))
    sizes = {str(d): n for d, n in enumerate(window.extents) if n > 1}
    copies = _copies(call, at, updates)
    if copies is not None:
        sizes[COPY] = copies[1]
    _check_size(target, sizes)
    taken = taken_names(kernel)
    targets = call.statement.targets
    name = claim(kernel, targets[0]) if targets else fresh(f"{target.name}_p", taken)
    taken.add(name)
    private = Buffer(name, target.dtype, tuple(index(n) for n in sizes.values()), Space.SHARED)
    first = updates[0].stmt
    assert isinstance(first, Reduce)
    made = _Private(call.note, target, private, window, sizes, first.monoid, first.atomic, taken)

    def into_private(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or s.buffer != target.name:
            return None
        here = [sub(s.indices[int(d)], window.origins[int(d)]) for d in sizes if d != COPY]
        mine = [var(copies[0])] if copies is not None else []
        return replace(s, buffer=name, indices=(*here, *mine))

    body = (Alloc(private), *made.start(), *rewrite(at.body, into_private).stmts, *made.merge())
    return replace_loop(kernel, at.var, lambda s: replace(s, body=Block(body))), call.names


def _check_place(site: Site, at: For, target: Buffer) -> None:
    if target.space is Space.REGISTER:
        raise RefusedError("E-NO-CHANGE", f"{target.name} is in registers, every thread has its own")
    check_runs_in_order(at)
    check_scope(
        at,
        site,
        Space.SHARED,
        what="what starts and merges the copy",
        outside="privatize at a loop around the thread loops",
        verb="privatize",
    )


def _updates(at: For, target: Buffer) -> Iterator[Site]:
    """The reductions into the buffer inside `at`, all of one kind. Raises RefusedError."""
    found: Reduce | None = None
    for site in walk(at.body):
        touching = [a for a in effects(site.stmt).accesses if a.buffer == target.name]
        if not touching:
            continue
        s = site.stmt
        if len(touching) > 1 or not isinstance(s, Reduce) or s.buffer != target.name:
            raise RefusedError(
                "E-PRIVATE",
                f"{target.name} is not only reduced into inside {at.var}",
                repair="privatize at a loop in which nothing else touches the buffer",
            )
        if found is not None and (found.monoid, found.atomic) != (s.monoid, s.atomic):
            raise RefusedError(
                "E-PRIVATE",
                f"`{print_stmt(found)}` and `{print_stmt(s)}` inside {at.var} are not of one kind",
            )
        found = s
        yield site
    if found is None:
        raise RefusedError("E-REDUCE-NONE", f"nothing is reduced into {target.name} inside {at.var}")


def _copies(call: Call, at: For, updates: tuple[Site, ...]) -> tuple[str, int] | None:
    """The loop that has a copy for each of its iterations, with their number, if one is named."""
    if call.value("copies") is None:
        return None
    loop = loop_of(call.site("copies"))
    number = constant_extent(call.kernel, loop.var)
    if number is None:
        raise RefusedError(
            "E-EXTENT",
            f"{loop.var} has no constant number of iterations, as of copies",
            repair=f"split({loop.var}, 32) and name the inner loop",
        )
    if any(loop.var not in (x.var for x in u.loops) for u in updates):
        raise RefusedError(
            "E-COPIES",
            f"not all that is reduced inside {at.var} is inside {loop.var}",
            repair=f"name a loop between {at.var} and the reductions",
        )
    return loop.var, number


def _window(kernel: Kernel, target: Buffer, site: Site, at: For, updates: tuple[Site, ...]) -> Window:
    """The box of cells: all of a dimension where memory says which, elsewhere the smallest around them.

    Raises RefusedError E-WINDOW.
    """
    if not target.extents:
        return Window((), ())
    reaches: list[Reach] = []
    data: set[int] = set()
    for u in updates:
        assert isinstance(u.stmt, Reduce)
        data |= {d for d, i in enumerate(u.stmt.indices) if reads_memory(i)}
        reaches.append(Reach(u.stmt.indices, (*site.path, at, *u.path)))
    still = tuple(
        replace(r, indices=tuple(index(0) if d in data else i for d, i in enumerate(r.indices)))
        for r in reaches
    )
    inner = frozenset(s.stmt.var for s in walk(at.body) if isinstance(s.stmt, For))
    window = window_of(kernel, target.name, still, inner)
    extents = list(window.extents)
    for d in data:
        size = simplify(target.extents[d], ranges_at(kernel))
        if not isinstance(size, Const):
            raise RefusedError(
                "E-WINDOW",
                f"memory says which of {target.name}'s cells, and there are {print_expr(size)}, no constant",
                repair="specialize the size",
            )
        extents[d] = int(size.value)
    return Window(window.origins, tuple(extents))


def _check_size(target: Buffer, sizes: dict[str, int]) -> None:
    size = prod(sizes.values()) * target.dtype.size
    if size > MAX_SHARED_BYTES:
        raise RefusedError(
            "E-STAGE-SIZE",
            f"the copies of {target.name} have {size} bytes, a block has at most {MAX_SHARED_BYTES}",
            repair="fewer copies, or privatize inside a smaller tile",
        )


@dataclass(frozen=True)
class _Private:
    """The copy in the making: `sizes` are its extents by what they count, the copies last."""

    note: str
    target: Buffer
    private: Buffer
    window: Window
    sizes: dict[str, int]
    monoid: Monoid
    atomic: bool
    taken: set[str]

    def start(self) -> tuple[Stmt, ...]:
        """All cells set to the identity."""
        return self._over("init", tuple(self.sizes), {}, lambda at: (self._neutral(self.private.name, at),))

    def merge(self) -> tuple[Stmt, ...]:
        """Each cell, of all copies together, into the one that it stands for."""
        cells = tuple(d for d in self.sizes if d != COPY)
        if COPY not in self.sizes:
            return self._over("all", cells, {}, lambda at: (self._into_target(self.private.name, at, at),))
        total = Buffer(fresh(f"{self.private.name}_sum", self.taken), self.target.dtype, (), Space.REGISTER)
        self.taken.add(total.name)

        def gather(at: Cell) -> tuple[Stmt, ...]:
            def add_one(one: Cell) -> tuple[Stmt, ...]:
                value = Load(self.private.name, tuple(one.values()), self.target.dtype)
                return (Reduce(total.name, (), self.monoid, value),)

            copies = self._over("all", (COPY,), at, add_one)
            return (
                Alloc(total),
                self._neutral(total.name, {}),
                *copies,
                self._into_target(total.name, {}, at),
            )

        return self._over("all", cells, {}, gather)

    def _neutral(self, buffer: str, at: Cell) -> Stmt:
        identity = Const(self.monoid.identity(self.target.dtype), self.target.dtype)
        return Store(buffer, tuple(at.values()), identity)

    def _into_target(self, buffer: str, held: Cell, at: Cell) -> Stmt:
        where = list(self.window.origins)
        for d, x in at.items():
            where[int(d)] = add(where[int(d)], x)
        value = Load(buffer, tuple(held.values()), self.target.dtype)
        return Reduce(self.target.name, tuple(where), self.monoid, value, atomic=self.atomic)

    def _over(
        self, what: str, over: tuple[str, ...], outside: Cell, body: Callable[[Cell], tuple[Stmt, ...]]
    ) -> tuple[Stmt, ...]:
        """Loops over the cells, outermost first, around what `body` makes of one."""
        names = {}
        for d in over:
            names[d] = fresh(f"{self.private.name}.{what}.{d}", self.taken)
            self.taken.add(names[d])
        out = body(outside | {d: var(names[d]) for d in over})
        for d in reversed(over):
            out = (For(names[d], index(self.sizes[d]), LoopKind.SERIAL, Block(out), self.note),)
        return out
