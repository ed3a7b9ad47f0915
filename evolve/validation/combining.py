"""What a device function that combines a value a thread does: found by running it for all of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evolve.ir.types import DType, Monoid
from evolve.validation.contributions import Mixed, wrong
from evolve.validation.integers import Shape
from evolve.validation.lockstep import Lockstep
from evolve.validation.remembered import remembered
from evolve.validation.text import Function, Pointer
from evolve.validation.verdict import UnreadError


@dataclass(frozen=True)
class Effect:
    """`combine`: each thread gets what all threads along x have; `scan`: what those before it have, and all.

    elements     of shared memory that it needs for each row of threads
    needs_block  all threads of the block must call it, not only those of the row
    """

    kind: Literal["combine", "scan"]
    monoid: str
    elements: int
    needs_block: bool


def effect_of(f: Function, block: Shape) -> Effect:
    """The effect of a function in a block of that shape. Raises UnreadError where it is neither."""
    return remembered("combine", f, block, lambda: _Run(f, block).effect())


class _Run(Lockstep):
    """One run of a function in all threads of a block."""

    def effect(self) -> Effect:
        params = self.f.params
        if not params or not isinstance(params[0].type, DType):
            raise UnreadError("a function of another form")
        self.dtype = params[0].type
        names: dict[int, list[Any]] = {params[0].key: [Mixed(1 << t) for t in range(self.count)]}
        total: int | None = None
        for p in params[1:]:
            if isinstance(p.type, Pointer) and p.type.element is self.dtype:
                names[p.key] = [None] * self.count
            elif p.type is self.dtype and p is params[-1] and p.key in self.f.references:
                total = p.key
                names[p.key] = [Mixed(0)] * self.count
            else:
                raise UnreadError("a function of another form")
        result = self.call(self.f.body, names)
        if result is None:
            raise UnreadError("a function without a result")
        elements = 1 + max((i for _, i in self.memory.cells), default=-1)
        needs = self.meets or self.beyond_row
        ops = {v.op for v in result if v.op}
        if total is None:
            op = self._all(result)
            return Effect("combine", op or (ops.pop() if ops else ""), elements, needs)
        op = self._all(names[total])
        for t, v in enumerate(result):
            wanted = self.row_mask(t) & ((1 << t) - 1)
            if v.threads != wanted or v.op not in ("", op):
                raise wrong("a thread does not get what came before it")
            if not v.threads and str(float(v.value)) != str(float(Monoid(op).identity(self.dtype))):
                raise wrong("the first thread does not get the neutral element")
        return Effect("scan", op, elements, needs)

    def _all(self, values: list[Mixed]) -> str:
        op = next((v.op for v in values if v.op), "")
        for t, v in enumerate(values):
            if v.threads != self.row_mask(t) or v.op != op:
                raise wrong("a thread does not get all values of its row")
        if not op:
            raise UnreadError("a collective of one thread")
        return op
