"""A lifted kernel without the frontend."""

from __future__ import annotations

from dataclasses import dataclass, field

from evolve.ir.expr import Expr, ceildiv, index, var
from evolve.ir.kernel import Kernel, Original


@dataclass(frozen=True)
class Handmade:
    kernel: Kernel
    original: Original
    no_wrap: tuple[Expr, ...] = ()
    notes: tuple[str, ...] = field(default=("arrays do not overlap",))


def handmade(kernel: Kernel, size: str, no_wrap: tuple[Expr, ...] = ()) -> Handmade:
    one = index(1)
    original = Original("", kernel.name, (ceildiv(var(size), 256), one, one), (index(256), one, one))
    return Handmade(kernel, original, no_wrap)
