"""The example kernels and some more as the frontend lifts them, with small workloads to run them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from evolve.compiler.compile import Source
from evolve.frontend.lift import lift
from evolve.ir.affine import simplify
from evolve.ir.expr import Const, index
from evolve.ir.stmt import Leaf
from evolve.ir.visit import substitute, walk
from evolve.workload.implied import values_of
from evolve.workload.inputs import numpy_dtype
from evolve.workload.model import ArraySpec
from evolve.workload.structure import draw
from tests.interpreter import run

Arrays = dict[str, np.ndarray]
Scalars = Mapping[str, int | float]

EXAMPLES = Path(__file__).resolve().parents[2] / "kernels"
MORE = Path(__file__).parent / "kernels"
"""Kernels whose loops carry dependences, which none of the examples has."""
FILES = {p.stem: p for folder in (EXAMPLES, MORE) for p in sorted(folder.glob("*.cu"))}
TEN = tuple(sorted(p.stem for p in EXAMPLES.glob("*.cu")))
NAMES = tuple(FILES)

SMALL: dict[str, dict[str, int | float]] = {
    "accumulate": {"rows": 9, "cols": 70},
    "attention": {"heads": 2, "seq": 5, "scale": 0.25},
    "batched_matmul": {"batch": 3, "m": 9, "n": 11, "k": 6},
    "blur": {"strips": 2, "cols": 37},
    "column_sum": {"rows": 37, "cols": 45},
    "conv1d": {"batch": 3, "n": 70, "taps": 4},
    "cross_entropy": {"rows": 5, "classes": 64},
    "cumsum": {"rows": 5, "cols": 70},
    "difference": {"rows": 13, "cols": 21},
    "envelope": {"rows": 5, "cols": 64},
    "embedding": {"tokens": 19, "d": 70, "table_size": 11},
    "gather": {"n": 150, "x_size": 90},
    "gelu": {"count": 150},
    "histogram": {"n": 1500},
    "layernorm": {"rows": 5, "cols": 64},
    "masked_softmax": {"heads": 2, "queries": 3, "keys": 64, "scale": 0.5},
    "matmul": {"M": 19, "N": 21, "K": 10},
    "matvec": {"rows": 9, "cols": 70},
    "pooling": {"rows": 5, "cols": 64},
    "recurrence": {"rows": 5, "cols": 17},
    "relax": {"rows": 19},
    "rmsnorm": {"rows": 5, "cols": 64},
    "rope": {"tokens": 3, "heads": 4, "half": 21},
    "row_sum": {"rows": 9, "cols": 70},
    "running_sum": {"rows": 5, "cols": 16},
    "saxpy": {"n": 150, "alpha": 1.5},
    "scores": {"rows": 5, "cols": 24},
    "segments": {"n": 37, "list_size": 150, "x_size": 40},
    "softmax": {"rows": 5, "cols": 64},
    "spmv": {"rows": 37, "col_size": 210, "x_size": 41},
    "spread": {"rows": 5, "cols": 64},
    "stencil": {"rows": 21, "cols": 19},
    "stencil3x3": {"rows": 11, "cols": 13},
    "sweep": {"grids": 3, "rows": 7, "cols": 9},
    "total": {"n": 1500},
    "transpose": {"rows": 37, "cols": 45},
    "vecadd": {"n": 150},
}
"""Sizes that no tile divides, unless the program fixes them."""

KEEPS = frozenset(
    (
        "accumulate",
        "envelope",
        "histogram",
        "recurrence",
        "relax",
        "running_sum",
        "saxpy",
        "segments",
        "stencil",
        "stencil3x3",
        "sweep",
        "total",
    )
)
"""Kernels whose output also has cells that they read or leave as they were."""


@cache
def source(name: str) -> Source:
    """A kernel, lifted."""
    lifted = lift(FILES[name])
    return Source(lifted.kernel, lifted.original, lifted.no_wrap)


@dataclass(frozen=True)
class Workload:
    """Arrays by name, which of them are outputs, and what the lifted kernel leaves in those (binary64)."""

    scalars: Scalars
    arrays: Arrays
    outputs: frozenset[str]
    kept: frozenset[str]
    wanted: Arrays


def workload(name: str, sizes: Scalars | None = None, seed: int = 0) -> Workload:
    """The kernel's inputs, random, and its right outputs by serial interpretation of the lifted kernel."""
    scalars = {**SMALL[name], **(sizes or {})}
    return _workload(name, tuple(sorted(scalars.items())), seed)


@cache
def _workload(name: str, sizes: tuple[tuple[str, int | float], ...], seed: int) -> Workload:
    kernel = source(name).kernel
    scalars = dict(sizes)
    rng = np.random.default_rng(seed)
    by = {k: index(int(v)) for k, v in scalars.items() if kernel.scalar(k).is_size}
    arrays = {}
    for b in kernel.buffers:
        shape = []
        for e in b.extents:
            n = simplify(substitute(e, by))
            assert isinstance(n, Const)
            shape.append(int(n.value))
        values = values_of(kernel, b.name)
        if values is None and not b.dtype.is_float:
            arrays[b.name] = rng.integers(0, 3, size=shape).astype(numpy_dtype(b.dtype))
        elif values is None:
            arrays[b.name] = rng.normal(size=shape).astype(np.float32)
        else:
            spec = ArraySpec(b.name, "in", b.dtype, b.extents, replace(values, seed=seed))
            arrays[b.name] = draw(spec, spec.values, scalars)
    outputs = frozenset(s.stmt.buffer for s in walk(kernel.body) if isinstance(s.stmt, Leaf))
    outputs &= arrays.keys()
    kept = outputs if name in KEEPS else frozenset()
    given = {k: a for k, a in arrays.items() if k in kept or k not in outputs}
    done = run(kernel, given, scalars)
    return Workload(scalars, arrays, outputs, kept, {k: done[k] for k in outputs})
