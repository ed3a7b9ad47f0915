"""What patterns ask of a kernel: the loops of a kind, and why a pattern does not apply.

`NAMES` find loops or sizes from a pattern's arguments. `CONDITIONS` give the reason why one does not hold,
None where it does. Both are named in `dsl_spec/patterns/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from evolve.ir.affine import linear
from evolve.ir.effects import Access, Mode, effects
from evolve.ir.expr import Expr, Var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.stmt import For, Reduce
from evolve.ir.types import LoopKind
from evolve.ir.visit import leaves, loads, variables, walk
from evolve.transforms.edit import carried_write, declared_in, extent_at, loop_at, sites

Names: TypeAlias = tuple[str, ...]


def sums_in(kernel: Kernel, loop: str) -> Names:
    """Innermost loops inside a loop that reduce into cells which all their iterations share."""
    return tuple(x for x in _innermost(kernel, loop) if _sums(loop_at(kernel, x)[0]))


def maps_in(kernel: Kernel, loop: str) -> Names:
    """The other innermost loops inside a loop."""
    return tuple(x for x in _innermost(kernel, loop) if not _sums(loop_at(kernel, x)[0]))


def size_of(kernel: Kernel, loop: str) -> Names:
    """The size that a loop runs over; nothing where its extent is another expression, or constant."""
    extent = extent_at(kernel, loop)
    known = {s.name for s in kernel.scalars if s.is_size}
    return (extent.name,) if isinstance(extent, Var) and extent.name in known else ()


def row_size(kernel: Kernel, loop: str) -> Names:
    """The size that the innermost loops inside a loop run over."""
    return tuple(dict.fromkeys(n for x in _innermost(kernel, loop) for n in size_of(kernel, x)))


def row_length(kernel: Kernel, loop: str) -> Names:
    """The size that is the last extent of all arrays touched inside a loop; nothing where there is no one."""
    inside = loop_at(kernel, loop)[0].body
    touched = {a.buffer for s in walk(inside) for a in effects(s.stmt).accesses}
    extents = {b.extents[-1] for b in kernel.buffers if b.name in touched and len(b.extents) > 1}
    known = {s.name for s in kernel.scalars if s.is_size}
    found = [e.name for e in extents if isinstance(e, Var) and e.name in known]
    return tuple(found) if len(extents) == len(found) == 1 else ()


def first_written(kernel: Kernel, loop: str) -> Names:
    """What a loop's number lacks to be a subscript of all that is written inside; nothing for 0."""
    forms = {
        linear(i)
        for leaf, _ in leaves(loop_at(kernel, loop)[0].body)
        for i in leaf.indices
        if loop in variables(i)
    }
    found = {f.constant for f in forms if f.terms == ((Var(loop), 1),)}
    return tuple(str(c) for c in found if c > 0) if len(forms) == len(found) == 1 else ()


def is_outermost(kernel: Kernel, loop: str) -> str | None:
    """No loop is around it."""
    around = loop_at(kernel, loop)[1].loops
    return f"{loop} is inside {around[-1].var}" if around else None


def is_innermost(kernel: Kernel, loop: str) -> str | None:
    """No loop is inside it."""
    inner = next((s.stmt.var for s in walk(loop_at(kernel, loop)[0].body) if isinstance(s.stmt, For)), None)
    return f"{loop} holds the loop {inner}" if inner else None


def is_unbound(kernel: Kernel, *loops: str) -> str | None:
    """Nothing was done to the loops yet that says who runs them."""
    free = (LoopKind.SERIAL, LoopKind.PARALLEL)
    done = next((x for x in loops if loop_at(kernel, x)[0].kind not in free), None)
    return f"{done} is {loop_at(kernel, done)[0].kind.value} already" if done else None


def is_nested(kernel: Kernel, outer: str, inner: str) -> str | None:
    """The second loop is all that the first one holds."""
    below = [s.stmt.var for s in walk(loop_at(kernel, outer)[0].body) if isinstance(s.stmt, For)]
    if below[:1] != [inner] or [x.var for x in loop_at(kernel, inner)[1].loops][-1:] != [outer]:
        return f"{inner} is not the loop directly inside {outer}"
    return None


def is_independent(kernel: Kernel, loop: str) -> str | None:
    """Its iterations write different cells."""
    found = carried_write(loop_at(kernel, loop)[0])
    return None if found is None else f"all iterations of {loop} update one cell of {found.buffer}"


def has_sums(kernel: Kernel, loop: str) -> str | None:
    """Some innermost loop inside it reduces."""
    return None if sums_in(kernel, loop) else f"no loop inside {loop} carries a reduction"


def sums_are_whole(kernel: Kernel, loop: str) -> str | None:
    """No total is read inside the loop that adds to it."""
    for x in sums_in(kernel, loop):
        body = loop_at(kernel, x)[0].body
        totals = {leaf.buffer for leaf, _ in leaves(body) if isinstance(leaf, Reduce)}
        for s in walk(body):
            for a in effects(s.stmt).accesses:
                if a.mode is Mode.READ and a.buffer in totals:
                    return f"{a.buffer} is read while it grows"
    return None


def sums(kernel: Kernel, loop: str) -> str | None:
    """It carries a reduction itself."""
    return None if _sums(loop_at(kernel, loop)[0]) else f"{loop} carries no reduction"


