"""Index expressions and conditions of the text, and of the kernel, in one form."""

from __future__ import annotations

from collections.abc import Mapping

from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Find, Load, Select, Unary, UnaryOp, Var
from evolve.ir.expr import Expr as Term
from evolve.ir.stmt import Buffer
from evolve.ir.types import DType
from evolve.validation.context import Context
from evolve.validation.formula import (
    FALSE,
    TRUE,
    Compare,
    Every,
    Formula,
    Opaque,
    Some,
    at_least,
    atoms,
    below,
    equal,
    negation,
)
from evolve.validation.polynomial import (
    Atom,
    Poly,
    atom,
    constant,
    exclusive_or,
    extreme,
    floor,
    variable,
)
from evolve.validation.state import AXES, GRID, Environment, Index, Parameter, Place, Shared, State
from evolve.validation.text import (
    Array,
    Builtin,
    Conditional,
    Convert,
    Element,
    Expr,
    Name,
    Number,
    Operation,
    type_of,
)
from evolve.validation.verdict import UnreadError
from evolve.validation.widths import NARROW

INTEGERS = (DType.I32, DType.I64, DType.U32, DType.U64, DType.U8)
_SIGNED = (DType.I32, DType.I64)


# ---- of the text


def index(st: State, e: Expr, place: Place) -> Poly:
    """An integer expression as a whole number.

    Under the launch condition nothing may be too large for its type, and what is unsigned must be known not
    to be negative. Raises UnreadError.
    """
    ctx = place.context
    e = st.resolved(e, place)
    match e:
        case Number() if isinstance(e.value, int):
            return constant(e.value)
        case Name():
            held = st.binding(e, place.line)
            if isinstance(held, Index):
                return held.value
        case Builtin():
            return _builtin(st, e, place)
        case Convert() if e.type in INTEGERS and type_of(e.arg) in INTEGERS:
            value = index(st, e.arg, place)
            _natural(value, e.type, ctx, place)
            if type_of(e.arg) is not e.type:
                check_fits(st, value, e.type, place)
            return value
        case Operation() if e.type in INTEGERS:
            args = [index(st, a, place) for a in e.args]
            value = _operation(st, e, args, place)
            _check_vanished(st, args, value.atoms(), place)
            _natural(value, e.type, ctx, place)
            check_fits(st, value, e.type, place)
            return value
        case Conditional() if isinstance(e.cond, Operation) and e.cond.args == (e.then, e.orelse):
            if e.cond.op in ("<", ">") and e.type in INTEGERS:
                a, b = index(st, e.then, place), index(st, e.orelse, place)
                return extreme("min" if e.cond.op == "<" else "max", a, b, ctx.ranges)
        case Element() if e.type in INTEGERS:
            held = st.binding(e.base, place.line)
            if isinstance(held, Parameter) and held.name in st.constants:
                return atom(Atom("read", held.name, (address(st, e, place),)))
        case _:
            pass
    raise UnreadError("an index of another form", place.line)


def _natural(value: Poly, dtype: object, ctx: Context, place: Place) -> None:
    if dtype not in _SIGNED and not ctx.holds(at_least(value, constant(0))):
        raise UnreadError("an unsigned number that may be below zero", place.line)


def check_fits(st: State, value: Poly, dtype: object, place: Place) -> None:
    """Raises UnreadError where a value may not fit a type of 32 bits or less."""
    ctx = place.context
    if dtype in NARROW and not st.widths.fits(value, ctx.ranges, DType(dtype), ctx.facts):
        raise UnreadError(f"{value.text} may not fit 32 bits", place.line)


def _builtin(st: State, e: Builtin, place: Place) -> Poly:
    if e.what in ("threadIdx", "blockDim") and st.is_warps:
        raise UnreadError(f"{e.what} where lanes have two coordinates", place.line)
    if e.what == "threadIdx":
        return variable(AXES[e.axis].value) if st.block[AXES[e.axis]] > 1 else constant(0)
    if e.what == "blockIdx":
        return st.block_index(GRID[e.axis])
    if e.what == "blockDim":
        return constant(st.block[AXES[e.axis]])
    return st.grid[GRID[e.axis]]


