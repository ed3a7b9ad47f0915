"""Telling sizes from data among the integer parameters.

A size takes part in subscripts, loop bounds or comparisons with indices; it is INDEX in the body and
at least 1. The others (flags, thresholds, constants that are added to data) keep their C type and may
have any value.
"""

from __future__ import annotations

from evolve.frontend.variables import Thread
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Var
from evolve.ir.kernel import Scalar
from evolve.ir.stmt import Alloc, Block, For, If, Reduce, Store
from evolve.ir.types import DType
from evolve.ir.visit import children, map_stmt_exprs, rebuild, subexpressions, variables, walk


def separate(thread: Thread, launch_names: frozenset[str] = frozenset()) -> frozenset[str]:
    """Settle which integer parameters are sizes, and turn what only the others decide into data.

    `launch_names` are the parameters that the file's launch is computed from: sizes too.
    Changes `thread.body` and `thread.scalars`; returns the names of the sizes.
    """
    integers = {s.name: s.dtype for s in thread.scalars if not s.dtype.is_float and s.dtype is not DType.BOOL}
    sizes = _sizes(thread, frozenset(integers), launch_names)
    data: dict[str, DType] = {n: t for n, t in integers.items() if n not in sizes}
    thread.body = [map_stmt_exprs(s, lambda e: _as_data(e, data)) for s in thread.body]
    thread.scalars = [Scalar(s.name, s.dtype, s.name in sizes) for s in thread.scalars]
    return sizes


def _sizes(thread: Thread, integers: frozenset[str], given: frozenset[str]) -> frozenset[str]:
    found: set[str] = set(given)
    together: list[frozenset[str]] = []
    for e in _index_parts(thread):
        names = variables(e)
        if isinstance(e, Binary) and e.op.is_comparison:
            if any(_runs(n) for n in names):
                found |= names
            else:
                together.append(names)
        elif isinstance(e, Cast):
            if any(_runs(n) for n in names):
                found |= names
            elif not isinstance(e.arg, Var):
                together.append(names)
        else:
            found |= names
    changed = True
    while changed:
        changed = False
        for names in together:
            if names & found and not names <= found:
                found |= names
                changed = True
    return frozenset(found & integers)


def _runs(name: str) -> bool:
    """Whether a name is that of a thread index or a loop variable."""
    return name.startswith("$") or "#" in name


def _index_parts(thread: Thread) -> list[Expr]:
    """Subscripts and extents, and the comparisons and casts of INDEX expressions."""
    out: list[Expr] = []
    for site in walk(Block(tuple(thread.body))):
        s = site.stmt
        if isinstance(s, For):
            out.append(s.extent)
        elif isinstance(s, Alloc):
            out.extend(s.buffer.extents)
        elif isinstance(s, Store | Reduce):
            out.extend(s.indices)
        whole = s.cond if isinstance(s, If) else s.value if isinstance(s, Store | Reduce) else None
        if whole is not None:
            out.extend(_within(whole))
    return out


def _within(e: Expr) -> list[Expr]:
    out: list[Expr] = []
    for x in subexpressions(e):
        if isinstance(x, Load):
            out.extend(x.indices)
        elif _decides(x):
            out.append(x)
    return out


def _decides(x: Expr) -> bool:
    if isinstance(x, Cast):
        return x.arg.dtype is DType.INDEX
    return isinstance(x, Binary) and x.op.is_comparison and x.lhs.dtype is DType.INDEX


def _as_data(e: Expr, data: dict[str, DType]) -> Expr:
    """Comparisons and casts that only data scalars decide, in data arithmetic."""
    if isinstance(e, Binary) and e.op.is_comparison and e.lhs.dtype is DType.INDEX:
        names = variables(e)
        if names and names <= data.keys():
            t = _width(names, data)
            return Binary(e.op, _arithmetic(e.lhs, t, data), _arithmetic(e.rhs, t, data), DType.BOOL)
        return e
    if isinstance(e, Cast) and e.arg.dtype is DType.INDEX:
        names = variables(e.arg)
        if not names or not names <= data.keys():
            return e
        if isinstance(e.arg, Var):
            inner: Expr = Var(e.arg.name, data[e.arg.name])
        else:
            inner = _arithmetic(e.arg, _width(names, data), data)
        return inner if inner.dtype is e.dtype else Cast(inner, e.dtype)
    if e.dtype is DType.INDEX:
        return e
    parts = children(e)
    return rebuild(e, tuple(_as_data(x, data) for x in parts)) if parts else e


def _width(names: frozenset[str], data: dict[str, DType]) -> DType:
    return DType.I32 if all(data[n] is DType.I32 for n in names) else DType.I64


_DATA_OPERATORS = {BinaryOp.FLOORDIV: BinaryOp.DIV, BinaryOp.MOD: BinaryOp.REM}


def _arithmetic(e: Expr, t: DType, data: dict[str, DType]) -> Expr:
    match e:
        case Const():
            return Const(int(e.value), t)
        case Var():
            v = Var(e.name, data[e.name])
            return v if data[e.name] is t else Cast(v, t)
        case Binary():
            # Divisions owe that their operands are not negative, where C's and floor's agree.
            op = _DATA_OPERATORS.get(e.op, e.op)
            return Binary(op, _arithmetic(e.lhs, t, data), _arithmetic(e.rhs, t, data), t)
        case _:
            return Cast(e, t)
