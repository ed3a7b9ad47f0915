"""What one operation takes from each pipe.

`least` is what no implementation gets below, for hard bounds: a division by a loop constant is at least a
multiplication, an exponential one special-function result. `usual` is the shortest sequence known that keeps
the accuracy that the numerics contract asks for: a correctly rounded division is a reciprocal, two Newton
steps and a residual check (as NVIDIA's compiler emits it), three operations when the reciprocal is shared
(Markstein 1990); expf scales its argument around ex2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evolve.ir.approximate import FAST
from evolve.ir.math import FUNCTIONS
from evolve.workload.model import FAST_CONTRACTS, Contract

# Instructions of the plain pipe beside the special-function result, for the accurate functions.
_AROUND = {
    "exp": 5,
    "exp2": 3,
    "log": 10,
    "log2": 8,
    "log1p": 14,
    "expm1": 14,
    "sqrt": 6,
    "rsqrt": 3,
    "tanh": 8,
    "erf": 16,
    "sin": 16,
    "cos": 16,
    "pow": 30,
}
_AROUND_FAST = 1

SOFTWARE_EXP = 6.0
"""Plain instructions that replace one special-function result (a polynomial of degree 3 and its scaling), so
that no hard bound rests on the special-function unit alone."""


@dataclass(frozen=True)
class Cost:
    """Lane instructions on the plain arithmetic pipe (fp32, fp64), special-function results (conversions use
    the same unit), instructions on the integer pipe (comparisons, minima and maxima too)."""

    plain: float = 0.0
    special: float = 0.0
    integer: float = 0.0


_LEAST: Mapping[str, Cost] = {
    "fma": Cost(1),
    "add": Cost(1),
    "mul": Cost(1),
    "minmax": Cost(1),
    "div": Cost(1, 1),
    "div_invariant": Cost(1),
}
_USUAL: Mapping[str, Cost] = {
    **_LEAST,
    "div": Cost(8, 1),
    "div_invariant": Cost(3),
    "minmax": Cost(0, 0, 1),
    "compare": Cost(0, 0, 1),
    "convert": Cost(0, 1),
    "int": Cost(0, 0, 1),
}


def least(kind: str, contract: Contract = "reassociate") -> Cost:
    """The lower bound for one operation of a class (`fma`, `special.exp`, …) within the contract."""
    if kind.startswith("special."):
        name = kind.removeprefix("special.")
        return Cost(0, FUNCTIONS[FAST.get(name, name) if contract in FAST_CONTRACTS else name].special)
    return _LEAST.get(kind, Cost())


def usual(kind: str, contract: Contract) -> Cost:
    """What the best known implementation within the contract takes."""
    fast = contract in FAST_CONTRACTS
    if kind.startswith("special."):
        name = kind.removeprefix("special.")
        function = FUNCTIONS[name]
        around = _AROUND_FAST if fast or function.approximate else _AROUND.get(name, _AROUND_FAST)
        return Cost(around, function.special)
    if fast and kind == "div":
        return Cost(1, 1)
    if fast and kind == "div_invariant":
        return Cost(1)
    return _USUAL.get(kind, Cost(1))
