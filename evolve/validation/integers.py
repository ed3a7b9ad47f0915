"""C's integer arithmetic on numbers, and expressions of a thread's coordinates in every thread of a block."""

from __future__ import annotations

import math
from typing import Any

from evolve.ir.types import DType
from evolve.validation.text import Builtin, Convert, Expr, Number, Operation, type_of
from evolve.validation.verdict import UnreadError

WARP = 32
FULL_MASK = 0xFFFFFFFF
"""All lanes of a warp."""
MOST_TRIPS = 64
"""Iterations of a loop that are followed one by one."""
Shape = tuple[int, int, int]
"""Threads of a block along x, y and z, as it is launched."""


def is_full(mask: Expr) -> bool:
    """Whether a mask is written out and names all lanes of a warp."""
    return isinstance(mask, Number) and mask.value == FULL_MASK and type_of(mask) is DType.U32


def converted(value: Any, dtype: DType) -> Any:
    """An integer in another type, wrapped around as C does. What threads gave must stay what it is."""
    if value is None:
        return None
    if not isinstance(value, int) or dtype.is_float or dtype is DType.BOOL:
        raise UnreadError("a conversion in a function")
    low, high = dtype.limits
    return (value - low) % (high - low + 1) + low


def divided(a: int, b: int) -> int:
    if b == 0:
        raise UnreadError("a division by zero")
    return int(math.copysign(abs(a) // abs(b), a * b)) if a else 0


INTEGERS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divided,
    "%": lambda a, b: a - b * divided(a, b),
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def coordinate_of(e: Builtin, block: Shape) -> list[int]:
    """threadIdx or blockDim along an axis, in each thread. Raises UnreadError for others."""
    x, y, z = block
    count = x * y * z
    if e.what == "threadIdx":
        return [(t % x, t // x % y, t // (x * y))[e.axis] for t in range(count)]
    if e.what == "blockDim":
        return [block[e.axis]] * count
    raise UnreadError(f"{e.what} in a function")


def of_threads(e: Expr, block: Shape) -> list[int] | None:
    """What an integer expression is in each thread; None where it is made of more than their coordinates."""
    count = block[0] * block[1] * block[2]
    match e:
        case Number(value=int() as value):
            return [value] * count
        case Builtin(what="threadIdx" | "blockDim"):
            return coordinate_of(e, block)
        case Convert():
            inner = of_threads(e.arg, block)
            return None if inner is None else [converted(v, e.type) for v in inner]
        case Operation() if e.op in INTEGERS and len(e.args) == 2 and isinstance(type_of(e), DType):
            a, b = (of_threads(x, block) for x in e.args)
            if a is None or b is None or not isinstance(e.type, DType):
                return None
            return [converted(int(INTEGERS[e.op](p, q)), e.type) for p, q in zip(a, b, strict=True)]
        case _:
            return None


def is_lane(e: Expr, block: Shape) -> bool:
    """Whether an expression is, in each thread, its number in its warp."""
    values = of_threads(e, block)
    return values == [t % WARP for t in range(block[0] * block[1] * block[2])]
