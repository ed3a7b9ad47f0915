"""Serial execution of IR of any form, for tests.

Every loop kind runs 0..extent-1 in order, a combine loop is a plain loop, a barrier does nothing, a
distributed register buffer is one array of its logical extents. Floats are Python floats (binary64),
so two legal schedules of one kernel agree to about 1e-12. Out-of-range subscripts and reads of
cells that were never written raise, with the statement's text. `exact` computes with fractions instead:
then reassociation changes nothing at all, and `exp` is 2**x at whole x, which has the same algebra.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Find, Load, Select, Unary, UnaryOp, Var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import Alloc, Barrier, Block, Boundary, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import map_block_exprs, map_expr


class InterpreterError(Exception):
    """The kernel does something undefined."""


class AssumptionError(InterpreterError):
    """The kernel was run on scalars that its assumptions exclude."""


_NUMPY = {
    DType.F32: np.float64,
    DType.F64: np.float64,
    DType.I32: np.int32,
    DType.U32: np.uint32,
    DType.I64: np.int64,
    DType.U64: np.uint64,
    DType.U8: np.uint8,
    DType.BOOL: np.bool_,
}


def run(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, int | float],
    *,
    exact: bool = False,
) -> dict[str, np.ndarray]:
    """All global arrays after the kernel ran.

    `arrays` gives initial contents by name (not changed); an array not given starts undefined: a cell
    of it that was not written reads as NaN in the result (0 for integers) and raises inside the kernel.
    `exact`: arrays of floats hold fractions, and so do those given back.
    """
    if exact:
        kernel = replace(kernel, body=map_block_exprs(kernel.body, lambda e: map_expr(e, _fraction)))
    values = {s.name: scalars[s.name] for s in kernel.scalars}
    for fact in kernel.assumptions:
        if not eval(_expr(fact), {**_HELPERS, **{_name(k): v for k, v in values.items()}}):
            raise AssumptionError(f"{kernel.name}: an assumption does not hold for {values}")
    code = _Code()
    code.kernel(kernel)
    space: dict[str, Any] = {**_HELPERS, **(_EXACT if exact else {})}
    space |= {_name(k): v for k, v in values.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    for b in kernel.buffers:
        shape = tuple(eval(_expr(e), space) for e in b.extents)
        shapes[b.name] = shape
        cells: dict[tuple[int, ...], Any] = {}
        given = arrays.get(b.name)
        if given is not None:
            if given.shape != shape:
                raise InterpreterError(f"{b.name} has shape {given.shape}, the kernel wants {shape}")
            cells = dict(zip(np.ndindex(*shape), given.reshape(-1).tolist(), strict=True))
        space[_buffer(b.name)] = _Array(b.name, shape, cells)
    exec(compile("\n".join(code.lines), kernel.name, "exec"), space)
    try:
        space["body"]()
    except _BadAccessError as e:
        at = code.statements[e.site] if e.site is not None else "?"
        raise InterpreterError(f"{e} in `{at}`") from None
    out: dict[str, np.ndarray] = {}
    for b in kernel.buffers:
        floating = b.dtype.is_float
        dtype = object if exact and floating else _NUMPY[b.dtype]
        result = np.full(shapes[b.name], math.nan if floating else 0, dtype=dtype)
        for i, v in space[_buffer(b.name)].cells.items():
            result[i] = v
        out[b.name] = result
    return out


def _fraction(e: Expr) -> Expr:
    if isinstance(e, Const) and e.dtype.is_float and math.isfinite(e.value):
        return Const(Fraction(e.value), e.dtype)  # type: ignore[arg-type]
    return e


def _power_of_two(a: Fraction | float) -> Fraction:
    if a == -math.inf:
        return Fraction(0)
    assert a == int(a)
    return Fraction(2) ** int(a)


class _BadAccessError(Exception):
    site: int | None = None


class _Array:
    __slots__ = ("cells", "name", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], cells: dict[tuple[int, ...], Any]) -> None:
        self.name, self.shape, self.cells = name, shape, cells

    def get(self, i: tuple[int, ...]) -> Any:
        try:
            return self.cells[i]
        except KeyError:
            self.check(i)
            raise _BadAccessError(f"read of {self.name}{list(i)} before it is written") from None

    def put(self, i: tuple[int, ...], v: Any) -> None:
        if i not in self.cells:
            self.check(i)
        self.cells[i] = v

    def check(self, i: tuple[int, ...]) -> None:
        if not all(0 <= x < n for x, n in zip(i, self.shape, strict=True)):
            raise _BadAccessError(f"subscript {list(i)} of {self.name} is outside {list(self.shape)}")


def _name(n: str) -> str:
    return "v_" + n.replace("_", "__").replace(".", "_d_")


def _buffer(n: str) -> str:
    return "b_" + n.replace("_", "__").replace(".", "_d_")


def _wrap(v: int, bits: int, signed: bool) -> int:
    v &= (1 << bits) - 1
    return v - (1 << bits) if signed and v >> (bits - 1) else v


def _cdiv(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a >= 0) == (b >= 0) else -q


def _find(array: _Array, value: int) -> int:
    """Where the value falls; it must fall somewhere."""
    return next(r for r in count() if array.get((r,)) <= value < array.get((r + 1,)))


def _fdiv(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _fmin(a: float, b: float) -> float:
    return b if a != a else a if b != b else min(a, b)


def _fmax(a: float, b: float) -> float:
    return b if a != a else a if b != b else max(a, b)


def _exp(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def _sqrt(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


_HELPERS: dict[str, Any] = {
    "_wrap": _wrap,
    "_cdiv": _cdiv,
    "_fdiv": _fdiv,
    "_fmin": _fmin,
    "_find": _find,
    "_fmax": _fmax,
    "_BadAccessError": _BadAccessError,
    "_Array": _Array,
    "inf": math.inf,
    "nan": math.nan,
}
_FUNCTIONS: dict[str, Any] = {
    "exp": _exp,
    "exp2": lambda a: 2.0**a,
    "log": lambda a: math.log(a) if a > 0 else (-math.inf if a == 0 else math.nan),
    "log2": lambda a: math.log2(a) if a > 0 else (-math.inf if a == 0 else math.nan),
    "log1p": math.log1p,
    "expm1": math.expm1,
    "sqrt": _sqrt,
    "rsqrt": lambda a: _fdiv(1.0, _sqrt(a)),
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "pow": lambda a, b: float(np.power(a, b)),
    "fabs": abs,
    "floor": lambda a: float(math.floor(a)),
    "ceil": lambda a: float(math.ceil(a)),
    "fma": lambda a, b, c: a * b + c,
    "copysign": math.copysign,
    "trunc": lambda a: float(np.trunc(a)),
    "round": lambda a: float(np.trunc(a + math.copysign(0.5, a))) if abs(a) < 2**23 else a,
    "rint": lambda a: float(np.rint(a)),
    "fmod": lambda a, b: float(np.fmod(a, b)),
    "exp10": lambda a: 10.0**a,
    "log10": lambda a: float(np.log10(a)),
    "cbrt": lambda a: float(np.cbrt(a)),
    "hypot": math.hypot,
    "erfc": math.erfc,
    "tan": math.tan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asin": lambda a: float(np.arcsin(a)),
    "acos": lambda a: float(np.arccos(a)),
    "atan": math.atan,
    "atan2": math.atan2,
}
_FUNCTIONS |= {f"fast_{n}": _FUNCTIONS[n] for n in ("exp", "log", "sin", "cos", "pow")}
_FUNCTIONS["fast_div"] = _fdiv
_HELPERS |= {f"f_{n}": f for n, f in _FUNCTIONS.items()}
_EXACT: dict[str, Any] = {"Fraction": Fraction, "float": Fraction, "f_exp": _power_of_two}


def _signed(t: DType) -> bool:
    return t in (DType.I32, DType.I64)


def _is_int(t: DType) -> bool:
    return t in (DType.U8, DType.I32, DType.U32, DType.I64, DType.U64)


def _fit(text: str, t: DType) -> str:
    return f"_wrap({text}, {8 * t.size}, {_signed(t)})" if _is_int(t) else text


def _combine(name: str, a: str, b: str, t: DType) -> str:
    if name in ("min", "max"):
        return f"_f{name}({a}, {b})" if t.is_float else f"{name}({a}, {b})"
    return _fit(f"({a} {'+' if name == 'sum' else '*'} {b})", t)


def _binary(e: Binary) -> str:
    a, b, t = _expr(e.lhs), _expr(e.rhs), e.dtype
    op = e.op
    if op in (BinaryOp.MIN, BinaryOp.MAX):
        return f"_f{op.value}({a}, {b})" if t.is_float else f"{op.value}({a}, {b})"
    if op is BinaryOp.DIV:
        return f"_fdiv({a}, {b})" if t.is_float else _fit(f"_cdiv({a}, {b})", t)
    if op is BinaryOp.REM:
        return f"({a} - _cdiv({a}, {b}) * {b})"
    if op is BinaryOp.MOD:
        return f"({a} % {b})"
    return _fit(f"({a} {op.value} {b})", t)


def _expr(e: Expr) -> str:
    match e:
        case Const():
            return f"({e.value!r})"
        case Var():
            return _name(e.name)
        case Load():
            return f"{_buffer(e.buffer)}.get(({''.join(_expr(i) + ', ' for i in e.indices)}))"
        case Binary():
            return _binary(e)
        case Unary():
            if e.op is UnaryOp.NOT:
                return f"(not {_expr(e.arg)})"
            return _fit(f"({e.op.value}{_expr(e.arg)})", e.dtype)
        case Call():
            return f"f_{e.fn}({', '.join(map(_expr, e.args))})"
        case Select():
            return f"({_expr(e.then)} if {_expr(e.cond)} else {_expr(e.orelse)})"
        case Find():
            return f"_find({_buffer(e.buffer)}, {_expr(e.value)})"
        case Cast():
            inner = _expr(e.arg)
            if e.dtype.is_float:
                return f"float({inner})"
            if e.dtype is DType.BOOL:
                return f"bool({inner})"
            return f"int({inner})" if e.dtype is DType.INDEX else _fit(f"int({inner})", e.dtype)


class _Code:
    """The kernel as Python source. `statements[i]` is the text of leaf i, for messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.statements: list[str] = []

    def kernel(self, k: Kernel) -> None:
        self.lines.append("def body():")
        self.block(k.body, 1, {b.name: b.dtype for b in k.buffers})

    def block(self, b: Block, depth: int, types: dict[str, DType]) -> None:
        types = dict(types)
        pad = " " * depth
        if not b.stmts:
            self.lines.append(f"{pad}pass")
        for s in b.stmts:
            self.stmt(s, depth, types)

    def stmt(self, s: Stmt, depth: int, types: dict[str, DType]) -> None:
        pad = " " * depth
        match s:
            case Block():
                self.block(s, depth, types)
            case For():
                self.lines.append(f"{pad}for {_name(s.var)} in range({_expr(s.extent)}):")
                self.block(s.body, depth + 1, types)
            case If():
                self.lines.append(f"{pad}if {_expr(s.cond)}:")
                self.block(s.body, depth + 1, types)
                self.lines.append(f"{pad}else:")
                self.block(s.orelse, depth + 1, types)
            case Alloc():
                b = s.buffer
                types[b.name] = b.dtype
                shape = "".join(_expr(x) + ", " for x in b.extents)
                self.lines.append(f"{pad}{_buffer(b.name)} = _Array({b.name!r}, ({shape}), {{}})")
            case Barrier() | Boundary():
                self.lines.append(f"{pad}pass")
            case Store() | Reduce():
                site = len(self.statements)
                self.statements.append(print_stmt(s))
                index = f"({''.join(_expr(i) + ', ' for i in s.indices)})"
                value = _expr(s.value)
                target = _buffer(s.buffer)
                if isinstance(s, Reduce):
                    value = _combine(s.monoid.name, f"{target}.get({index})", value, types[s.buffer])
                self.lines.append(f"{pad}try: {target}.put({index}, {value})")
                self.lines.append(f"{pad}except _BadAccessError as e: e.site = {site}; raise")
