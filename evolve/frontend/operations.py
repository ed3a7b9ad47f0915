"""C's operators on the values of one thread, and choices between values."""

from __future__ import annotations

from collections.abc import Callable

from evolve.frontend.ctree import CType
from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial
from evolve.frontend.prove import negate
from evolve.frontend.refuse import RefusalError
from evolve.frontend.values import (
    INTEGERS,
    Arr,
    Data,
    Duty,
    Either,
    Int,
    Ptr,
    Threads,
    Unknown,
    Value,
    as_data,
    distribute,
    given,
    guarded,
    selected,
)
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Unary, UnaryOp, compare, decide
from evolve.ir.types import DType
from evolve.ir.visit import loads

_MAX_TERMS = 400
_MAX_ALTERNATIVES = 16


def integer_operation(op: str, a: Int, b: Int, type_: DType, threads: Threads, line: int) -> Int | None:
    """An arithmetic operator on integers of a common type; None where only data arithmetic will do."""
    duties = a.duties | b.duties
    k = b.poly.constant
    if op == "+":
        p = a.poly + b.poly
    elif op == "-":
        p = a.poly - b.poly
    elif op == "*":
        if len(a.poly.terms) * len(b.poly.terms) > _MAX_TERMS:
            raise RefusalError(line, "operator *", f"the index arithmetic has more than {_MAX_TERMS} terms")
        p = a.poly * b.poly
    elif op == "<<" and k is not None and 0 <= k < 32:
        p = a.poly * constant(2**k)
    elif op in ("/", "%") or (op == ">>" and k is not None and 0 <= k < 32):
        divisor = b.poly if op != ">>" else constant(2 ** (k or 0))
        ir = BinaryOp.MOD if op == "%" else BinaryOp.FLOORDIV
        x = threads.normal(a.poly)
        must = {
            Duty(x, 0, None, True, line, f"operator {op}"),
            Duty(divisor, 1, None, True, line, f"operator {op}"),
        }
        quotient = polynomial(Binary(ir, expression(x), expression(divisor), DType.INDEX))
        return Int(quotient, type_, duties | must)
    elif op == "&" and k is not None and k > 0 and k & (k + 1) == 0:
        x = threads.normal(a.poly)
        duty = Duty(x, 0, None, True, line, "operator &")
        masked = Binary(BinaryOp.MOD, expression(x), expression(constant(k + 1)), DType.INDEX)
        return Int(polynomial(masked), type_, duties | {duty})
    else:
        return None
    p = threads.normal(p)
    low, high = type_.limits
    if p.constant is not None and low <= p.constant <= high:
        return Int(p, type_, duties)
    return Int(
        p, type_, duties | {Duty(p, low, high, type_ in (DType.U32, DType.U64), line, f"operator {op}")}
    )


_COMPARE = {
    "<": BinaryOp.LT,
    "<=": BinaryOp.LE,
    ">": BinaryOp.GT,
    ">=": BinaryOp.GE,
    "==": BinaryOp.EQ,
    "!=": BinaryOp.NE,
}
_ARITHMETIC = {
    "+": BinaryOp.ADD,
    "-": BinaryOp.SUB,
    "*": BinaryOp.MUL,
    "/": BinaryOp.DIV,
    "%": BinaryOp.REM,
    "&": BinaryOp.BIT_AND,
    "|": BinaryOp.BIT_OR,
    "^": BinaryOp.BIT_XOR,
    "<<": BinaryOp.SHL,
    ">>": BinaryOp.SHR,
}


def operation(op: str, a: Value, b: Value, type_: CType, threads: Threads, line: int) -> Value:
    """A binary operator on two values of C's common type."""
    for v in (a, b):
        if isinstance(v, Either):
            return _choice_operation(op, v, a, b, type_, threads, line)
    if isinstance(a, Ptr) or isinstance(b, Ptr):
        return _pointer_operation(op, a, b, threads, line)
    if isinstance(a, Int) and isinstance(b, Int):
        if op in _COMPARE:
            x, y = expression(threads.normal(a.poly)), expression(threads.normal(b.poly))
            return Data(compare(_COMPARE[op], x, y), a.duties | b.duties)
        if isinstance(type_, DType) and type_ in INTEGERS:
            made = integer_operation(op, a, b, type_, threads, line)
            if made is not None:
                return made
    x_data, y_data = as_data(a, line), as_data(b, line)
    if op in ("&&", "||"):
        evaluated = x_data.expr if op == "&&" else negate(x_data.expr)
        y_data = Data(y_data.expr, given(y_data.duties, evaluated))
    duties = x_data.duties | y_data.duties
    if op in ("&&", "||"):
        ir = BinaryOp.AND if op == "&&" else BinaryOp.OR
        return Data(Binary(ir, x_data.expr, y_data.expr, DType.BOOL), duties)
    if op in _COMPARE:
        left, right = x_data.expr, y_data.expr
        if isinstance(left, Const) and isinstance(right, Const):
            return Data(Const(decide(_COMPARE[op], left.value, right.value), DType.BOOL), duties)
        return Data(Binary(_COMPARE[op], left, right, DType.BOOL), duties)
    if op not in _ARITHMETIC or not isinstance(type_, DType):
        raise RefusalError(line, f"operator {op}", "it is not supported on these operands")
    return Data(Binary(_ARITHMETIC[op], x_data.expr, y_data.expr, type_), duties)


