"""Size expressions: integer arithmetic over scalar parameters, as text and as IR."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from evolve.ir.errors import EvolveError
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Unary, UnaryOp, Var, compare, index, var
from evolve.ir.printer import print_expr
from evolve.ir.types import DType

_MAX_LENGTH = 1000
_OPERATORS: dict[type[ast.operator], BinaryOp] = {
    ast.Add: BinaryOp.ADD,
    ast.Sub: BinaryOp.SUB,
    ast.Mult: BinaryOp.MUL,
    ast.FloorDiv: BinaryOp.FLOORDIV,
    ast.Div: BinaryOp.FLOORDIV,
    ast.Mod: BinaryOp.MOD,
}


def parse_size(text: str | int) -> Expr:
    """An INDEX expression from text such as `rows * (cols + 1)`; `/` is floor division.

    Raises EvolveError bad-size.
    """
    if isinstance(text, int):
        return index(text)
    if len(text) > _MAX_LENGTH:
        raise EvolveError("bad-size", f"a size expression is longer than {_MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EvolveError("bad-size", f"`{text}` is not a size expression") from error
    return _read(tree.body, text)


def _read(node: ast.expr, text: str) -> Expr:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return index(value)
        case ast.Name(id=name):
            return var(name)
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            lhs, rhs = _read(node.left, text), _read(node.right, text)
            return Binary(_OPERATORS[type(op)], lhs, rhs, DType.INDEX)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return Binary(BinaryOp.SUB, index(0), _read(inner, text), DType.INDEX)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[a, b], keywords=[]):
            op_ = BinaryOp.MIN if name == "min" else BinaryOp.MAX
            return Binary(op_, _read(a, text), _read(b, text), DType.INDEX)
        case _:
            raise EvolveError(
                "bad-size", f"`{text}` is not a size expression", hint="integers, names, + - * / % min max"
            )


def size_text(e: Expr) -> str:
    """The text that `parse_size` reads back."""
    return print_expr(e).replace(" mod ", " % ")


def evaluate(e: Expr, sizes: Mapping[str, int | float]) -> int | float | bool:
    """The value of an INDEX, BOOL or scalar expression. Raises EvolveError unknown-scalar, bad-size."""
    match e:
        case Const():
            return e.value
        case Var():
            if e.name not in sizes:
                raise EvolveError("unknown-scalar", f"there is no value for {e.name}")
            return sizes[e.name]
        case Cast():
            value = evaluate(e.arg, sizes)
            return float(value) if e.dtype.is_float else int(value)
        case Unary(op=UnaryOp.NOT):
            return not evaluate(e.arg, sizes)
        case Unary(op=UnaryOp.NEG):
            return -evaluate(e.arg, sizes)
        case Binary(op=BinaryOp.AND):
            return bool(evaluate(e.lhs, sizes)) and bool(evaluate(e.rhs, sizes))
        case Binary(op=BinaryOp.OR):
            return bool(evaluate(e.lhs, sizes)) or bool(evaluate(e.rhs, sizes))
        case Binary():
            return _binary(e.op, evaluate(e.lhs, sizes), evaluate(e.rhs, sizes))
        case _:
            raise EvolveError("bad-size", f"{print_expr(e)} cannot be evaluated from the scalars")


def _binary(op: BinaryOp, a: int | float, b: int | float) -> int | float | bool:
    if op.is_comparison:
        if isinstance(a, int) and isinstance(b, int):
            folded = compare(op, a, b)
            assert isinstance(folded, Const)
            return bool(folded.value)
        return {
            BinaryOp.LT: a < b,
            BinaryOp.LE: a <= b,
            BinaryOp.GT: a > b,
            BinaryOp.GE: a >= b,
            BinaryOp.EQ: a == b,
            BinaryOp.NE: a != b,
        }[op]
    if op in (BinaryOp.FLOORDIV, BinaryOp.MOD, BinaryOp.DIV) and b == 0:
        raise EvolveError("bad-size", "a size expression divides by zero")
    match op:
        case BinaryOp.ADD:
            return a + b
        case BinaryOp.SUB:
            return a - b
        case BinaryOp.MUL:
            return a * b
        case BinaryOp.DIV:
            return a / b
        case BinaryOp.FLOORDIV:
            return a // b
        case BinaryOp.MOD:
            return a % b
        case BinaryOp.MIN:
            return min(a, b)
        case BinaryOp.MAX:
            return max(a, b)
        case _:
            raise EvolveError("bad-size", f"operator {op.value} is not allowed in a size expression")
