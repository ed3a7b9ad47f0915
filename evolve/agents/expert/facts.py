"""What a program may assume of the sizes: collected as needs, written as one `specialize`."""

from __future__ import annotations

from math import lcm

from evolve.agents.expert.shape import Shape, size_of
from evolve.ir.expr import Const
from evolve.ir.visit import variables


class Facts:
    """Needs of a program on the sizes of one shape, all true at the timed sizes."""

    def __init__(self, shape: Shape, sizes: dict[str, int]) -> None:
        self._shape, self._sizes = shape, sizes
        self._divides: dict[str, int] = {}
        self._equal: dict[str, int] = {}

    def multiple(self, loop: str, divisor: int) -> bool:
        """Needs the loop's trips to be a multiple of `divisor`; False if they are not when timed."""
        trips = self._shape.trips[loop]
        if trips % divisor:
            return False
        if self._shape.varies(loop):
            return False
        for name in sorted(variables(self._shape.extents[loop])):
            # Of `(n - 1) // 4 + 1` trips a multiple of d follows from n being one of 4 d.
            each = divisor * max(1, self._sizes[name] // trips) if self._formula(loop) else divisor
            if self._sizes[name] % each:
                return False
            if each > 1:
                self._divides[name] = lcm(self._divides.get(name, 1), each)
        return True

    def length(self, array: str, divisor: int) -> bool:
        """Needs the array's last extent to be a multiple of `divisor`; False if it is no size, or not when
        timed."""
        extent = self._shape.lengths.get(array)
        if isinstance(extent, Const):
            return int(extent.value) % divisor == 0
        size = None if extent is None else size_of(extent)
        if size is None or self._sizes[size] % divisor:
            return False
        self._divides[size] = lcm(self._divides.get(size, 1), divisor)
        return True

    def _formula(self, loop: str) -> bool:
        return size_of(self._shape.extents[loop]) is None

    def constant(self, loop: str) -> None:
        """Needs the loop's trips to be what they are when timed, as far as sizes decide."""
        for name in sorted(variables(self._shape.extents[loop]) - self._shape.extents.keys()):
            self._equal[name] = self._sizes[name]

    def statement(self) -> str | None:
        """`specialize(…)`, None when nothing is needed."""
        terms = [f"{n} == {v}" for n, v in self._equal.items()]
        terms += [f"{n} % {d} == 0" for n, d in self._divides.items() if n not in self._equal]
        return f"specialize({' and '.join(terms)})" if terms else None