def _choice_operation(
    op: str, v: Either, a: Value, b: Value, type_: CType, threads: Threads, line: int
) -> Value:
    """An operator on both sides of a choice."""
    if op in ("&&", "||"):
        return operation(op, as_data(a, line), as_data(b, line), type_, threads, line)

    def side(of: Value, then: bool) -> Value:
        if isinstance(of, Either) and of.cond.expr == v.cond.expr:
            return of.then if then else of.orelse
        return of

    first = operation(op, side(a, True), side(b, True), type_, threads, line)
    second = operation(op, side(a, False), side(b, False), type_, threads, line)
    return _either(v.cond, first, second, line)


def _either(cond: Data, a: Value, b: Value, line: int) -> Value:
    """A choice between integers or pointers as long as it stays small, else one between data."""
    a, b = guarded(a, cond.expr), guarded(b, negate(cond.expr))
    kept = all(isinstance(x, Int | Ptr | Either) for x in (a, b)) and not loads(cond.expr)
    if kept and _alternatives(a) + _alternatives(b) <= _MAX_ALTERNATIVES:
        return Either(cond, a, b)
    return selected(cond, as_data(a, line), as_data(b, line))


def _alternatives(v: Value) -> int:
    return _alternatives(v.then) + _alternatives(v.orelse) if isinstance(v, Either) else 1


def _pointer_operation(op: str, a: Value, b: Value, threads: Threads, line: int) -> Value:
    if op == "+" and isinstance(a, Int) and isinstance(b, Ptr):
        a, b = b, a
    if op in ("+", "-") and isinstance(a, Ptr) and isinstance(b, Int):
        q = threads.normal(a.offset.poly + b.poly if op == "+" else a.offset.poly - b.poly)
        return Ptr(a.buffer, Int(q, DType.I64, a.offset.duties | b.duties), a.element)
    raise RefusalError(line, f"operator {op} on pointers", "only pointer + integer is supported")


def negation(v: Value, type_: CType, line: int) -> Value:
    """Unary minus."""
    if isinstance(v, Either):
        return distribute(v, lambda x: negation(x, type_, line))
    if isinstance(v, Int) and isinstance(type_, DType):
        low, high = type_.limits if type_ in INTEGERS else (None, None)
        unsigned = type_ in (DType.U32, DType.U64)
        return Int(-v.poly, type_, v.duties | {Duty(-v.poly, low, high, unsigned, line, "unary -")})
    d = as_data(v, line)
    if isinstance(d.expr, Const):
        return Data(Const(-d.expr.value, d.type), d.duties)
    return Data(Unary(UnaryOp.NEG, d.expr, d.type), d.duties)


def choose(cond: Data, a: Value, b: Value, line: int) -> Value:
    """`cond ? a : b`."""
    if a == b:
        return a
    if isinstance(cond.expr, Const):
        return a if cond.expr.value else b
    if isinstance(a, Int) and isinstance(b, Int):
        extreme = _min_or_max(cond.expr, a.poly, b.poly)
        if extreme is not None:
            return Int(extreme, a.type, cond.duties | a.duties | b.duties)
    if isinstance(a, Unknown | Arr) or isinstance(b, Unknown | Arr):
        return Unknown("it differs between the sides of a condition")
    if (isinstance(a, Ptr) or isinstance(b, Ptr)) and loads(cond.expr):
        return Unknown("a condition that reads memory chooses between pointers")
    return _either(cond, a, b, line)


def _min_or_max(cond: Expr, a: Poly, b: Poly) -> Poly | None:
    if not (isinstance(cond, Binary) and cond.op.is_comparison and cond.lhs.dtype is DType.INDEX):
        return None
    d = polynomial(cond.lhs) - polynomial(cond.rhs)
    less = cond.op in (BinaryOp.LT, BinaryOp.LE)
    if not less and cond.op not in (BinaryOp.GT, BinaryOp.GE):
        return None
    # `d < 0` and `d <= 0` choose the same value when a - b is d, or d up to the one step that
    # separates < from <=.
    slack = (Poly(()), ONE, -ONE)
    difference = a - b
    tie_safe: Callable[[Poly], bool] = lambda e: any(e == s for s in slack)  # noqa: E731
    if tie_safe(difference - d) and _exact(cond.op, difference - d):
        op = BinaryOp.MIN if less else BinaryOp.MAX
    elif tie_safe(difference + d) and _exact(cond.op, -(difference + d)):
        op = BinaryOp.MAX if less else BinaryOp.MIN
    else:
        return None
    return polynomial(Binary(op, expression(a), expression(b), DType.INDEX))


def _exact(op: BinaryOp, shift: Poly) -> bool:
    """Whether the sign test on d agrees with that on a - b, which is d + shift."""
    k = shift.constant
    if k == 0:
        return True
    # d < 0 with a - b = d + 1 means a - b <= 0;  d <= 0 with a - b = d - 1 means a - b < 0; and mirrored.
    return (op is BinaryOp.LT and k == 1) or (op is BinaryOp.LE and k == -1) or (
        op is BinaryOp.GT and k == -1) or (op is BinaryOp.GE and k == 1)  # fmt: skip