def _check_vanished(st: State, args: list[Poly], kept: set[Atom], place: Place) -> None:
    """What is read and does not count, as in `0 * x[i]`, must be there all the same."""
    for a in set().union(*(p.atoms() for p in args)) - kept:
        if a.kind == "read":
            check_readable(st, equal(Poly({(a,): 1}), constant(0)), place)


def _operation(st: State, e: Operation, args: list[Poly], place: Place) -> Poly:
    ctx = place.context
    match e.op, args:
        case "neg", [a]:
            return a.scale(-1)
        case "+", [a, b]:
            return a + b
        case "-", [a, b]:
            return a - b
        case "*", [a, b]:
            return a * b
        case "/", [a, b]:
            return ctx.quotient(a, b)
        case "%", [a, b]:
            return a - b * ctx.quotient(a, b)
        case "^", [a, b]:
            if ctx.holds(at_least(a, constant(0))) and ctx.holds(at_least(b, constant(0))):
                return exclusive_or(a, b, ctx.ranges)
        case _:
            pass
    raise UnreadError(f"operator {e.op} in an index", place.line)


def address(st: State, e: Element, place: Place) -> Poly:
    """Which element of the array, counted through all its dimensions."""
    indices = [index(st, i, place) for i in e.indices]
    held = st.binding(e.base, place.line)
    extents: tuple[int, ...] = (0,) * len(indices)
    if isinstance(held, Shared):
        assert isinstance(held.declaration.type, Array)
        extents = held.declaration.type.extents
    if len(extents) != len(indices) or (not isinstance(held, Shared) and len(indices) != 1):
        raise UnreadError(f"a part of {e.base.name}", place.line)
    out = constant(0)
    for n, i in zip(extents, indices, strict=True):
        out = out.scale(n) + i
    return out


def condition(st: State, e: Expr, place: Place) -> Formula:
    """A condition. What it says of data is Opaque."""
    match e:
        case Number():
            return TRUE if e.value else FALSE
        case Operation(op="&&"):
            return Every(tuple(condition(st, a, place) for a in e.args))
        case Operation(op="||"):
            return Some(tuple(condition(st, a, place) for a in e.args))
        case Operation(op="not"):
            return negation(condition(st, e.args[0], place))
        case Operation(op="<" | "<=" | ">" | ">=" | "==" | "!="):
            if all(type_of(a) in INTEGERS for a in e.args):
                try:
                    a, b = (index(st, x, place) for x in e.args)
                except UnreadError:
                    return Opaque()
                f = compared(e.op, a, b)
                _check_vanished(st, [a, b], atoms(f), place)
                return f
            return Opaque()
        case _:
            return Opaque()


def compared(op: str, a: Poly, b: Poly) -> Compare:
    return {
        "<": below(a, b),
        "<=": at_least(b, a),
        ">": below(b, a),
        ">=": at_least(a, b),
        "==": equal(a, b),
        "!=": Compare(a - b, "!="),
    }[op]


# ---- of the kernel


def kernel_index(st: State, e: Term, env: Environment, ctx: Context) -> Poly:
    """An INDEX expression. Raises UnreadError."""

    def of(x: Term) -> Poly:
        return kernel_index(st, x, env, ctx)

    match e:
        case Const() if isinstance(e.value, int):
            return constant(int(e.value))
        case Var():
            if e.name in env:
                return env[e.name]
            if e.name in st.sizes:
                return st.sizes[e.name]
        case Unary(op=UnaryOp.NEG):
            return of(e.arg).scale(-1)
        case Binary(op=BinaryOp.ADD):
            return of(e.lhs) + of(e.rhs)
        case Binary(op=BinaryOp.SUB):
            return of(e.lhs) - of(e.rhs)
        case Binary(op=BinaryOp.MUL):
            return of(e.lhs) * of(e.rhs)
        case Binary(op=BinaryOp.FLOORDIV) if e.dtype is DType.INDEX:
            return floor(of(e.lhs), of(e.rhs), ctx.ranges)
        case Binary(op=BinaryOp.MOD) if e.dtype is DType.INDEX:
            a, b = of(e.lhs), of(e.rhs)
            return a - b * floor(a, b, ctx.ranges)
        case Binary(op=BinaryOp.MIN) if e.dtype is DType.INDEX:
            return extreme("min", of(e.lhs), of(e.rhs), ctx.ranges)
        case Binary(op=BinaryOp.MAX) if e.dtype is DType.INDEX:
            return extreme("max", of(e.lhs), of(e.rhs), ctx.ranges)
        case Binary(op=BinaryOp.BIT_XOR) if e.dtype is DType.INDEX:
            return exclusive_or(of(e.lhs), of(e.rhs), ctx.ranges)
        case Cast(dtype=DType.INDEX):
            return of(e.arg)
        case Load() if e.buffer in st.constants and e.dtype in INTEGERS:
            flat = kernel_address(st, st.buffers[e.buffer], e.indices, env, ctx)
            return atom(Atom("read", e.buffer, (flat,)))
        case Find() | Select() | _:
            pass
    raise UnreadError("an index of the kernel of another form")


