"""Columns of a shared tile that trade places from row to row, so that a column lies in many banks.

Column c of row r lies where column c ^ width * (r / rows % groups) of a plain tile would. Subscripts stay
what they were: only the address of a cell is computed so.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolve.ir.expr import Binary, BinaryOp, Expr, floordiv, mod, mul
from evolve.ir.types import DType


@dataclass(frozen=True)
class Swizzle:
    """`width` adjacent columns stay together, `groups` of them trade places, `rows` adjacent rows alike."""

    width: int
    groups: int
    rows: int = 1

    def column(self, row: Expr, column: Expr) -> Expr:
        """Where a column of a row lies."""
        key = mod(floordiv(row, self.rows) if self.rows != 1 else row, self.groups)
        return Binary(BinaryOp.BIT_XOR, column, mul(key, self.width) if self.width != 1 else key, DType.INDEX)
