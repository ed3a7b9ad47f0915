"""The part of a buffer that a loop body touches: a box of constant size that moves with outer loops."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import Linear, Ranges, bounds, expression, linear, simplify
from evolve.ir.data import reads
from evolve.ir.expr import TRUE, Expr, add, conjunction, index, var
from evolve.ir.kernel import Kernel
from evolve.ir.lanes import divisor
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Block, Buffer, For, If
from evolve.ir.types import LoopKind
from evolve.ir.visit import fresh, loads, variables
from evolve.transforms.edit import less


@dataclass(frozen=True)
class Reach:
    """One access below a loop: subscripts and the loops and guards from the kernel's top to it."""

    indices: tuple[Expr, ...]
    path: tuple[For | If, ...]


@dataclass(frozen=True)
class Window:
    """A box: `origins[d]` is its first element in dimension d, `extents[d]` its constant size."""

    origins: tuple[Expr, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Sweep:
    """Loops over the elements of a window: `local` are their places in it, `where` those in the buffer."""

    loops: tuple[For, ...]
    local: tuple[Expr, ...]
    where: tuple[Expr, ...]

    def around(self, body: Block) -> Block:
        """The body for each element."""
        for loop in reversed(self.loops):
            body = Block((replace(loop, body=body),))
        return body


def swept(window: Window, name: str, note: str, taken: set[str]) -> Sweep:
    """Loops called `<name>.<dimension>`, one for each dimension larger than 1; their names become taken."""
    loops: list[For] = []
    local: list[Expr] = []
    for d, extent in enumerate(window.extents):
        if extent == 1:
            local.append(index(0))
            continue
        taken.add(loop := fresh(f"{name}.{d}", taken))
        loops.append(For(loop, index(extent), LoopKind.SERIAL, Block(()), note))
        local.append(var(loop))
    where = tuple(add(o, i) for o, i in zip(window.origins, local, strict=True))
    return Sweep(tuple(loops), tuple(local), where)


def window_of(kernel: Kernel, buffer: str, accesses: tuple[Reach, ...], inner: frozenset[str]) -> Window:
    """The smallest box around all accesses while the loops in `inner` run and the others stand still.

    Raises RefusedError E-WINDOW when its size is not constant, the accesses are not at a common place, or
    memory says where they are.
    """
    places: list[Linear | None] = [None] * len(accesses[0].indices)
    low: list[int] = [0] * len(places)
    high: list[int] = [0] * len(places)
    for access in accesses:
        ranges = ranges_at(kernel, access.path)
        for d, subscript in enumerate(access.indices):
            if loads(subscript) or reads(subscript):
                raise RefusedError(
                    "E-WINDOW", f"subscript {print_expr(subscript)} of {buffer} is read from memory"
                )
            place, (lo, hi) = _split(subscript, ranges, inner)
            if lo is None or hi is None:
                raise RefusedError(
                    "E-WINDOW",
                    f"subscript {print_expr(subscript)} of {buffer} spans a range that is not constant",
                    repair="specialize the size, or split the loop and stage inside the outer one",
                )
            known = places[d]
            if known is None:
                places[d], low[d], high[d] = place, lo, hi
                continue
            apart = place + known.scale(-1)
            if not apart.is_constant:
                raise RefusedError(
                    "E-WINDOW",
                    f"accesses to {buffer} are at unrelated places: {print_expr(expression(known))} "
                    f"and {print_expr(expression(place))}",
                )
            low[d] = min(low[d], lo + apart.constant)
            high[d] = max(high[d], hi + apart.constant)
    origins = tuple(
        expression((p or Linear((), 0)) + Linear((), lo)) for p, lo in zip(places, low, strict=True)
    )
    return Window(origins, tuple(h - lo + 1 for lo, h in zip(low, high, strict=True)))


def aligned(kernel: Kernel, buffer: str, window: Window, to: int, path: tuple[For | If, ...]) -> Window:
    """The window with its last dimension widened to begin and end at multiples of `to`.

    Raises RefusedError E-WINDOW where its place is not known to be a constant apart from such a multiple.
    """
    if to == 1 or not window.origins:
        return window
    *origins, last = window.origins
    *extents, extent = window.extents
    ranges = ranges_at(kernel, path)
    form = linear(last, ranges)
    if any(c * divisor(atom, ranges) % to for atom, c in form.terms):
        raise RefusedError(
            "E-WINDOW",
            f"the part of {buffer} begins at {print_expr(last)}, at no fixed way from a multiple of {to}",
            repair=f"split the loop by {to} first",
        )
    before = form.constant % to
    whole = -(-(extent + before) // to) * to
    return Window((*origins, expression(form + Linear((), -before))), (*extents, whole))


def _split(
    subscript: Expr, ranges: Ranges, inner: frozenset[str]
) -> tuple[Linear, tuple[int | None, int | None]]:
    """The part of a subscript that stands still, and the range of the rest."""
    form = linear(subscript, ranges)
    still = tuple(t for t in form.terms if not variables(t[0]) & inner)
    moving = tuple(t for t in form.terms if variables(t[0]) & inner)
    return Linear(still, 0), bounds(Linear(moving, form.constant), ranges)


def check_inside(kernel: Kernel, target: Buffer, window: Window, path: tuple[For | If, ...]) -> None:
    """Raises RefusedError E-WINDOW unless all cells of the window exist.

    What combines partials writes each of them, also those without contributions.
    """
    ranges = ranges_at(kernel, path)
    terms = []
    for origin, size, extent in zip(window.origins, window.extents, target.extents, strict=True):
        if size > 1:
            terms += [less(index(-1), origin), less(add(origin, size - 1), extent)]
    cond = conjunction(tuple(simplify(t, ranges) for t in terms))
    if cond != TRUE:
        raise RefusedError(
            "E-WINDOW",
            f"the reduced cells of {target.name} may reach over its edge ({print_expr(cond)} is not known)",
            repair="specialize the size to a multiple of the tile",
        )
