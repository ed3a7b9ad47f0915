"""Arrays of subscripts and row pointers: drawn once, checked against what the kernel relies on.

They are the structure of the problem (a sparse matrix, a list of tokens) and not its numbers: the same in
every input family and run, so that what is computed from them, as the bytes that must move, holds for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.ir.errors import EvolveError
from evolve.ir.types import DType
from evolve.workload.model import ArraySpec, Sizes, Values, Workload
from evolve.workload.sizes import size_text

IndexArrays = Mapping[str, NDArray[Any]]
"""The contents of the arrays whose values a workload describes, by name."""

_BAND = 16.0
_PART = 1 << 22
_EXPONENT = 2.0
_MISSING = 1 / 8
_UNEVEN = 32
"""Times the mean: cuts drawn uniformly make rows of up to some 20 times the mean."""
_FARTHEST = 1 << 52
"""From 0: places and cuts are computed in binary64, and subscripts are far smaller."""
_NUMPY: dict[DType, Any] = {
    DType.I32: np.int32,
    DType.U32: np.uint32,
    DType.I64: np.int64,
    DType.U64: np.uint64,
}


def structure(workload: Workload, sizes: Sizes) -> IndexArrays:
    """All arrays with a values clause at those sizes, not to be written; the last few are remembered.

    Raises EvolveError bad-values as `draw` does.
    """
    key = tuple(sorted(sizes.items()))
    return {a.name: _remembered(a, key) for a in workload.arrays if a.values is not None}


def uneven(workload: Workload) -> tuple[str, ...]:
    """What to say of row pointers whose longest row, at the first timed sizes, is far longer than the mean:
    an estimate is made from an average block, and such a row is in few."""
    told = []
    for array in workload.arrays:
        if array.values is None or not array.values.nondecreasing or len(array.extents) != 1:
            continue
        rows = np.diff(_remembered(array, tuple(sorted(workload.timed[0].items()))))
        if rows.size and rows.max() > _UNEVEN * rows.mean():
            longest, mean = int(rows.max()), float(rows.mean())
            told.append(
                f"the rows of {array.name} are taken to be of like length where times are estimated, "
                f"which are too short if one thread or block does a long one: the longest has {longest}, "
                f"the mean is {mean:.0f}"
            )
    return tuple(told)


@lru_cache(maxsize=6)
def _remembered(array: ArraySpec, sizes: tuple[tuple[str, int | float], ...]) -> NDArray[Any]:
    assert array.values is not None
    made = draw(array, array.values, dict(sizes))
    made.flags.writeable = False
    return made


def draw(array: ArraySpec, values: Values, sizes: Sizes) -> NDArray[Any]:
    """The array's integers, C-ordered, the same for the same clause, name and sizes; checked.

    Of subscripts: `uniform` over the range; `banded`, element k near the place k / count of the range, within
    `parameter` elements (16); `power-law`, low + (high - low) * u^parameter with u uniform (2): the first
    are the most frequent. Where the range begins below 0, one in 8 is its beginning: missing. Of row
    pointers: the lengths of the rows are those between uniformly drawn cuts (`uniform`), as equal as can be
    (`banded`), or proportional to rank^-parameter in random order (`power-law`, 1). Raises EvolveError
    bad-values for a range that lacks the values needed, that the type cannot hold or that goes beyond 2^52.
    """
    low, high = values.limits(sizes)
    shape = array.shape(sizes)
    count = prod(shape)
    kind = np.iinfo(_NUMPY[array.dtype])
    if high < low or low < max(kind.min, -_FARTHEST) or high > min(kind.max, _FARTHEST):
        text = f"from {size_text(values.low)}, below {size_text(values.high)}"
        message = f"array {array.name}: {array.dtype.value} values {text} are {low} to {high} here"
        raise EvolveError("bad-values", message)
    rng = _generator(values.seed, array.name)
    out = np.empty(count, _NUMPY[array.dtype])
    if values.nondecreasing:
        out[:] = low + _offsets(rng, values, count, high - low)
    elif values.distribution == "uniform":
        # In parts: of the wide integers that are drawn there are never many.
        for first in range(0, count, _PART):
            some = min(_PART, count - first)
            out[first : first + some] = low + rng.integers(0, high - low + 1, size=some, dtype=np.int64)
    else:
        out[:] = low + _places(rng, values, count, high - low + 1)
    if low < 0 and not values.nondecreasing:
        out[rng.random(count) < _MISSING] = low
    out = out.reshape(shape)
    check(replace(array, values=values), out, sizes)
    return out


def check(array: ArraySpec, data: NDArray[Any], sizes: Sizes) -> None:
    """Raises EvolveError bad-values unless the integers are what the array's values clause says."""
    if array.values is None:
        return
    low, high = array.values.limits(sizes)
    flat = data.reshape(-1)
    if flat.size and (int(flat.min()) < low or int(flat.max()) > high):
        raise EvolveError("bad-values", f"array {array.name} holds values outside {low} to {high}")
    if array.values.nondecreasing:
        ends = flat.size and int(flat[0]) == low and int(flat[-1]) == high
        if not ends or bool((flat[1:] < flat[:-1]).any()):
            message = f"array {array.name} does not go from {low} to {high} without a step down"
            raise EvolveError("bad-values", message)


def _places(rng: np.random.Generator, values: Values, count: int, span: int) -> NDArray[np.int64]:
    """`count` integers in 0 .. span - 1."""
    match values.distribution:
        case "banded":
            width = min(_BAND if values.parameter is None else values.parameter, span)
            centre = (np.arange(count, dtype=np.float64) + 0.5) * (span / max(1, count))
            made = np.floor(centre + rng.uniform(-width, width, count)).astype(np.int64)
            return np.clip(made, 0, span - 1)
        case "power-law":
            exponent = _EXPONENT if values.parameter is None else values.parameter
            made = np.floor(span * rng.random(count) ** exponent).astype(np.int64)
            return np.minimum(made, span - 1)
        case other:
            raise ValueError(f"places of a distribution {other}")


def _offsets(rng: np.random.Generator, values: Values, count: int, total: int) -> NDArray[np.int64]:
    """`count` nondecreasing integers, the first 0 and the last `total`."""
    if count < 2:
        if count and total == 0:
            return np.zeros(1, np.int64)
        raise EvolveError("bad-values", f"{count} row pointers cannot go from 0 to {total}")
    rows = count - 1
    match values.distribution:
        case "banded":
            return np.arange(count, dtype=np.int64) * total // rows
        case "power-law":
            exponent = 1.0 if values.parameter is None else values.parameter
            weights = rng.permutation((np.arange(rows, dtype=np.float64) + 1.0) ** -exponent)
            inner = np.floor(np.cumsum(weights) * (total / weights.sum())).astype(np.int64)
            cuts = np.minimum(inner[:-1], total)
        case _:
            cuts = np.sort(rng.integers(0, total + 1, size=rows - 1, dtype=np.int64))
    return np.concatenate(([0], cuts, [total])).astype(np.int64)


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.blake2b(f"structure/{seed}/{name}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
