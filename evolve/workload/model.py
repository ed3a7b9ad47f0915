"""The workload as the rest of the house sees it: frozen, checked, in numbers and size expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.ir.types import DType
from evolve.workload.sizes import size_text

Role = Literal["in", "out", "inout"]
Contract = Literal["exact", "reassociate", "fast", "mixed"]
FAST_CONTRACTS: frozenset[Contract] = frozenset(("fast", "mixed"))
"""Those that allow approximate functions, see `ir.approximate`."""
Sizes = Mapping[str, int | float]
"""Values of all scalar parameters, data scalars included."""

Distribution = Literal["uniform", "banded", "power-law"]
DISTRIBUTIONS = ("uniform", "banded", "power-law")

FAMILIES = ("normal", "uniform", "ones", "ramp", "wide", "alternating", "shifted", "spikes")
SPECIALS = "specials"
"""What comparisons decide about otherwise than of numbers: drawn where that has to be right."""
EVERY_FAMILY = (*FAMILIES, SPECIALS)


@dataclass(frozen=True)
class Values:
    """What the integers in an array are: `low <= value < high`, INDEX expressions over the scalars.

    nondecreasing   the first is `low`, the last `high - 1`, none less than the one before: row pointers
    distribution    how they are drawn (`workload.structure`); `parameter` is the half width of a band in
                    elements, or the exponent of a power law
    seed            of the drawing: these values are the same in every input family and every run
    """

    low: Expr
    high: Expr
    nondecreasing: bool = False
    distribution: Distribution = "uniform"
    parameter: float | None = None
    seed: int = 0

    def limits(self, sizes: Sizes) -> tuple[int, int]:
        """The least and the greatest value allowed at those sizes."""
        return int(evaluate(self.low, sizes)), int(evaluate(self.high, sizes)) - 1


@dataclass(frozen=True)
class ArraySpec:
    """One array argument. `extents` are INDEX expressions over the scalars, outermost first.

    `values`: what its integers are, for arrays that hold subscripts or loop bounds.
    """

    name: str
    role: Role
    dtype: DType
    extents: tuple[Expr, ...]
    values: Values | None = None

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """The extents in elements at those sizes."""
        return tuple(int(evaluate(e, sizes)) for e in self.extents)


@dataclass(frozen=True)
class LaunchSpec:
    """Grid and block (threads) of the original kernel, INDEX expressions over the scalars: x, y, z."""

    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Tolerance:
    """What counts as equal: |got - want| <= absolute + relative * scale.

    `scale` is the running error bound of the reference. `relative` multiplies it.
    """

    relative: float = 8.0
    absolute: float = 1e-30


@dataclass(frozen=True)
class Workload:
    """What a kernel is run on.

    entry     the kernel's name
    arrays    the pointer parameters in the order of the signature
    timed     sizes whose time counts
    check     small sizes that are only checked
    numerics  the contract: which rewrites of floating-point arithmetic are allowed
    families  kinds of input values that results are checked on
    assumed   sentences: what was inferred and not given
    """

    entry: str
    arrays: tuple[ArraySpec, ...]
    timed: tuple[Sizes, ...]
    check: tuple[Sizes, ...]
    launch: LaunchSpec
    numerics: Contract = "reassociate"
    tolerance: Tolerance = Tolerance()
    families: tuple[str, ...] = FAMILIES
    assumed: tuple[str, ...] = ()

    def array(self, name: str) -> ArraySpec:
        """The array of that name. Raises EvolveError unknown-array."""
        for a in self.arrays:
            if a.name == name:
                return a
        known = ", ".join(a.name for a in self.arrays)
        raise EvolveError("unknown-array", f"there is no array {name}; there is: {known}")

    def bytes_at(self, sizes: Sizes) -> int:
        """The bytes of all arrays at those sizes."""
        total = 0
        for a in self.arrays:
            count = 1
            for n in a.shape(sizes):
                count *= n
            total += count * a.dtype.size
        return total

    def as_dict(self) -> dict[str, Any]:
        """JSON data: all of it, size expressions as text."""
        return {
            "entry": self.entry,
            "numerics": self.numerics,
            "timed": [dict(s) for s in self.timed],
            "check": [dict(s) for s in self.check],
            "arrays": {
                a.name: {
                    "role": a.role,
                    "dtype": a.dtype.value,
                    "extents": [size_text(e) for e in a.extents],
                    **({} if a.values is None else {"values": values_dict(a.values)}),
                }
                for a in self.arrays
            },
            "launch": {
                "grid": [size_text(e) for e in self.launch.grid],
                "block": [size_text(e) for e in self.launch.block],
            },
            "families": list(self.families),
            "assumed": list(self.assumed),
        }


def values_dict(v: Values) -> dict[str, Any]:
    """JSON data: all of a values clause, size expressions as text."""
    out: dict[str, Any] = {"range": [size_text(v.low), size_text(v.high)]}
    if v.nondecreasing:
        out["nondecreasing"] = True
    out["distribution"] = v.distribution
    if v.parameter is not None:
        out["parameter"] = v.parameter
    if v.seed:
        out["seed"] = v.seed
    return out
