"""cache_write: what a loop stores goes into a copy first, which is then written out in one go."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import Ranges, expression, linear
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import Binary, Expr, Load, compare, sub
from evolve.ir.printer import print_expr
from evolve.ir.scope import conjuncts, ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Stmt, Store
from evolve.ir.types import DType, Space
from evolve.ir.visit import Site, loads, rewrite, variables, walk
from evolve.transforms.call import Call, Result, loop_of, transform
from evolve.transforms.edit import declared_in, guard, loops_in, reads_memory, replace_loop
from evolve.transforms.memory import copy_of
from evolve.transforms.names import taken_names
from evolve.transforms.places import check_runs_in_order, check_scope
from evolve.transforms.window import Reach, Window, swept, window_of


@transform("cache_write")
def cache_write(call: Call) -> Result:
    """See dsl_spec/cache_write.yaml."""
    kernel, target = call.kernel, call.buffer("buffer")
    site = call.site("at")
    at, space = loop_of(site), Space(call.word("scope"))
    _check_place(at, site, target, space)
    stores = tuple(_stores(at, site, target.name))
    window = window_of(kernel, target.name, stores, loops_in(at.body))
    taken = taken_names(kernel)
    copy = copy_of(call, target, window, space, "w", taken)

    def into_copy(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or s.buffer != target.name:
            return None
        local = tuple(sub(i, o) for i, o in zip(s.indices, window.origins, strict=True))
        return replace(s, buffer=copy.name, indices=local)

    out = _write_out(call, target, copy, window, stores, len(site.path) + 1, taken)
    body = _around(Alloc(copy), rewrite(at.body, into_copy), out, inside_guards=space is Space.REGISTER)
    return replace_loop(kernel, at.var, lambda s: replace(s, body=body)), call.names


def _check_place(at: For, site: Site, target: Buffer, space: Space) -> None:
    """Raises RefusedError where a copy cannot stand."""
    check_runs_in_order(at)
    if target.space is Space.REGISTER:
        raise RefusedError("E-NO-CHANGE", f"{target.name} is already in registers")
    check_scope(
        at,
        site,
        space,
        what="a copy",
        outside="keep the copy in registers, or at a loop around the thread loops",
        verb="write out",
    )


def _stores(at: For, site: Site, buffer: str) -> list[Reach]:
    """The stores into the buffer below the loop. Raises RefusedError when it is read there, or not stored."""
    found: list[Reach] = []
    for below in walk(at.body):
        for access in effects(below.stmt).accesses:
            if access.buffer != buffer:
                continue
            if access.mode is not Mode.WRITE:
                raise RefusedError(
                    "E-CACHE-READ",
                    f"{buffer} is not only stored inside {at.var}: its copy would not hold what is read",
                )
            if any(below.in_else):
                raise RefusedError("E-WINDOW", f"{buffer} is stored where a condition does not hold")
            found.append(Reach(access.indices, (*site.path, at, *below.path)))
    if not found or buffer in declared_in(at.body):
        raise RefusedError("E-CACHE-NONE", f"nothing inside {at.var} stores into {buffer}, declared outside")
    return found


def _write_out(
    call: Call,
    target: Buffer,
    copy: Buffer,
    window: Window,
    stores: tuple[Reach, ...],
    depth: int,
    taken: set[str],
) -> Block:
    """Loops over the box that copy what was stored: under the guards of the stores, said of the box."""
    sweep = swept(window, copy.name, call.note, taken)
    path = stores[0].path[:depth]
    guards = [_guards(x, sweep.where, ranges_at(call.kernel, x.path), depth, target.name) for x in stores]
    if any(set(g) != set(guards[0]) for g in guards):
        raise RefusedError("E-WINDOW", f"stores into {target.name} are made under different conditions")
    store = Store(target.name, sweep.where, Load(copy.name, sweep.local, target.dtype))
    return sweep.around(guard(guards[0], Block((store,)), ranges_at(call.kernel, (*path, *sweep.loops))))


def _guards(store: Reach, where: tuple[Expr, ...], ranges: Ranges, depth: int, name: str) -> tuple[Expr, ...]:
    """The conditions of a store below `depth`, the cell being `where` instead. Raises RefusedError E-WINDOW
    for those that say more than which cells are stored."""
    inner = {x.var for x in store.path[depth:] if isinstance(x, For)}
    out: list[Expr] = []
    for term in conjuncts(x.cond for x in store.path[depth:] if isinstance(x, If)):
        moved = _moved(term, store.indices, where, inner, ranges)
        if moved is None:
            raise RefusedError(
                "E-WINDOW", f"which cells of {name} are stored depends on more than a box: {print_expr(term)}"
            )
        out.append(moved)
    return tuple(dict.fromkeys(out))


def _moved(
    term: Expr, indices: tuple[Expr, ...], where: tuple[Expr, ...], inner: set[str], ranges: Ranges
) -> Expr | None:
    """A comparison with the loops `inner` expressed through the cell; None where they are not."""
    if not variables(term) & inner and not loads(term):
        return term
    if not isinstance(term, Binary) or not term.op.is_comparison or term.lhs.dtype is not DType.INDEX:
        return None
    form = linear(term.lhs, ranges) + linear(term.rhs, ranges).scale(-1)
    for subscript, cell in zip(indices, where, strict=True):
        own = linear(subscript, ranges)
        first = next(((a, c) for a, c in own.terms if variables(a) & inner), None)
        times = 0 if first is None else dict(form.terms).get(first[0], 0)
        if first is not None and times % first[1] == 0:
            form = form + (linear(cell, ranges) + own.scale(-1)).scale(times // first[1])
    moved = expression(form)
    return None if variables(moved) & inner or loads(moved) else compare(term.op, moved, 0)


def _around(declared: Alloc, body: Block, out: Block, *, inside_guards: bool) -> Block:
    """The body between declaration and writing out; registers inside a guard around the whole body."""
    if inside_guards and len(body.stmts) == 1:
        (only,) = body.stmts
        if isinstance(only, If) and not only.orelse.stmts and not reads_memory(only.cond):
            return Block((replace(only, body=_around(declared, only.body, out, inside_guards=True)),))
    return Block((declared, *body.stmts, *out.stmts))
