"""How many times the reference's error array a result may be off.

The reference counts the errors of a sum of n terms as if they were independent: sqrt(n) of them add up. On
inputs with a pattern they are not. Where all terms are equal, or grow evenly, each addition errs the same
way, and an honest sum in order is off by up to n roundings (259 equal terms, each rounded: 1.7 times the
tolerance for independent ones). There the worst case is allowed; other families judge precision.
"""

from __future__ import annotations

from math import sqrt

from evolve.codegen.reference_runtime import TOLERANCE_FACTOR
from evolve.features.access import reductions
from evolve.ir.kernel import Kernel
from evolve.workload.model import Sizes
from evolve.workload.structure import IndexArrays

PATTERNED = frozenset(("ones", "ramp", "alternating", "spikes"))


def tolerance_factor(kernel: Kernel, sizes: Sizes, family: str, contents: IndexArrays | None = None) -> float:
    """TOLERANCE_FACTOR; on a family with a pattern so much more that a sum of n terms may be off by n times
    the unit roundoff of its terms' absolute sum (Higham 2002, section 4.2).

    `contents` are the index arrays, where they say how many terms there are.
    """
    if family not in PATTERNED:
        return TOLERANCE_FACTOR
    longest = max((r.trips for r in reductions(kernel, sizes, contents)), default=1.0)
    return TOLERANCE_FACTOR * max(1.0, sqrt(longest) / 2)
