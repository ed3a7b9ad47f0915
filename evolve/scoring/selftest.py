"""Is a task able to tell right from wrong? Results that must fail, against its own tolerances.

A task on which zeros pass says nothing about a candidate that passes (softmax of many columns under an
absolute tolerance is the classic). Nothing runs here: the wrong results are made from the references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from evolve.devices.compare import worst_error
from evolve.scoring.references import Expected
from evolve.workload.model import Contract

Result = NDArray[np.generic]
Wrong = Callable[[Expected, str], Iterable[Result]]


def _zeros(e: Expected, name: str) -> Iterable[Result]:
    yield np.zeros_like(e.inputs[name])


def _constant(e: Expected, name: str) -> Iterable[Result]:
    finite = e.values[name][np.isfinite(e.values[name])]
    mean = float(finite.mean()) if finite.size else 0.0
    yield np.full(e.inputs[name].shape, mean).astype(e.inputs[name].dtype)


def _copies(e: Expected, name: str) -> Iterable[Result]:
    like = e.inputs[name]
    for a in e.inputs.values():
        if a is not like and a.size == like.size and a.dtype == like.dtype:
            yield a.reshape(like.shape)


def _less_precise(e: Expected, name: str) -> Iterable[Result]:
    """Of a float the value with fewer bits: as the next smaller format would have it, 10 of a float, 23 of a
    double."""
    yield from _cut(e, name, 0xFFFFE000)


def _far_less_precise(e: Expected, name: str) -> Iterable[Result]:
    """The same where a contract lets inputs be rounded to bfloat16, whose errors of 2^-8 are all
    counted with one sign: one bit of a float."""
    yield from _cut(e, name, 0xFFC00000)


def _cut(e: Expected, name: str, bits_kept: int) -> Iterable[Result]:
    like = e.inputs[name]
    if like.dtype == np.float64:
        with np.errstate(over="ignore"):
            yield e.values[name].astype(np.float32).astype(np.float64)
    elif like.dtype == np.float32:
        with np.errstate(over="ignore"):
            bits = e.values[name].astype(np.float32).view(np.uint32)
        yield (bits & np.uint32(bits_kept)).view(np.float32)


_PRECISION = "a result of lower precision"
WRONG: dict[str, Wrong] = {
    "zeros": _zeros,
    "a constant, the mean of the right result": _constant,
    "a copy of an input": _copies,
    _PRECISION: _less_precise,
}


def too_loose(
    runs: Iterable[Expected], outputs: Iterable[str], numerics: Contract = "reassociate"
) -> str | None:
    """The first wrong result that no run tells from the right one, in words; None when all are told.

    `runs` are sizes and families with their references. A wrong result that is the reference, rounded to its
    type, wherever it can be made is right (a kernel may well return zeros, and one number is its own mean),
    and one that cannot be made says nothing.
    """
    names = tuple(outputs)
    wrong = WRONG | ({_PRECISION: _far_less_precise} if numerics == "mixed" else {})
    told: dict[tuple[str, str], bool] = {}
    differs: dict[tuple[str, str], bool] = {}
    for e in runs:
        for name in names:
            for what, make in wrong.items():
                key = what, name
                for got in make(e, name):
                    want, tolerance = e.values[name], e.tolerances[name]
                    with np.errstate(invalid="ignore", over="ignore"):
                        right = want.astype(got.dtype) if got.dtype.kind == "f" else want
                        other = ~((got == right) | (np.isnan(got) & np.isnan(right)))
                    differs[key] = differs.get(key, False) or bool(other.any())
                    told[key] = told.get(key, False) or worst_error(got, want, tolerance) > 1.0
    for (what, name), found in told.items():
        if not found and differs[what, name]:
            return f"{what} would pass as {name} at every size and on every kind of input"
    return None
