"""Input arrays: seeded, in families that expose different faults.

No single family exposes every shortcut: zero-mean data hides nothing of precision, large values
overflow an exponential without its shift, a large mean breaks a one-pass variance, ones make a
partial sum look whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from evolve.ir.types import DType
from evolve.workload.model import Workload, extents_at

FAMILIES = ("normal", "uniform", "large", "small", "shifted", "ramp", "spikes", "ones")

_NUMPY = {
    DType.BOOL: np.bool_,
    DType.I32: np.int32,
    DType.U32: np.uint32,
    DType.I64: np.int64,
    DType.U64: np.uint64,
    DType.F32: np.float32,
    DType.F64: np.float64,
}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of a stored scalar."""
    return np.dtype(_NUMPY[dtype])


def make_inputs(
    workload: Workload, sizes: Mapping[str, int], family: str, seed: int
) -> dict[str, npt.NDArray[Any]]:
    """All arrays at these sizes. Arrays that the kernel only writes get contents too: it must not need them.

    The same (family, seed, array, shape) gives the same numbers everywhere.
    """
    return {
        a.name: make_array(extents_at(a, sizes), numpy_dtype(a.dtype), family, f"{seed}:{a.name}")
        for a in workload.arrays
    }


def make_array(shape: tuple[int, ...], dtype: np.dtype[Any], family: str, key: str) -> npt.NDArray[Any]:
    """One array. Raises KeyError for an unknown family."""
    digest = hashlib.blake2b(f"{family}:{key}".encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(digest, "little"))
    if dtype.kind != "f":
        top = {"ones": 2, "small": 4}.get(family, 1000)
        return rng.integers(0, top, shape).astype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if family == "uniform":
        flat = rng.random(n, np.float32)
    elif family == "ramp":
        flat = np.linspace(-1.0, 1.0, n, dtype=np.float32)
    elif family == "ones":
        flat = np.ones(n, np.float32)
    elif family == "spikes":
        flat = np.where(
            rng.random(n, np.float32) < 0.01, rng.standard_normal(n, np.float32) * 50, np.float32(0)
        )
    else:
        scale, shift = {"normal": (1, 0), "large": (100, 0), "small": (1e-3, 0), "shifted": (1, 1000)}[family]
        flat = rng.standard_normal(n, np.float32) * np.float32(scale) + np.float32(shift)
    return flat.astype(dtype).reshape(shape)
