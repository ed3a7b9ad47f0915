"""Size expressions: integer arithmetic over scalar parameters, as text and as IR."""

from __future__ import annotations

import ast

from evolve.ir.errors import EvolveError
from evolve.ir.expr import Binary, BinaryOp, Expr, index, var
from evolve.ir.printer import print_expr
from evolve.ir.types import DType

_MAX_LENGTH = 1000
_ALLOWED = "a size has integers, the kernel's integer arguments, + - * / %, min and max"
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
        raise EvolveError("bad-size", f"`{text}` is not a size expression", hint=_ALLOWED) from error
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
            raise EvolveError("bad-size", f"`{text}` is not a size expression", hint=_ALLOWED)


def size_text(e: Expr) -> str:
    """The text that `parse_size` reads back."""
    return print_expr(e).replace(" mod ", " % ")
