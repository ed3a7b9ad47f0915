"""What is being optimised, and what came of a candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from evolve.compiler.compile import Source
from evolve.features.extract import extract
from evolve.features.model import Features
from evolve.ir.approximate import approximated
from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel, Module
from evolve.ir.narrow import rounded_inputs
from evolve.ir.scope import conjuncts
from evolve.sol.bound import Bound, bound_of
from evolve.target.profile import Profile
from evolve.workload.gates import gates, works
from evolve.workload.model import FAST_CONTRACTS, Sizes, Workload
from evolve.workload.parameters import in_turns, settings
from evolve.workload.shapes import check_shapes_for, with_lengths
from evolve.workload.structure import structure

LENGTHS_BYTES, FIRST_LENGTHS_BYTES = 3 << 20, 8 << 20
"""Of all arrays, where lengths are chosen for checks; the smallest shape in a guard may itself be large."""
Status = Literal["scored", "compile_failed", "incorrect", "quarantined"]


@dataclass(frozen=True)
class Task:
    """A lifted kernel on a workload and a GPU.

    `features` and `bounds` have one entry a timed shape. They are found when first asked for, as index
    arrays are drawn for them, and raise EvolveError as `sol.bound` does.
    """

    source: Source
    workload: Workload
    profile: Profile
    seed: int = 0
    _shapes: dict[Expr, tuple[Sizes, ...]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def features(self) -> tuple[Features, ...]:
        """What the kernel needs."""
        w = self.workload
        return tuple(extract(self.source.kernel, s, structure(w, s)) for s in w.timed)

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """How fast it could be."""
        return tuple(bound_of(f, self.profile, self.workload.numerics) for f in self.features)

    def shapes_for(self, guard: Expr) -> tuple[Sizes, ...]:
        """Shapes to check a variant with this guard at, as `check_shapes_for` has them; remembered.

        They lie inside the conditions on sizes that the kernel makes itself, if the timed sizes do: elsewhere
        it stores nothing, and there would be nothing to check. Parameters that are no sizes go through
        their settings in turns, as far as these conditions hold.
        """
        found = self._shapes.get(guard)
        if found is None:
            names = [s.name for s in self.source.kernel.scalars if s.is_size and not s.implied]
            gate = next((g for g in gates(self.source.kernel) if works((g,), self.workload.timed[0])), ())
            conditions = conjuncts((guard, *gate))
            set_to = settings(self.source.kernel, self.workload.timed, conditions)
            timed = tuple({**s, **first} for s in self.workload.timed for first in set_to[:1])
            shapes = check_shapes_for(conditions, replace(self.workload, timed=timed), names)
            found = self.with_lengths(in_turns(shapes, set_to, conditions))
            self._shapes[guard] = found
        return found

    def with_lengths(self, shapes: Iterable[Sizes]) -> tuple[Sizes, ...]:
        """The shapes with the lengths that no parameter gives, see `workload.shapes`; each once."""
        implied = self.source.kernel.implied
        if not implied:
            return tuple(shapes)
        made = (
            with_lengths(s, i, self.workload, implied, LENGTHS_BYTES if i else FIRST_LENGTHS_BYTES)
            for i, s in enumerate(shapes)
        )
        return tuple({size_key(s): s for s in made}.values())

    @property
    def loosest(self) -> Kernel:
        """The kernel with the largest errors that the contract allows: what bounds of errors are taken of."""
        kernel = self.source.kernel
        if self.workload.numerics == "mixed":
            kernel = rounded_inputs(kernel)
        return approximated(kernel) if self.workload.numerics in FAST_CONTRACTS else kernel

    @property
    def outputs(self) -> tuple[str, ...]:
        """Arrays that the kernel writes."""
        return tuple(a.name for a in self.workload.arrays if a.role != "in")

    @property
    def inouts(self) -> tuple[str, ...]:
        """Arrays that it reads and writes."""
        return tuple(a.name for a in self.workload.arrays if a.role == "inout")

    @property
    def original(self) -> Module:
        """The kernel as given."""
        k = self.source.kernel
        return Module((), self.source.original, k.params, k.buffers, k.scalars)


def make_task(source: Source, workload: Workload, profile: Profile, seed: int = 0) -> Task:
    """A task."""
    return Task(source, workload, profile, seed)


@dataclass(frozen=True)
class Outcome:
    """What came of one module.

    time_s    sum over the timed shapes, seconds; None unless timed
    fitness   geometric mean over the timed shapes of attainable time / time; 0 unless scored
    source    the CUDA text
    gap       the gap report of the first timed shape, JSON data
    detail    registers, shared memory, variant, shapes checked …, JSON data
    message   why it is not scored, or what makes its time uncertain
    """

    status: Status
    source: str
    time_s: float | None = None
    fitness: float = 0.0
    gap: Mapping[str, Any] = field(default_factory=dict, hash=False)
    detail: Mapping[str, Any] = field(default_factory=dict, hash=False)
    message: str = ""


def size_key(sizes: Sizes) -> tuple[tuple[str, int | float], ...]:
    """A hashable form of sizes."""
    return tuple(sorted(sizes.items()))
