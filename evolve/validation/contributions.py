"""Values as the threads whose own went into them, and the operation that combined these."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.ir.types import DType, Monoid
from evolve.validation.verdict import DifferenceError


@dataclass(frozen=True)
class Mixed:
    """Values of these threads (a bit each) combined by an operation; none: a constant."""

    threads: int
    op: str = ""
    value: float | int | None = None


def wrong(reason: str) -> DifferenceError:
    return DifferenceError(reason)


def combine(op: str, a: Mixed, b: Mixed, dtype: DType) -> Mixed:
    for x, y in ((a, b), (b, a)):
        if not x.threads:
            neutral = Monoid(op).identity(dtype)
            if x.value is None or str(float(x.value)) != str(float(neutral)):
                raise wrong(f"{x.value} is not neutral for {op}")
            return y
    for x in (a, b):
        if x.op not in ("", op):
            raise wrong(f"{x.op} and {op} are mixed")
    if op in ("sum", "prod") and a.threads & b.threads:
        raise wrong("a value is counted twice")
    return Mixed(a.threads | b.threads, op)
