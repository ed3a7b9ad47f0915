"""Comparing results with a reference: one rule for every device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def worst_error(got: NDArray[Any], want: NDArray[Any], tolerance: NDArray[Any]) -> float:
    """The largest |got - want| / tolerance, 0 for no elements.

    Equal values pass with any tolerance; NaN and infinities must match in place, else the result is
    infinite. Integers have tolerance 0. An infinite tolerance says that no value is wrong.
    """
    g, w = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        allowed = tolerance.astype(np.float64).ravel()
        same = (g == w) | (np.isnan(g) & np.isnan(w)) | np.isposinf(allowed)
        ratio = np.abs(g - w) / np.maximum(allowed, np.finfo(np.float64).tiny)
    ratio = np.where(same, 0.0, np.where(np.isfinite(ratio), ratio, np.inf))
    return float(ratio.max(initial=0.0))


def bounds(
    want: NDArray[Any], tolerance: NDArray[Any], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lowest and the highest value of type `dtype` that `worst_error` accepts, element by element.

    Half the bytes of a value and a tolerance in float64, and a comparison needs no arithmetic. Where any
    value is right, -inf and inf; where NaN or an infinity is, that twice.
    """
    w, t = want.astype(np.float64), tolerance.astype(np.float64)
    if dtype.kind != "f":
        first, last = np.ceil(w - t), np.floor(w + t)
        return _whole(first, dtype, -np.inf), _whole(last, dtype, np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = _rounded(w - t, dtype, np.inf), _rounded(w + t, dtype, -np.inf)
        point = w.astype(dtype)
    anything, single = np.isposinf(t), ~np.isfinite(w) | np.isnan(t)
    low, high = np.where(single, point, low), np.where(single, point, high)
    return np.where(anything, dtype.type(-np.inf), low), np.where(anything, dtype.type(np.inf), high)


def left_alone(low: NDArray[Any], high: NDArray[Any], where: NDArray[Any]) -> None:
    """Makes elements of `bounds` say that they must keep the poison that they were filled with, in place."""
    first, last = _ends(low.dtype)
    low[where], high[where] = last, first


def within(
    got: NDArray[Any], low: NDArray[Any], high: NDArray[Any], poison: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Which elements are right by `bounds`; `poison` says which still hold the filling (default: none).

    An element that must be NaN and still is poison was not written, so it is wrong.
    """
    left = np.zeros(got.shape, bool) if poison is None else poison
    with np.errstate(invalid="ignore"):
        right = (low <= got) & (got <= high)
        if low.dtype.kind == "f":
            right |= np.isnan(low) & np.isnan(got) & ~left
            right |= np.isneginf(low) & np.isposinf(high)
    if low.dtype.kind == "b":
        # Other bytes than 0 and 1 are no booleans, whatever they count as.
        right &= np.ascontiguousarray(got).view(np.uint8).reshape(got.shape) <= 1
    first, last = _ends(low.dtype)
    kept = (low == last) & (high == first)
    return np.asarray(np.where(kept, left, right))


def _ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the greatest value of a type, infinities included, in that type."""
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    if dtype.kind == "b":
        return np.False_, np.True_
    # Of the type and not Python's: no signed type of numpy's holds the greatest unsigned number.
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


def _whole(x: NDArray[Any], dtype: np.dtype[Any], toward: float) -> NDArray[Any]:
    """Whole numbers in an integer type, those outside it at its ends.

    From 2^53 on several integers round to one float64; it is the outermost of them toward that infinity.
    """
    first, last = _ends(dtype)
    inside = (x > float(first)) & (x < float(last))
    safe = np.where(inside, x, 0.0)
    if dtype.kind == "b":
        whole = safe.astype(dtype)
    else:
        half = np.floor(np.abs(np.nextafter(safe, toward) - safe) / 2).astype(dtype)
        whole = safe.astype(dtype) + half if toward > 0 else safe.astype(dtype) - half
    return np.where(inside, whole, np.where(x >= float(last), last, first)).astype(dtype)


def _rounded(x: NDArray[Any], dtype: np.dtype[Any], toward: float) -> NDArray[Any]:
    """`x` in type `dtype`, rounded toward that infinity."""
    near = x.astype(dtype)
    back = near.astype(np.float64)
    beyond = back < x if toward > 0 else back > x
    return np.where(beyond, np.nextafter(near, dtype.type(toward)), near)


def poisoned(a: NDArray[Any], word: int) -> NDArray[Any]:
    """Which elements of an array that was filled with a 32-bit word still hold it, byte for byte."""
    flat = np.ascontiguousarray(a).reshape(-1)
    size = a.dtype.itemsize
    if size % 4 == 0:
        same = (flat.view("<u4").reshape(flat.size, size // 4) == np.uint32(word)).all(axis=1)
    else:
        raw = flat.view(np.uint8)
        filling = np.array([word], "<u4").view(np.uint8)[np.arange(raw.size) % 4]
        same = (raw == filling).reshape(flat.size, size).all(axis=1)
    return np.asarray(same.reshape(a.shape))