def kernel_address(st: State, b: Buffer, indices: tuple[Term, ...], env: Environment, ctx: Context) -> Poly:
    """Where the element lies in its array: row-major, padding and swizzle included."""
    where = list(indices)
    if b.swizzle is not None:
        where[-1] = b.swizzle.column(where[-2], where[-1])
    out = constant(0)
    for d, i in enumerate(where):
        n = kernel_index(st, b.extents[d], {}, ctx)
        out = out * n.plus(b.padding[d] if b.padding else 0) + kernel_index(st, i, env, ctx)
    return out


def kernel_condition(st: State, e: Term, env: Environment, ctx: Context) -> Formula:
    """A condition. What it says of data is Opaque."""
    match e:
        case Const():
            return TRUE if e.value else FALSE
        case Unary(op=UnaryOp.NOT):
            return negation(kernel_condition(st, e.arg, env, ctx))
        case Binary(op=BinaryOp.AND):
            return Every((kernel_condition(st, e.lhs, env, ctx), kernel_condition(st, e.rhs, env, ctx)))
        case Binary(op=BinaryOp.OR):
            return Some((kernel_condition(st, e.lhs, env, ctx), kernel_condition(st, e.rhs, env, ctx)))
        case Binary() if e.op.is_comparison and (e.lhs.dtype is DType.INDEX or _is_plain(e)):
            try:
                a, b = (kernel_index(st, x, env, ctx) for x in (e.lhs, e.rhs))
            except UnreadError:
                return Opaque()
            return compared(e.op.value, a, b)
        case _:
            return Opaque()


def _is_plain(e: Binary) -> bool:
    """Whether integers are compared with nothing done to them that could wrap around."""
    return all(isinstance(x, Const | Load) and x.dtype in INTEGERS for x in (e.lhs, e.rhs))


def check_readable(st: State, f: Formula, place: Place) -> None:
    """Raises UnreadError where a condition reads elements that may not be there."""
    for a in atoms(f):
        if a.kind != "read":
            continue
        (at,) = a.of
        length = constant(1)
        for x in st.buffers[a.label].extents:
            length = length * kernel_index(st, x, {}, place.context)
        inside = Every((at_least(at, constant(0)), below(at, length)))
        if not place.context.holds(inside):
            raise UnreadError(f"a condition that reads {a.label}, which may end before", place.line)


def shared_elements(st: State, b: Buffer, ctx: Context) -> int | None:
    """Elements of a buffer with its padding, where they are a constant number."""
    out = 1
    for d, x in enumerate(b.extents):
        n = kernel_index(st, x, {}, ctx).value
        if n is None:
            return None
        out *= n + (b.padding[d] if b.padding else 0)
    return out


def constant_extents(st: State, b: Buffer, env: Mapping[str, Poly], ctx: Context) -> tuple[int, ...]:
    """Raises UnreadError for an extent that is not constant."""
    out = []
    for x in b.extents:
        n = kernel_index(st, x, env, ctx).value
        if n is None:
            raise UnreadError(f"an extent of {b.name} is not constant")
        out.append(n)
    return tuple(out)
