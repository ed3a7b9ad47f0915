"""Whether a workload fits a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.types import LoopKind
from evolve.ir.visit import variables
from evolve.target.limits import BLOCK_MOST, GRID_MOST, THREADS_MOST
from evolve.workload.gates import gates, works
from evolve.workload.model import Sizes, Workload
from evolve.workload.sizes import size_text

_MAX_BYTES = 1 << 42


def validate(
    workload: Workload, kernel: Kernel, no_wrap: tuple[Expr, ...] = (), file: str | None = None
) -> None:
    """Raises EvolveError for the first thing that does not fit.

    Codes: workload-mismatch (entry, arrays, types, extents), unknown-scalar, missing-scalar,
    bad-scalar (negative, zero, too large, not an integer), wraps-around, nothing-to-do (the kernel
    stores nothing at timed sizes).
    """
    for error in _errors(workload, kernel, no_wrap):
        raise EvolveError(error.code, error.message, file=file, hint=error.hint)


def _errors(w: Workload, k: Kernel, no_wrap: tuple[Expr, ...]) -> Iterator[EvolveError]:
    if w.entry != k.name:
        yield EvolveError("workload-mismatch", f"the workload is for {w.entry}, the kernel is {k.name}")
    yield from _arrays(w, k)
    yield from _values(w, k)
    if not w.timed:
        yield EvolveError("missing-scalar", "the workload times no sizes")
    gate = gates(k)
    for title, sets in (("timed", w.timed), ("check", w.check)):
        for at, sizes in enumerate(sets, start=1):
            yield from _sizes(sizes, k, f"{title} sizes {at}")
            yield from _extents(w, k, sizes, f"{title} sizes {at}")
            yield from _ranges(w, k, sizes, f"{title} sizes {at}")
            for fact in no_wrap:
                if not evaluate(fact, sizes):
                    yield EvolveError(
                        "wraps-around",
                        f"{title} sizes {at}: {print_expr(fact)} fails: index arithmetic overflows, or the "
                        "original's launch does not cover the kernel's domain",
                        hint="choose smaller sizes or wider index types",
                    )
            if title == "timed" and not works(gate, sizes):
                needed = "; or ".join(" and ".join(print_expr(c) for c in one) for one in gate)
                message = f"{title} sizes {at}: there the kernel stores nothing"
                yield EvolveError("nothing-to-do", message, hint=f"it does where {needed}")


def _arrays(w: Workload, k: Kernel) -> Iterator[EvolveError]:
    names = [b.name for b in k.buffers]
    have = [a.name for a in w.arrays]
    for name in have:
        if name not in names:
            yield EvolveError(
                "workload-mismatch", f"the kernel has no array {name}; it has: {', '.join(names) or 'none'}"
            )
    scalars = {s.name for s in k.scalars}
    for b in k.buffers:
        if b.name not in have:
            yield EvolveError("workload-mismatch", f"the workload lacks array {b.name}")
        a = w.array(b.name)
        if a.dtype is not b.dtype:
            yield EvolveError(
                "workload-mismatch", f"array {b.name} is {a.dtype.value}, the kernel takes {b.dtype.value}"
            )
        for e in a.extents:
            unknown = sorted(variables(e) - scalars)
            if unknown:
                yield EvolveError(
                    "unknown-scalar",
                    f"array {b.name}: {size_text(e)} uses {unknown[0]}; the kernel's scalars are: "
                    f"{', '.join(sorted(scalars)) or 'none'}",
                )
    for dims in (w.launch.grid, w.launch.block):
        for e in dims:
            unknown = sorted(variables(e) - scalars)
            if unknown:
                yield EvolveError("unknown-scalar", f"launch: {size_text(e)} uses {unknown[0]}")


def _values(w: Workload, k: Kernel) -> Iterator[EvolveError]:
    scalars = {s.name for s in k.scalars}
    for a in w.arrays:
        if a.values is None:
            continue
        if a.dtype.is_float or a.role != "in":
            yield EvolveError(
                "workload-mismatch", f"array {a.name}: only integer inputs have a values clause"
            )
        for e in (a.values.low, a.values.high):
            unknown = sorted(variables(e) - scalars)
            if unknown:
                yield EvolveError("unknown-scalar", f"array {a.name}: {size_text(e)} uses {unknown[0]}")
    for c in k.contents:
        given = w.array(c.buffer).values
        if given is None or (c.nondecreasing and not given.nondecreasing):
            what = "row pointers" if c.nondecreasing else "subscripts"
            hint = f"[arrays.{c.buffer}.values] says what they are"
            yield EvolveError("workload-mismatch", f"array {c.buffer} must hold {what}", hint=hint)


def _ranges(w: Workload, k: Kernel, sizes: Sizes, where: str) -> Iterator[EvolveError]:
    """Values that the kernel relies on, which those of the workload must not leave."""
    for c in k.contents:
        given = w.array(c.buffer).values
        assert given is not None
        low, high = given.limits(sizes)
        least, most = int(evaluate(c.low, sizes)), int(evaluate(c.high, sizes)) - 1
        exact = c.nondecreasing and (low, high) != (least, most)
        if exact or low < least or high > most:
            message = f"{where}: array {c.buffer} holds {low} to {high}, the kernel takes {least} to {most}"
            yield EvolveError("workload-mismatch", message)
    for a in w.arrays:
        if a.values is not None:
            low, high = a.values.limits(sizes)
            if not a.dtype.limits[0] <= low <= high <= a.dtype.limits[1]:
                message = f"{where}: array {a.name} cannot hold {low} to {high}"
                yield EvolveError("workload-mismatch", message)


def _sizes(sizes: Sizes, k: Kernel, where: str) -> Iterator[EvolveError]:
    known = {s.name: s for s in k.scalars}
    for name in sizes:
        if name not in known:
            yield EvolveError(
                "unknown-scalar",
                f"{where}: the kernel has no scalar {name}; it has: {', '.join(known) or 'none'}",
            )
    for name, s in known.items():
        if name not in sizes:
            yield EvolveError("missing-scalar", f"{where}: {name} has no value")
        value = sizes[name]
        if s.dtype.is_float:
            continue
        if not isinstance(value, int):
            yield EvolveError("bad-scalar", f"{where}: {name} = {value} is not an integer")
        low, high = s.dtype.limits
        if s.is_size:
            low = 1
        if not low <= value <= high:
            yield EvolveError("bad-scalar", f"{where}: {name} = {value} is not between {low} and {high}")


def _extents(w: Workload, k: Kernel, sizes: Sizes, where: str) -> Iterator[EvolveError]:
    for b in k.buffers:
        need = [int(evaluate(e, sizes)) for e in b.extents]
        have = list(w.array(b.name).shape(sizes))
        if any(n < 0 for n in have):
            yield EvolveError("workload-mismatch", f"{where}: array {b.name} has a negative extent, {have}")
        if have != need:
            yield EvolveError(
                "workload-mismatch",
                f"{where}: array {b.name} has extents {have}, the kernel reaches {need}",
                hint=f"its extents are [{', '.join(size_text(e) for e in b.extents)}]",
            )
    if w.bytes_at(sizes) > _MAX_BYTES:
        yield EvolveError("bad-scalar", f"{where}: the arrays take {w.bytes_at(sizes)} bytes")
    block = [int(evaluate(e, sizes)) for e in w.launch.block]
    grid = [int(evaluate(e, sizes)) for e in w.launch.grid]
    if min(block) < 1 or prod(block) > THREADS_MOST or _beyond(block, BLOCK_MOST):
        yield EvolveError("workload-mismatch", f"launch: a block of {block} threads cannot be launched")
    if min(grid) < 0 or _beyond(grid, GRID_MOST):
        yield EvolveError("workload-mismatch", f"{where}: a grid of {grid} blocks cannot be launched")


def _beyond(dims: list[int], most: Mapping[LoopKind, int]) -> bool:
    return any(n > high for n, high in zip(dims, most.values(), strict=True))
