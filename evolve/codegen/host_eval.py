"""Evaluates guards, grids and extents on the host, in exact integers."""

from __future__ import annotations

from collections.abc import Mapping

from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Select, Unary, UnaryOp, Var
from evolve.ir.printer import print_expr

Number = int | float | bool


def evaluate(e: Expr, scalars: Mapping[str, Number]) -> Number:
    """The value of an expression over the scalars.

    Raises KeyError for a scalar without a value and ValueError for what no host can evaluate.
    """
    match e:
        case Const():
            return e.value
        case Var():
            return scalars[e.name]
        case Unary(op=UnaryOp.NEG):
            return -evaluate(e.arg, scalars)
        case Unary(op=UnaryOp.NOT):
            return not evaluate(e.arg, scalars)
        case Cast():
            value = evaluate(e.arg, scalars)
            return float(value) if e.dtype.is_float else int(value)
        case Select():
            return evaluate(e.then if evaluate(e.cond, scalars) else e.orelse, scalars)
        case Binary(op=BinaryOp.AND):
            return bool(evaluate(e.lhs, scalars)) and bool(evaluate(e.rhs, scalars))
        case Binary(op=BinaryOp.OR):
            return bool(evaluate(e.lhs, scalars)) or bool(evaluate(e.rhs, scalars))
        case Binary():
            return _binary(e, evaluate(e.lhs, scalars), evaluate(e.rhs, scalars))
        case _:
            raise ValueError(f"{print_expr(e)} cannot be evaluated on the host")


def _binary(e: Binary, a: Number, b: Number) -> Number:
    match e.op:
        case BinaryOp.ADD:
            return a + b
        case BinaryOp.SUB:
            return a - b
        case BinaryOp.MUL:
            return a * b
        case BinaryOp.FLOORDIV:
            return a // b
        case BinaryOp.MOD:
            return a % b
        case BinaryOp.DIV if e.dtype.is_float:
            return a / b
        case BinaryOp.DIV:
            return abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
        case BinaryOp.REM:
            return abs(int(a)) % abs(int(b)) * (1 if a >= 0 else -1)
        case BinaryOp.MIN:
            return min(a, b)
        case BinaryOp.MAX:
            return max(a, b)
        case BinaryOp.LT:
            return a < b
        case BinaryOp.LE:
            return a <= b
        case BinaryOp.GT:
            return a > b
        case BinaryOp.GE:
            return a >= b
        case BinaryOp.EQ:
            return a == b
        case BinaryOp.NE:
            return a != b
        case _:
            raise ValueError(f"{print_expr(e)} cannot be evaluated on the host")