def has_rows_of_one_length(kernel: Kernel, loop: str) -> str | None:
    """The innermost loops inside it have the same extent, which does not depend on it."""
    extents = {print_expr(extent_at(kernel, x)) for x in _innermost(kernel, loop)}
    if len(extents) != 1:
        return f"the loops inside {loop} run to {', '.join(sorted(extents)) or 'nothing'}"
    if any(variables(extent_at(kernel, x)) - set(kernel.params) for x in _innermost(kernel, loop)):
        return f"how long the rows of {loop} are differs"
    return None


def reads_along(kernel: Kernel, array: str, loop: str) -> str | None:
    """Each innermost loop inside `loop` that reads the array has its number as the last subscript."""
    found = False
    for x in _innermost(kernel, loop):
        for a in _accesses(loop_at(kernel, x)[0], array, Mode.READ):
            found = True
            if not a.indices or not _is_plain(a.indices[-1], x):
                return f"{array} is not read along {x}"
    return None if found else f"{array} is not read in the loops inside {loop}"


def reads_at(kernel: Kernel, array: str, *loops: str) -> str | None:
    """The array is read at exactly these loops' numbers, in this order."""
    found = [a.indices for s in walk(kernel.body) for a in effects(s.stmt).accesses if a.buffer == array]
    wanted = ", ".join(loops)
    if not any(len(i) == len(loops) and all(map(_is_plain, i, loops)) for i in found):
        return f"{array}[{wanted}] is not read"
    return None


def stores_at(kernel: Kernel, *loops: str) -> str | None:
    """Some array is written at exactly these loops' numbers, in this order."""
    for leaf, _ in leaves(kernel.body):
        if len(leaf.indices) == len(loops) and all(map(_is_plain, leaf.indices, loops)):
            return None
    return f"no array is written at [{', '.join(loops)}]"


def reads_neighbours(kernel: Kernel, i: str, j: str) -> str | None:
    """Some array is read around [i, j], at more than one distance along each loop."""
    rows: dict[str, tuple[set[int], set[int]]] = {}
    for s in walk(kernel.body):
        for a in effects(s.stmt).accesses:
            if a.mode is not Mode.READ or len(a.indices) < 2:
                continue
            apart = rows.setdefault(a.buffer, (set(), set()))
            for x, loop, seen in zip(a.indices[-2:], (i, j), apart, strict=True):
                form = linear(x)
                if (Var(loop), 1) in form.terms:
                    seen.add(form.constant if len(form.terms) == 1 else hash(form.terms))
    if any(len(a) > 1 and len(b) > 1 for a, b in rows.values()) or _window(kernel, i, j):
        return None
    return f"no array is read at neighbours of [{i}, {j}]"


def counts_into(kernel: Kernel, array: str, loop: str) -> str | None:
    """All that the loop does is to reduce into cells of the array that memory names."""
    body = loop_at(kernel, loop)[0].body
    for leaf, _ in leaves(body):
        if leaf.buffer in declared_in(body):
            continue
        if not isinstance(leaf, Reduce) or leaf.buffer != array:
            return f"{loop} writes {leaf.buffer}, not only contributions to {array}"
        if any(loop in variables(i) and not _reads_memory(i) for i in leaf.indices):
            return f"cells of {array} are chosen by {loop}, not by memory"
        if not any(_reads_memory(i) for i in leaf.indices):
            return f"memory does not choose the cells of {array}"
        return None
    return f"{loop} contributes nothing to {array}"


def _innermost(kernel: Kernel, loop: str) -> Iterator[str]:
    for name, site in sites(kernel).items():
        if any(x.var == loop for x in site.loops) and is_innermost(kernel, name) is None:
            yield name


def _sums(loop: For) -> bool:
    local = declared_in(loop.body)
    return any(
        isinstance(leaf, Reduce)
        and leaf.buffer not in local
        and not any(loop.var in variables(i) for i in leaf.indices)
        for leaf, _ in leaves(loop.body)
    )


def _accesses(loop: For, array: str, mode: Mode) -> Iterator[Access]:
    for s in walk(loop.body):
        yield from (a for a in effects(s.stmt).accesses if a.buffer == array and a.mode is mode)


def _is_plain(e: Expr, loop: str) -> bool:
    """Whether a subscript is the loop's number, from whatever start."""
    return linear(e).terms == ((Var(loop), 1),)


def _window(kernel: Kernel, i: str, j: str) -> bool:
    """Whether some array is read at i and j plus the numbers of loops further in."""
    for s in walk(kernel.body):
        for a in effects(s.stmt).accesses:
            if a.mode is Mode.READ and len(a.indices) >= 2:
                x, y = a.indices[-2:]
                both = i in variables(x) and j in variables(y)
                if both and variables(x) - {i} and variables(y) - {j}:
                    return True
    return False


def _reads_memory(e: Expr) -> bool:
    return bool(loads(e))


NAMES: Mapping[str, Callable[..., Names]] = {
    f.__name__: f for f in (sums_in, maps_in, size_of, row_size, row_length, first_written)
}
CONDITIONS: Mapping[str, Callable[..., str | None]] = {
    f.__name__: f
    for f in (
        is_outermost,
        is_innermost,
        is_unbound,
        is_nested,
        is_independent,
        has_sums,
        sums,
        sums_are_whole,
        has_rows_of_one_length,
        reads_along,
        reads_at,
        stores_at,
        reads_neighbours,
        counts_into,
    )
}
