"""set_layout: where the elements of a shared tile lie."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.effects import effects
from evolve.ir.expr import Const
from evolve.ir.kernel import Kernel
from evolve.ir.lanes import lies_wide
from evolve.ir.layout import misplaced
from evolve.ir.printer import print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Buffer, Reduce, Stmt, Store
from evolve.ir.swizzle import Swizzle
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import leaves
from evolve.transforms.call import Call, Checked, transform
from evolve.transforms.edit import constant_extent
from evolve.transforms.rewriting import loading, rewrite_naming
from evolve.transforms.taken import bytes_of

T = TypeVar("T")


@transform("set_layout")
def set_layout(call: Call) -> Checked:
    """See dsl_spec/set_layout.yaml."""
    buffer = call.buffer("buffer")
    if buffer.space is not Space.SHARED:
        raise RefusedError("E-LAYOUT-SPACE", f"{buffer.name} is {buffer.space.value}; only shared buffers")
    rank = len(buffer.extents)
    order = call.integers("order") or tuple(range(rank))
    if sorted(order) != list(range(rank)):
        raise RefusedError(
            "E-LAYOUT-ORDER", f"{buffer.name} has dimensions 0 to {rank - 1}, the order is {list(order)}"
        )
    pad = call.integers("pad") or _ordered(buffer.padding, order)
    if len(pad) not in (0, rank):
        raise RefusedError("E-LAYOUT-RANK", f"{buffer.name} has {rank} dimensions, {len(pad)} paddings given")
    new = replace(buffer, extents=_ordered(buffer.extents, order), padding=pad if any(pad) else ())
    new = replace(new, swizzle=_swizzle(call, new, order))
    _check_vectors(call.kernel, buffer, new, order)
    if new == buffer and order == tuple(range(rank)):
        raise RefusedError("E-NO-CHANGE", f"the layout of {buffer.name} is already that")

    if bytes_of(new) == bytes_of(buffer):
        yield None

    def placed(s: Stmt) -> Stmt:
        if isinstance(s, Alloc):
            return Alloc(new)
        if isinstance(s, Store | Reduce) and s.buffer == buffer.name:
            s = replace(s, indices=_ordered(s.indices, order))
        return loading(s, buffer.name, lambda x: replace(x, indices=_ordered(x.indices, order)))

    return replace(call.kernel, body=rewrite_naming(call.kernel.body, buffer.name, placed)), call.names


def _swizzle(call: Call, buffer: Buffer, order: tuple[int, ...]) -> Swizzle | None:
    """The swizzle of a buffer that has the new extents. Raises RefusedError E-LAYOUT-SWIZZLE."""
    given = call.integers("swizzle")
    if not given:
        if buffer.swizzle is not None and order[-2:] != (len(order) - 2, len(order) - 1):
            raise RefusedError(
                "E-LAYOUT-SWIZZLE", f"the columns of {buffer.name} are swizzled and would be others: say how"
            )
        return buffer.swizzle
    if len(given) not in (2, 3) or len(buffer.extents) < 2:
        raise RefusedError(
            "E-LAYOUT-SWIZZLE", "a swizzle is [width, groups] or [width, groups, rows] of a tile with rows"
        )
    found = Swizzle(*given)
    columns = buffer.extents[-1]
    if not isinstance(columns, Const):
        raise RefusedError("E-LAYOUT-SWIZZLE", f"the columns of {buffer.name} are no constant number")
    if any(n & (n - 1) or n < 1 for n in given) or found.groups < 2:
        raise RefusedError("E-LAYOUT-SWIZZLE", f"{list(given)} are not powers of two with two groups or more")
    wrong = misplaced(found, int(columns.value))
    if wrong is not None:
        raise RefusedError(
            "E-LAYOUT-SWIZZLE",
            f"{found.groups} groups of {found.width} do not divide the rows of {buffer.name}: {wrong}",
        )
    return found


def _check_vectors(kernel: Kernel, old: Buffer, new: Buffer, order: tuple[int, ...]) -> None:
    """Raises RefusedError E-LAYOUT-SWIZZLE when a swizzle takes vectors apart, those of copies among them."""
    if new.swizzle is None or new.swizzle == old.swizzle:
        return
    plain = replace(new, swizzle=None)
    for leaf, site in leaves(kernel.body):
        for loop in (x for x in site.loops if x.kind is LoopKind.VECTOR):
            ranges = ranges_at(kernel, site.path)
            width = constant_extent(kernel, loop.var) or 1
            for access in (x for x in effects(leaf).accesses if x.buffer == old.name):
                at = _ordered(access.indices, order)
                if not lies_wide(plain, at, loop.var, width, ranges):
                    continue
                if not lies_wide(new, at, loop.var, width, ranges):
                    raise RefusedError(
                        "E-LAYOUT-SWIZZLE",
                        f"`{print_stmt(leaf)}` reaches {width} columns at once in {loop.var}, "
                        f"{new.swizzle.width} stay together",
                        repair=f"swizzle groups of {width} columns",
                    )


def _ordered(items: tuple[T, ...], order: tuple[int, ...]) -> tuple[T, ...]:
    """The items in that order; none stay none."""
    return tuple(items[i] for i in order) if items else ()
