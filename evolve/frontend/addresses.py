"""Flat addresses become multi-dimensional subscripts, each proved to lie in its extent.

The strides of a buffer are the coefficients of the loop variables in its addresses. Dividing each
address by them from the largest down gives the subscripts; a set of strides is accepted only if
every inner subscript of every access is proved to be within its dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from evolve.frontend.dense import unwrapped
from evolve.frontend.lengths import Touch, are_always, are_boxes, farthest, shows_all, shows_rows
from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial
from evolve.frontend.prove import Known, negate, nonnegative, positive, simplify, variable_atom
from evolve.frontend.refuse import RefusalError
from evolve.ir.data import reads
from evolve.ir.expr import Binary, BinaryOp, Cast, Expr, Load, Select, Var, index
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Alloc, Block, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import children, rebuild, variables, walk

_SMALLEST_CONSTANT_STRIDE = 8
_MAX_STRIDES = 5


@dataclass(frozen=True)
class Access:
    """One flat address with what is known where it is used; whether it `reads` what is there; what is
    `written` by the kernel anywhere."""

    flat: Poly
    known: Known
    line: int
    reads: bool = True
    written: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Shape:
    """The dimensions of a buffer: strides from the largest to 1, and the extents.

    `assumed`: no access shows the last few elements of the last row. `idle`: the kernel reads from it at some
    sizes, or where a flag says so, and touches none of it at others.
    """

    strides: tuple[Poly, ...]
    extents: tuple[Poly, ...]
    assumed: bool = False
    idle: bool = False


def accesses(block: Block, known: Known, buffers: frozenset[str]) -> dict[str, list[Access]]:
    """All accesses to the given buffers."""
    out: dict[str, list[Access]] = {b: [] for b in buffers}
    written = frozenset(site.stmt.buffer for site in walk(block) if isinstance(site.stmt, Store | Reduce))

    def visit(e: Expr, k: Known, line: int) -> Expr:
        if isinstance(e, Load) and e.buffer in buffers:
            out[e.buffer].append(Access(polynomial(e.indices[0]), k, line, True, written))
        return e

    for s, k in _statements(block, known):
        line = s.span.line if s.span else 0
        if isinstance(s, For):
            _rewrite_expr(s.extent, k, line, visit)
        else:
            _rewrite_expr(s.value, k, line, visit)
            for i in s.indices:
                _rewrite_expr(i, k, line, visit)
            if s.buffer in buffers:
                flat = polynomial(s.indices[0])
                out[s.buffer].append(Access(flat, k, line, isinstance(s, Reduce), written))
    return out


def _statements(block: Block, known: Known) -> Iterator[tuple[Store | Reduce | For, Known]]:
    """Statements that may read memory, with what is known where they stand."""
    for s in block.stmts:
        match s:
            case For():
                yield s, known
                yield from _statements(s.body, known.inside(s.var, polynomial(s.extent)))
            case If():
                yield from _statements(s.body, known.assuming(s.cond))
                yield from _statements(s.orelse, known.assuming(negate(s.cond)))
            case Store() | Reduce():
                yield s, known
            case _:
                pass


def _rewrite_expr(e: Expr, known: Known, line: int, f) -> Expr:  # type: ignore[no-untyped-def]
    if isinstance(e, Select):
        cond = _rewrite_expr(e.cond, known, line, f)
        then = _rewrite_expr(e.then, known.assuming(cond), line, f)
        orelse = _rewrite_expr(e.orelse, known.assuming(negate(cond)), line, f)
        return Select(cond, then, orelse, e.dtype)
    if isinstance(e, Binary) and e.op in (BinaryOp.AND, BinaryOp.OR):
        left = _rewrite_expr(e.lhs, known, line, f)
        sure = left if e.op is BinaryOp.AND else negate(left)
        return Binary(e.op, left, _rewrite_expr(e.rhs, known.assuming(sure), line, f), e.dtype)
    parts = children(e)
    if parts:
        e = rebuild(e, tuple(_rewrite_expr(x, known, line, f) for x in parts))
    made: Expr = f(e, known, line)
    return made


def shape_of(name: str, found: list[Access]) -> Shape:
    """The dimensions of a buffer from all its accesses. Raises RefusalError.

    An array that is read has no more elements than its accesses show. To one that is only written nothing
    can happen behind them: no program writes where the original does not.
    """
    if not found:
        return Shape((ONE,), (ONE,))
    written = not any(a.reads for a in found)
    # The same access under the same conditions is proved once, however often the text has it.
    found = list({(a.flat, a.known): a for a in found}.values())
    fitting: list[Shape] = []
    for shape in _shapes(found):
        fitting.append(shape)
        shown = _shown(shape, found, written)
        if shown is not None:
            return shown
    if fitting and written:
        return fitting[0]
    why = "it cannot be written as subscripts that are proved to be within the dimensions of an array"
    if fitting:
        count = print_expr(expression(element_count(fitting[-1])))
        why = f"nothing shows that {name} has {count} elements: no access is sure to reach the last of them"
    raise RefusalError(found[0].line, f"subscript of {name}", why)


def _shapes(found: list[Access]) -> Iterator[Shape]:
    """Shapes that all accesses are within, those of most dimensions first."""
    candidates = _strides(found)
    for count in range(len(candidates), -1, -1):
        for chosen in combinations(candidates, count):
            yield from _try(found, (*chosen, ONE))


def _shown(shape: Shape, found: list[Access], written: bool) -> Shape | None:
    """The shape, if accesses show that the array has so many elements; `written`: it is only written."""
    touches = []
    for a in found:
        subs = subscripts(a.flat, shape.strides, a.known)
        assert subs is not None, "all accesses are within the shape"
        touches.append(Touch(unwrapped(subs, a.known), a.known, a.written))
    if written and are_boxes(touches, shape.extents):
        return shape
    assumed = not shows_all(touches, shape.extents)
    if assumed and not shows_rows(touches, shape.extents):
        return None
    return replace(shape, assumed=assumed, idle=not written and not are_always(touches))


def _strides(found: list[Access]) -> list[Poly]:
    """Candidate strides, largest first."""
    out: list[Poly] = []
    for a in found:
        loops = {n for n, _ in a.known.loops}
        for x in a.flat.atoms():
            if not (isinstance(x, Var) and x.name in loops) and not isinstance(x, Binary | Cast):
                continue
            parts = a.flat.coefficient(x)
            if parts is None or parts[0].names() & loops or parts[0].reads:
                continue
            slope = parts[0]
            if slope.terms and slope.terms[0][1] < 0:
                slope = -slope
            k = slope.constant
            if slope in out or (k is not None and k < _SMALLEST_CONSTANT_STRIDE):
                continue
            out.append(slope)
    out.sort(key=lambda p: (max(len(m) for m, _ in p.terms), p.terms[0][1], str(p.terms)), reverse=True)
    return out[:_MAX_STRIDES]


def _try(found: list[Access], strides: tuple[Poly, ...]) -> Iterator[Shape]:
    """Shapes of these strides that all accesses are within, if there are any."""
    inner: list[Poly] = []
    for big, small in pairwise(strides):
        quotient, rest = big.divide(small)
        if rest.terms or quotient.constant == 1:
            return
        inner.append(quotient)
    outer: Poly | None = None
    touches: list[Touch] = []
    for a in found:
        subs = subscripts(a.flat, strides, a.known)
        if subs is None or not nonnegative(subs[0], a.known):
            return
        top = _largest(subs[0], a.known)
        if top is None:
            return
        if len(strides) == 1:
            top = _guarded(top, a)
        outer = _larger(outer, top + ONE, a.known)
        touches.append(Touch(subs, a.known, a.written))
    assert outer is not None
    for end in dict.fromkeys((_whole(outer), outer)):
        yield Shape(strides, (end, *inner))
    last = farthest(touches)
    if last is not None:
        yield Shape(strides, (last + ONE, *inner))


def _guarded(top: Poly, a: Access) -> Poly:
    """The last place that an address reaches: at most where loops end, and where its own guards do."""
    plain = a.known.scalars
    for end in _guards(a):
        if nonnegative(end - top, plain):
            continue
        count = expression(end + ONE)
        if not nonnegative(end + ONE, plain):
            count = Binary(BinaryOp.MAX, count, index(0), DType.INDEX)
        both = Binary(BinaryOp.MIN, expression(top + ONE), count, DType.INDEX)
        top = end if nonnegative(top - end, plain) and nonnegative(end, plain) else polynomial(both) - ONE
    return top


def _guards(a: Access) -> list[Poly]:
    """The last places that guards of the address itself leave it."""
    loops = {n for n, _ in a.known.loops}
    ends = (a.flat + f for f in a.known.facts)
    return [end for end in ends if not end.names() & loops and not end.reads]


def subscripts(flat: Poly, strides: tuple[Poly, ...], known: Known) -> tuple[Poly, ...] | None:
    """The subscripts of an address; None when one is not proved to be within its extent."""
    out: list[Poly] = []
    rest = flat
    for stride in strides[:-1]:
        found = False
        for q, r in _divisions(rest, stride):
            if nonnegative(r, known) and positive(stride - r, known):
                out.append(q)
                rest, found = r, True
                break
        if not found:
            return None
    out.append(rest)
    return tuple(out)


def _divisions(p: Poly, stride: Poly) -> Iterator[tuple[Poly, Poly]]:
    """Quotients and remainders to try: the plain division, then the neighbours of its constant part."""
    q, r = p.divide(stride)
    yield q, r
    yield q + ONE, r - stride
    yield q - ONE, r + stride


def _largest(p: Poly, known: Known) -> Poly | None:
    """An upper bound of p over the loops, as a polynomial over the scalars."""
    loops = {n for n, _ in known.loops}
    best = _at_ends(p, known)
    plain = known.scalars
    for f in known.facts:
        bound = p + f
        if bound.names() & loops or bound.reads or not f.names() & loops:
            continue
        # A guard's bound may be negative where the guard never holds; the loops' bound is not.
        if best is None or (nonnegative(best - bound, plain) and nonnegative(bound, plain)):
            best = bound
    return best


def _at_ends(p: Poly, known: Known) -> Poly | None:
    for name, extent in reversed(known.loops):
        parts = p.coefficient(variable_atom(name))
        if parts is None:
            return None
        slope, rest = parts
        if not slope.terms:
            continue
        if nonnegative(slope, known, 0):
            p = rest + slope * (extent - ONE)
        elif nonnegative(-slope, known, 0):
            p = rest
        else:
            return None
    p = simplify(p, known)
    loops = {n for n, _ in known.loops}
    for a in sorted(p.atoms(), key=str):
        if isinstance(a, Binary) and (loops & variables(a) or reads(a)):
            return _opaque_at_end(p, a, known)
        top = known.largest(a)
        if top is not None:
            return _element_at_end(p, a, top, known)
    return None if p.names() & loops or p.reads else p


def _element_at_end(p: Poly, a: Expr, top: Poly, known: Known) -> Poly | None:
    """An upper bound of p, which an element of an index array is in."""
    parts = p.coefficient(a)
    if parts is None:
        return None
    slope, rest = parts
    if nonnegative(slope, known, 0):
        return _at_ends(rest + slope * top, known)
    return _at_ends(rest, known) if nonnegative(-slope, known, 0) else None


def _opaque_at_end(p: Poly, a: Binary, known: Known) -> Poly | None:
    """An upper bound of p, which grows with the opaque term `a`."""
    parts = p.coefficient(a)
    if parts is None or not nonnegative(parts[0], known, 0):
        return None
    x, y = polynomial(a.lhs), polynomial(a.rhs)
    if a.op is BinaryOp.FLOORDIV and positive(y, known):
        # y * floor(x / y) <= x; otherwise the quotient of the largest x.
        whole, rest = parts[0].divide(y)
        if not rest.terms:
            return _at_ends(parts[1] + whole * x, known)
        top = _at_ends(x, known)
        if top is None or y.names() & {n for n, _ in known.loops}:
            return None
        quotient = Binary(BinaryOp.FLOORDIV, expression(top), a.rhs, DType.INDEX)
        return _at_ends(parts[1] + parts[0] * polynomial(quotient), known)
    if a.op is BinaryOp.MOD:
        return _at_ends(parts[1] + parts[0] * (y - ONE), known)
    if a.op in (BinaryOp.MIN, BinaryOp.MAX):
        tops = [t for t in (_at_ends(x, known), _at_ends(y, known)) if t is not None]
        if a.op is BinaryOp.MAX and len(tops) == 2:
            return _at_ends(parts[1] + parts[0] * _larger(tops[0], tops[1], known), known)
        if a.op is BinaryOp.MIN and tops:
            plain = known.scalars
            top = tops[0] if nonnegative(tops[-1] - tops[0], plain) else tops[-1]
            return _at_ends(parts[1] + parts[0] * top, known)
    return None


def upper_bound(p: Poly, known: Known) -> Poly | None:
    """An upper bound of an index polynomial as a polynomial over the scalars, None when none is found."""
    return _largest(p, known)


def _larger(a: Poly | None, b: Poly, known: Known) -> Poly:
    plain = known.scalars
    if a is None or nonnegative(b - a, plain):
        return b
    if nonnegative(a - b, plain):
        return a
    return polynomial(Binary(BinaryOp.MAX, expression(a), expression(b), DType.INDEX))


def _whole(extent: Poly) -> Poly:
    """`cols - 1` elements of something that has `cols`: the array is taken to have the whole size."""
    for m, c in extent.terms:
        if len(m) == 1 and c == 1 and len(extent.terms) == 2:
            rest = extent - Poly(((m, c),))
            if rest.constant is not None and rest.constant < 0 and isinstance(m[0], Var):
                return Poly(((m, c),))
    return extent


def rewrite(block: Block, known: Known, shapes: dict[str, Shape]) -> Block:
    """Every flat address replaced by the subscripts of its buffer's shape."""

    def split(buffer: str, flat: Expr, k: Known) -> tuple[Expr, ...]:
        shape = shapes[buffer]
        subs = subscripts(polynomial(flat), shape.strides, k)
        assert subs is not None, "the shape was accepted for every access"
        return tuple(expression(x) for x in subs)

    def load(e: Expr, k: Known, line: int) -> Expr:
        if isinstance(e, Load) and e.buffer in shapes:
            return Load(e.buffer, split(e.buffer, e.indices[0], k), e.dtype)
        return e

    def go(b: Block, k: Known) -> Block:
        out: list[Stmt] = []
        for s in b.stmts:
            match s:
                case For():
                    extent = _rewrite_expr(s.extent, k, s.span.line if s.span else 0, load)
                    body = go(s.body, k.inside(s.var, polynomial(extent)))
                    out.append(For(s.var, extent, s.kind, body, span=s.span))
                case If():
                    then = go(s.body, k.assuming(s.cond))
                    out.append(If(s.cond, then, go(s.orelse, k.assuming(negate(s.cond))), s.span))
                case Store() | Reduce():
                    line = s.span.line if s.span else 0
                    value = _rewrite_expr(s.value, k, line, load)
                    indices = tuple(_rewrite_expr(i, k, line, load) for i in s.indices)
                    if s.buffer in shapes:
                        indices = split(s.buffer, indices[0], k)
                    out.append(replace(s, indices=indices, value=value))
                case Alloc():
                    out.append(s)
                case _:
                    out.append(s)
        return Block(tuple(out))

    return go(block, known)


def element_count(shape: Shape) -> Poly:
    """The number of elements of a buffer."""
    total = constant(1)
    for e in shape.extents:
        total = total * e
    return total
