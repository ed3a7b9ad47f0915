"""Input arrays: seeded, the same on every machine."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.ir.errors import EvolveError
from evolve.ir.types import DType
from evolve.workload.model import EVERY_FAMILY, SPECIALS, ArraySpec, Sizes, Workload
from evolve.workload.structure import draw

_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.I32: np.dtype(np.int32),
    DType.U8: np.dtype(np.uint8),
    DType.U32: np.dtype(np.uint32),
    DType.I64: np.dtype(np.int64),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}

_SPECIAL = np.array([0.0, -0.0, 0.0, -0.0, np.nan, np.nan, np.inf, -np.inf])


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of an array's elements. INDEX has none and raises KeyError."""
    return _NUMPY[dtype]


def generate(workload: Workload, sizes: Sizes, family: str, seed: int) -> dict[str, NDArray[Any]]:
    """Arrays for the `in` and `inout` arguments at those sizes, C-ordered.

    Values depend on the seed, the family, the array's name and the shape only; those of arrays with a values
    clause on neither seed nor family. Raises EvolveError bad-workload for an unknown family, bad-values.
    """
    if family not in EVERY_FAMILY:
        known = ", ".join(EVERY_FAMILY)
        raise EvolveError("bad-workload", f"there is no input family {family}; there is: {known}")
    return {a.name: values(a, sizes, family, seed) for a in workload.arrays if a.role != "out"}


def values(array: ArraySpec, sizes: Sizes, family: str, seed: int) -> NDArray[Any]:
    """One array's values; integers are small whatever the family, or what the array's values clause says.

    normal       standard normal
    uniform      uniform in [-1, 1)
    ones         all 1
    ramp         k / count for element k, the sign changing every 64 elements
    wide         normal times 2^e, e uniform in -10 .. 10
    alternating  +1, -1 with a small normal part: sums cancel
    shifted      normal plus 1000: a small spread on a large mean
    spikes       one in 64, at random, normal times 100, the others 0
    specials     standard normal; one in 4, at random, is 0, -0, a NaN or an infinity
    """
    if array.values is not None:
        return draw(array, array.values, sizes)
    shape = array.shape(sizes)
    dtype = numpy_dtype(array.dtype)
    rng = _generator(seed, family, array.name)
    count = int(np.prod(shape, dtype=np.int64))
    if not array.dtype.is_float:
        low = 0 if array.dtype in (DType.U8, DType.U32, DType.U64, DType.BOOL) else -8
        high = 2 if array.dtype is DType.BOOL else 9
        return rng.integers(low, high, size=shape).astype(dtype)
    # Drawn in the target precision: 2^27 elements in float64 would be 1 GB.
    made = _reals(rng, family, count, np.float64 if array.dtype is DType.F64 else np.float32)
    return np.ascontiguousarray(made.astype(dtype, copy=False).reshape(shape))


def _reals(rng: np.random.Generator, family: str, count: int, kind: Any) -> NDArray[Any]:
    match family:
        case "normal":
            return rng.standard_normal(count, dtype=kind)
        case "uniform":
            return np.asarray(rng.random(count, dtype=kind) * kind(2) - kind(1))
        case "ones":
            return np.ones(count, dtype=kind)
        case "ramp":
            k = np.arange(count)
            signs = np.where((k // 64) % 2 == 0, kind(1), kind(-1))
            return np.asarray(k.astype(kind) / kind(max(1, count)) * signs)
        case "wide":
            exponents = rng.integers(-10, 11, size=count).astype(kind)
            return np.asarray(rng.standard_normal(count, dtype=kind) * np.exp2(exponents))
        case "shifted":
            return np.asarray(rng.standard_normal(count, dtype=kind) + kind(1000))
        case "spikes":
            heights = rng.standard_normal(count, dtype=kind) * kind(100)
            return np.asarray(np.where(rng.random(count, dtype=kind) < kind(1 / 64), heights, kind(0)))
        case family if family == SPECIALS:
            plain = rng.standard_normal(count, dtype=kind)
            special = rng.choice(_SPECIAL, size=count).astype(kind)
            return np.asarray(np.where(rng.random(count, dtype=kind) < kind(1 / 4), special, plain))
        case _:
            signs = np.where(np.arange(count) % 2 == 0, kind(1), kind(-1))
            return np.asarray(signs + rng.standard_normal(count, dtype=kind) * kind(2**-8))


def _generator(seed: int, family: str, name: str) -> np.random.Generator:
    digest = hashlib.blake2b(f"{seed}/{family}/{name}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
