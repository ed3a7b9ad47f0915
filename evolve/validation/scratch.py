"""Shared memory that a device function is given, and who may see what of it since the last barrier."""

from __future__ import annotations

from dataclasses import dataclass, field

from evolve.validation.contributions import Mixed


@dataclass
class Memory:
    """A row of shared memory for each row of threads; who used an element since the last barrier."""

    cells: dict[tuple[int, int], Mixed] = field(default_factory=dict)
    writers: dict[tuple[int, int], int] = field(default_factory=dict)
    readers: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def meet(self) -> None:
        self.writers.clear()
        self.readers.clear()
