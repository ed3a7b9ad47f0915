"""What has to be assumed about integers that the kernel reads and then uses as indices.

`x[idx[i]]` is in bounds only if the values in idx are subscripts of x, and a loop from `rowptr[r]` to
`rowptr[r + 1]` over an array only if its row pointers lie within it. Nothing in the kernel says so, and often
no parameter says how long such an array is: then its length becomes a size of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evolve.frontend.addresses import Access, accesses, shape_of
from evolve.frontend.asked import MISSING, end_asked, least_allowed
from evolve.frontend.domain import Domain
from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial, variable
from evolve.frontend.prove import Known, nonnegative
from evolve.frontend.refuse import RefusalError
from evolve.frontend.variables import Thread
from evolve.ir.data import index_arrays, terms
from evolve.ir.expr import Binary, BinaryOp, Cast, Expr, Load, index
from evolve.ir.kernel import Contents, Scalar
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Alloc, Block, For, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import fresh, subexpressions, walk


@dataclass(frozen=True)
class Premises:
    """`known`: what holds, with the values of index arrays; `implied`: lengths that are no parameters."""

    known: Known
    implied: tuple[Scalar, ...] = ()
    contents: tuple[Contents, ...] = ()
    notes: tuple[str, ...] = ()


def check_uses(thread: Thread, stmts: list[Stmt], line: int) -> None:
    """Refuses index arrays that are written, and assignments that leave a loop whose length is data.

    Raises RefusalError.
    """
    body = Block(tuple(stmts))
    used = frozenset[str]().union(*(index_arrays(e) for e in _expressions(body)))
    for site in walk(body):
        s = site.stmt
        if not isinstance(s, Store | Reduce):
            continue
        at = s.span.line if s.span else line
        if s.buffer in used:
            what = "the kernel writes it and reads subscripts or loop bounds from it"
            raise RefusalError(at, f"array {s.buffer}", what)
        around = [x for x in site.loops if any(terms(x.extent))]
        if not around or isinstance(s, Reduce):
            continue
        inside = walk(around[-1].body)
        if not any(isinstance(x.stmt, Alloc) and x.stmt.buffer.name == s.buffer for x in inside):
            why = (
                "in a loop whose length is read from memory, only sums, products, minima and maxima leave it"
            )
            raise RefusalError(at, "assignment", why)


def premises(thread: Thread, domain: Domain) -> Premises:
    """The premises of a kernel; its known facts alone where nothing that it reads is an index."""
    body = Block(tuple(domain.body))
    arrays = [p for p in thread.params if p in thread.elements]
    found_at = accesses(body, domain.known, frozenset(arrays))
    flats = {p: found_at[p] for p in arrays}
    bounds = _bounds(body)
    order = [p for p in flats if p in frozenset().union(*(index_arrays(e) for e in _expressions(body)))]
    found = Premises(domain.known)
    taken = {*thread.params}
    _check_divided(thread, body)
    for name in order:
        least = 0 if name in bounds else least_allowed(_expressions(body), name, thread.elements[name])
        end = None if name in bounds else end_asked(_expressions(body), name)
        found = _one(found, name, flats, bounds, thread, taken, least, end)
    return found


def _check_divided(thread: Thread, body: Block) -> None:
    """Refuses quotients, shifts and masks of elements that may be negative.

    `h[x[i] & 255]` is within h for any x, so that nothing says that x is not negative, as `h[x[i]]` does, and
    IR and C round other ways below zero. Loops may be as long as a quotient: below zero there are none.
    Raises RefusalError.
    """
    for site in walk(body):
        s = site.stmt
        for e in _expressions_of(s):
            for x in subexpressions(e):
                divides = isinstance(x, Binary) and (
                    x.op is BinaryOp.MOD or (x.op is BinaryOp.FLOORDIV and not isinstance(s, For))
                )
                for name in index_arrays(x) if divides else ():
                    if thread.elements[name] is not DType.U32:
                        line = s.span.line if isinstance(s, For | Store | Reduce) and s.span else 0
                        why = f"{name} may hold negative integers; declare its elements unsigned int"
                        raise RefusalError(line, "quotient or mask of an integer read from memory", why)


def _one(
    found: Premises,
    name: str,
    flats: Mapping[str, list[Access]],
    bounds: Mapping[str, bool],
    thread: Thread,
    taken: set[str],
    least: int,
    end: Poly | None,
) -> Premises:
    """The premise about one index array; `least` value of it that the kernel allows, and what it asks all
    that become indices to be below.

    That they are from 0 on and within an array is known all the same: where one is an index the kernel asked.
    """
    into = [array for array, accesses in flats.items() if any(name in _top(a.flat) for a in accesses)]
    length = None if name in bounds else _given_length(name, into, flats, found.known, thread.lengths)
    uses = [a.flat for found_at in flats.values() for a in found_at]
    masked = length is None and name not in bounds and all(_is_masked(p, name) for p in uses)
    if masked:
        length = constant(thread.elements[name].limits[1] + 1)
    known, implied = found.known, found.implied
    end = None if masked or name in bounds or end is None or not nonnegative(end - ONE, known) else end
    free = end is not None and length in (None, end)
    length = end if free else length
    notes = list(found.notes)
    if length is None:
        size = fresh(f"{into[0]}_size" if into else f"{name}_max", taken)
        taken.add(size)
        length = variable(size)
        implied = (*implied, Scalar(size, thread.elements[name], True, True))
        known = replace(known, lowest=(*known.lowest, (size, 1)))
        notes.append(f"{size} is no parameter of the kernel: how large it is, the workload says")
    largest = length if name in bounds else length - ONE
    known = replace(known, values=(*known.values, (name, largest)))
    ordered = bounds.get(name, False)
    if ordered:
        known = replace(known, ordered=(*known.ordered, (name, None)))
    contents = Contents(name, index(least), expression(largest + ONE), ordered)
    if free:
        last = thread.elements[name].limits[1] + 1
        contents = replace(contents, high=index(last), end=contents.high)
    what = "subscripts of" if name not in bounds else "where loops begin and end that read"
    targets = f", {what} {' and '.join(into)}" if into else ", how often a loop runs"
    order = ", none less than the one before" if ordered else ""
    most = (
        f" to {print_expr(expression(length))}"
        if name in bounds
        else f", below {print_expr(expression(length))}"
    )
    if free or least < 0:
        first = "of any sign" if least < MISSING else f"from {least}"
        inside = f"only those from 0{most} are subscripts" if free else "none that is negative is a subscript"
        notes.append(f"{name} holds integers {first}{'' if free else most}; {inside}")
    elif not masked:
        notes.append(f"{name} holds integers from 0{most}{order}{targets}")
    return Premises(known, implied, (*found.contents, contents), tuple(notes))


def _given_length(
    name: str,
    into: list[str],
    flats: Mapping[str, list[Access]],
    known: Known,
    lengths: Mapping[str, int],
) -> Poly | None:
    """The length of what `name` holds subscripts of, where the array is declared with one or other accesses
    tell its shape: the rows of `x[name[i] * cols + c]`, or the columns of `x[r * cols + name[i]]`."""
    for array in into:
        named = [a.flat for a in flats[array] if name in _top(a.flat)]
        if array in lengths and all(_is_element(p, name) for p in named):
            return constant(lengths[array])
        plain = [a for a in flats[array] if not a.flat.reads]
        if not plain:
            continue
        try:
            shape = shape_of(array, plain)
        except RefusalError:
            continue
        for extent, stride in zip(shape.extents, shape.strides, strict=True):
            through = [a.flat for a in flats[array] if _slope(a.flat, name) == stride]
            if stride != shape.strides[0]:
                through = [p for p in through if _starts_a_row(p, name, shape.strides[0])]
            if through and not any(isinstance(a, Binary) for a in extent.atoms()):
                return extent
    return None


def _starts_a_row(p: Poly, name: str, pitch: Poly) -> bool:
    """Whether an address without its element of `name` is that of a row: without one, the element may be a
    subscript of the whole array."""
    (element,) = (a for a in p.atoms() if name in _arrays(a))
    parts = p.coefficient(element)
    if parts is None:
        return False
    quotient, rest = parts[1].divide(pitch)
    return bool(quotient.names()) and not rest.terms


def _is_element(p: Poly, name: str) -> bool:
    """Whether an address is an element of `name` and nothing else: a quotient of it says less."""
    return _slope(p, name) == ONE and len(p.terms) == 1 and all(isinstance(a, Cast) for a in p.atoms())


def _is_masked(p: Poly, name: str) -> bool:
    """Whether an address has only remainders of elements of `name`, which are within what they divide by
    whatever the element is."""
    return all(
        isinstance(a, Binary) and a.op is BinaryOp.MOD and name not in _arrays(a.rhs)
        for a in p.atoms()
        if name in _arrays(a)
    )


def _slope(p: Poly, name: str) -> Poly | None:
    """What the one element of `name` in an address is multiplied with."""
    found = [a for a in p.atoms() if name in _arrays(a)]
    parts = p.coefficient(found[0]) if len(found) == 1 else None
    return None if parts is None else parts[0]


def _top(p: Poly) -> frozenset[str]:
    """The index arrays whose elements are terms of the polynomial, not inside the subscripts of others."""
    return frozenset(n for a in p.atoms() for n in _arrays(a))


def _arrays(a: Expr) -> frozenset[str]:
    if isinstance(a, Cast) and isinstance(a.arg, Load):
        return frozenset((a.arg.buffer,))
    if isinstance(a, Binary):
        return _arrays(a.lhs) | _arrays(a.rhs)
    return frozenset()


def _bounds(body: Block) -> dict[str, bool]:
    """Arrays that loop bounds are read from, and whether each pair of bounds is two neighbours in order."""
    out: dict[str, bool] = {}
    for site in walk(body):
        if isinstance(site.stmt, For):
            extent = polynomial(site.stmt.extent)
            for name in _top(extent):
                out[name] = out.get(name, False) or _is_row(extent, name)
    return out


def _is_row(extent: Poly, name: str) -> bool:
    """Whether the extent is `name[e + 1] - name[e]`, perhaps divided by a step."""
    parts = [extent, *(polynomial(a.lhs) for a in extent.atoms() if isinstance(a, Binary))]
    for p in parts:
        ends = {c: a.arg for m, c in p.terms if len(m) == 1 for a in m if isinstance(a, Cast)}
        first, last = ends.get(-1), ends.get(1)
        if not isinstance(first, Load) or not isinstance(last, Load) or {first.buffer, last.buffer} != {name}:
            continue
        begin = polynomial(first.indices[0])
        if polynomial(last.indices[0]) - begin == ONE and _meets_others(begin):
            return True
    return False


def _meets_others(begin: Poly) -> bool:
    """Whether a row may begin where another ends: pairs, as at `2 * i` and `2 * i + 1`, have ends of their
    own, and nothing says in which order they lie."""
    return not begin.names() or any(len(m) == 1 and abs(c) == 1 for m, c in begin.terms)


def _expressions(body: Block) -> list[Expr]:
    """Values, loop extents and where reductions go: what may read memory. Stores go nowhere that is read."""
    return [e for site in walk(body) for e in _expressions_of(site.stmt)]


def _expressions_of(s: Stmt) -> list[Expr]:
    match s:
        case For(extent=extent):
            return [extent]
        case Reduce(value=value, indices=indices):
            return [value, *indices]
        case Store(value=value):
            return [value]
        case _:
            return []
