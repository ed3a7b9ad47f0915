"""Nothing is a template for a known kernel: what is reached on an example is reached on its variants.

PYTHONPATH=. python -m tests.agents.expert.test_reach      prints the whole table
"""

from __future__ import annotations

import sys

import pytest

from tests.agents.expert.extended import EXTENDED
from tests.agents.expert.reach import Reached, original, reach
from tests.frontend.test_variants import VARIANTS

SHARE = 0.9
OFFERS = 6
FEW = 2

LIKE = {
    "softmax, scaled and biased, other guard, pointers per row": "softmax",
    "layernorm in one pass, with a residual input, unsigned indices": "layernorm",
    "vector add of three, grid-stride": "vecadd",
    "saxpy out of place with a clamp, four elements a thread": "saxpy",
    "gelu with erf, a bias by column and a flat index": "gelu",
    "transpose from the output's side, scaled, one-dimensional launch": "transpose",
    "matmul with bias and relu, x over rows, fused multiply-add": "matmul",
    "matmul accumulating in memory": "matmul",
    "row maximum and sum, counting down": "row_sum",
    "column mean walking a pointer": "column_sum",
    "column sum with a running index": "column_sum",
    "nine-point stencil with a coefficient array, two-dimensional, inclusive bounds": "stencil",
    "stencil with clamped borders and values selected by position": "stencil",
    "channels last from channels first": "transpose",
    "literal sizes and block size": "saxpy",
    "a flag that switches an epilogue": "saxpy",
    "every second element, with continue": "row_sum",
    "a small array per thread": "gelu",
    "no guard, the launch fits": "saxpy",
    "two grid-stride loops": "vecadd",
    "pointers stepped where they are used": "vecadd",
    "flat over a product of sizes": "vecadd",
    "a block a row of a batch": "gelu",
    "four elements for each of a product": "vecadd",
    "rows counted by a product, the last size within the row": "gelu",
    "a cursor stepped where it is used": "row_sum",
}
OTHERS = {
    "online softmax statistics": "a recurrence: each column's update needs the one before",
    "lower triangle and a window": "rows of different lengths",
    "sums in the elements of an array": "several results of a row, kept in a thread's array over the sweep",
    "elements that add the one before": "a recurrence along a thread's array",
}
"""Kernels that lift but are variants of no example, and what they have that no example has."""
WORKLOADS = {
    # The sizes inferred fill 4 GB and take half a minute a program.
    "matmul accumulating in memory": "[[timed]]\nn = 4096\n",
    # Those inferred have an element whose flat index is no int.
    "literal sizes and block size": "[[timed]]\nrows = 2097152\n",
}
QUICK = (
    "softmax, scaled and biased, other guard, pointers per row",
    "saxpy out of place with a clamp, four elements a thread",
    "transpose from the output's side, scaled, one-dimensional launch",
    "matmul with bias and relu, x over rows, fused multiply-add",
    "column mean walking a pointer",
)


def reached(name: str, offers: int) -> tuple[Reached, Reached]:
    """What is reached on a variant, and on the example that it is a variant of."""
    if name in EXTENDED:
        e = EXTENDED[name]
        return reach("extended", e.text, e.workload, offers), original(e.like, offers)
    return reach("variant", VARIANTS[name], WORKLOADS.get(name), offers), original(LIKE[name], offers)


def test_every_variant_of_an_example_is_held_against_it() -> None:
    assert LIKE.keys() | OTHERS.keys() == VARIANTS.keys()
    assert not LIKE.keys() & OTHERS.keys()


@pytest.mark.parametrize("name", QUICK)
def test_some_variants_reach_what_the_example_reaches(name: str) -> None:
    variant, example = reached(name, FEW)
    assert variant.fitness >= SHARE * example.fitness > 0, (variant, example)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LIKE, *EXTENDED])
def test_variant_reaches_what_the_example_reaches(name: str) -> None:
    variant, example = reached(name, OFFERS)
    assert variant.fitness >= SHARE * example.fitness > 0, (variant, example)


def main(offers: int) -> None:
    """The table."""
    for name in (*LIKE, *EXTENDED):
        variant, example = reached(name, offers)
        share = variant.fitness / example.fitness
        like = (EXTENDED[name].like if name in EXTENDED else LIKE[name]).ljust(10)
        print(
            f"{share:5.2f}  {variant.fitness:.3f}  {like} {example.fitness:.3f}  {name}: {variant.why}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else OFFERS)
