"""Reductions that are shared out give the very fractions of the source: only the order has changed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from evolve.ir.kernel import Kernel
from tests.interpreter import run
from tests.transforms.fixtures import KERNELS, applied

ROWS, COLS = 3, 70
STARTS = (0, 0, 1 << 5, ROWS * COLS)
"""Of rows of data: none, some, most."""
SCALARS = {"rows": ROWS, "cols": COLS, "entries": ROWS * COLS}
RNG = np.random.default_rng(2)

LANES = "split(row, 4)\nbind(row.o, grid.x)\nbind(row.i, thread.y)\n"
CASES = {
    "split_reduction": ("moments", "split([c, c_2], 4)\nsplit_reduction([c.i, c_2.i])"),
    "split_reduction of a joined sweep": ("moments", "jam(c, c_2)\nsplit(c, 4)\nsplit_reduction(c.i)"),
    "split_reduction in shared memory": ("column_total", "split(r, 4)\nsplit_reduction(r.i, scope=shared)"),
    "warp_reduce": ("moments", f"{LANES}split([c, c_2], 8)\nwarp_reduce([c.i, c_2.i])"),
    "warp_reduce of a maximum": ("softmax", "split([c, c_2], 32)\nwarp_reduce([c.i, c_2.i])"),
    "block_reduce": ("moments", "split([c, c_2], 64)\nblock_reduce([c.i, c_2.i])"),
    "block_reduce of a maximum": ("softmax", "split([c, c_2], 64)\nblock_reduce([c.i, c_2.i])"),
    "online one by one": ("softmax", "online(c, c_2)"),
    "online in chunks": ("softmax", "split([c, c_2], 4)\nonline(c.o, c_2.o)"),
    "online by a block": (
        "softmax",
        "split([c, c_2], 2)\nsplit([c.o, c_2.o], 32)\nblock_reduce([c.o.i, c_2.o.i])\n"
        "online([c.o.o, c.o.i], [c_2.o.o, c_2.o.i])",
    ),
    "online with weights": ("pooling", "split([c, c_2], 4)\nonline(c.o, c_2.o)"),
    "online with computed exponents": ("scores", "split([c, c_2], 4)\nonline(c.o, c_2.o)"),
    "online with exponents computed once": (
        "scores",
        "specialize(cols % 5 == 0)\nsplit([c, c_2], 5)\nonline(c.o, c_2.o)\ndistribute(c.i)\n"
        "distribute(c_2.i)\nreuse(s, instead_of=s_2)",
    ),
    "accumulate_in_register": ("column_sum", "split(r, 8)\naccumulate_in_register(r.i, y)"),
    "grid_reduce": ("column_total", "split(r, 4)\ngrid_reduce(r.o)"),
    "grid_reduce of a maximum": ("softmax", "split(c, 16)\ngrid_reduce(c.o)"),
    "privatize": ("accumulate", "split(r, 8)\nprivatize(y, at=c, copies=r.i)"),
    "atomic": ("accumulate", "reorder([r, c])\natomic(y)"),
    "aggregate": ("accumulate", "reorder([r, c])\natomic(y)\naggregate(y, warp)"),
    "compute_at of a maximum": ("softmax", "split(c_2, 16)\ncompute_at(m, at=c_2.o)\ncompute_at(m, at=c_3)"),
    "compute_at of a sum": (
        "softmax",
        "split(c_3, 16)\ncompute_at(s, at=c_3.o)\nsplit(c_2, 4)\nsplit_reduction(c_2.i)",
    ),
    "balance": ("segments", "balance(k, by=start)\nsplit(k, 4)"),
    "scan by lanes": ("running", f"{LANES}split(c, 3)\nsplit(c.o, 8)\nscan(c.o.i)"),
    "scan by a block": ("running", "split(c, 2)\nsplit(c.o, 32)\nscan(c.o.i)"),
    "scan of pieces": ("running", "specialize(cols == 70)\nsplit(c, 3)\nsplit(c.o, 32)\nscan(c.o.i)"),
}


def inputs(kernel: Kernel) -> dict[str, np.ndarray]:
    """Whole numbers where `exp` is taken of them, and fractions with large primes elsewhere."""
    whole = kernel.name in ("softmax", "pooling")
    if kernel.name == "scores":
        return {n: whole_numbers(r) for n, r in (("x", ROWS), ("w", COLS), ("v", COLS))}
    draw = RNG.integers(-9, 9, size=ROWS * COLS)
    below = [1] * draw.size if whole else list(RNG.choice([3, 7, 101, 65537], size=draw.size))
    x = np.array([Fraction(int(a), int(b)) for a, b in zip(draw, below, strict=True)], dtype=object)
    weights = np.array([Fraction(int(a), 7) for a in RNG.integers(-99, 99, size=x.size)], dtype=object)
    if kernel.name == "segments":
        return {"x": x, "start": np.array(STARTS, dtype=np.int32)}
    given = {"x": x.reshape(ROWS, COLS), "v": weights.reshape(ROWS, COLS)}
    return given | {"y": weights[:COLS]} if kernel.name == "accumulate" else given


def whole_numbers(rows: int) -> np.ndarray:
    """Four for each row, as fractions."""
    drawn = [Fraction(int(a)) for a in RNG.integers(-3, 4, size=rows * 4)]
    return np.array(drawn, dtype=object).reshape(rows, 4)


@pytest.mark.parametrize("case", CASES)
def test_the_same_fractions(case: str) -> None:
    name, program = CASES[case]
    source = KERNELS[name]()
    given = inputs(source)
    want = run(source, given, SCALARS, exact=True)["y"]
    got = run(applied(name, program).kernel, given, SCALARS, exact=True)["y"]
    assert all(isinstance(v, Fraction) for v in want.flat)
    assert np.array_equal(want, got)


def test_it_would_show_in_the_last_digit() -> None:
    """What the comparison above is worth: in floats the same programs differ."""
    source = KERNELS["moments"]()
    x = RNG.normal(size=(ROWS, COLS)).astype(np.float32).astype(np.float64)
    shared = applied(*CASES["block_reduce"]).kernel
    assert not np.array_equal(run(source, {"x": x}, SCALARS)["y"], run(shared, {"x": x}, SCALARS)["y"])
