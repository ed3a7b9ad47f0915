"""The workload, its TOML form, and its agreement with a kernel."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evolve.ir.affine import simplify
from evolve.ir.effects import Mode, effects
from evolve.ir.errors import EvolveError
from evolve.ir.expr import Const, Expr, index
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.types import DType
from evolve.ir.visit import substitute, walk

Numerics = Literal["exact", "reassociate", "fast", "mixed"]
Role = Literal["in", "out", "inout"]
Sizes = Mapping[str, int | float]

MAX_BYTES = 16 << 30
"""Of all arrays at one shape: more is a mistake, not a workload."""


class ArrayEntry(BaseModel):
    """`[arrays.NAME]`. Extents are expressions over the scalars, as `evolve inspect` prints them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    role: Role
    extents: tuple[str, ...]
    dtype: str


class WorkloadFile(BaseModel):
    """The TOML document. `timed` shapes are timed, `check` shapes only executed and compared."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    numerics: Numerics = "reassociate"
    timed: tuple[dict[str, int], ...] = Field(min_length=1)
    check: tuple[dict[str, int], ...] = ()
    values: dict[str, int | float] = Field(default_factory=dict)
    arrays: dict[str, ArrayEntry] = Field(default_factory=dict)


@dataclass(frozen=True)
class Array:
    """One array: extents as INDEX expressions over the size scalars."""

    name: str
    role: Role
    extents: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True)
class Workload:
    """A workload that fits its kernel. `timed` and `check` hold every size; `values` the data scalars."""

    numerics: Numerics
    timed: tuple[Mapping[str, int], ...]
    check: tuple[Mapping[str, int], ...]
    values: Mapping[str, int | float]
    arrays: tuple[Array, ...]

    def scalars(self, sizes: Mapping[str, int]) -> dict[str, int | float]:
        """All by-value arguments at these sizes."""
        return {**sizes, **self.values}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Arrays that the kernel writes."""
        return tuple(a.name for a in self.arrays if a.role != "in")


def roles(kernel: Kernel) -> dict[str, Role]:
    """What the kernel does with each array: `out` is never read."""
    read: set[str] = set()
    written: set[str] = set()
    for site in walk(kernel.body):
        for access in effects(site.stmt).accesses:
            if access.mode in (Mode.READ, Mode.REDUCE):
                read.add(access.buffer)
            if access.mode in (Mode.WRITE, Mode.REDUCE):
                written.add(access.buffer)
    out: dict[str, Role] = {}
    for b in kernel.buffers:
        out[b.name] = "in" if b.name not in written else "inout" if b.name in read else "out"
    return out


def arrays_of(kernel: Kernel) -> tuple[Array, ...]:
    """The kernel's arrays with their roles, in signature order."""
    role = roles(kernel)
    held = {b.name: b for b in kernel.buffers}
    names = [p for p in kernel.params if p in held]
    return tuple(Array(n, role[n], held[n].extents, held[n].dtype) for n in names)


def extents_at(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The array's shape at these sizes. Raises EvolveError `bad-workload` for a negative or unknown extent."""
    out = []
    for e in array.extents:
        value = simplify(substitute(e, {n: index(v) for n, v in sizes.items()}))
        if not isinstance(value, Const):
            raise EvolveError("bad-workload", f"the extent {print_expr(e)} of {array.name} needs more sizes")
        if int(value.value) < 0:
            raise EvolveError("bad-workload", f"the extent {print_expr(e)} of {array.name} is negative")
        out.append(int(value.value))
    return tuple(out)


def bytes_at(workload: Workload, sizes: Mapping[str, int]) -> int:
    """Bytes of all arrays at these sizes."""
    total = 0
    for a in workload.arrays:
        n = a.dtype.size
        for e in extents_at(a, sizes):
            n *= e
        total += n
    return total


def read_workload(text: str, kernel: Kernel, file: str | None = None) -> Workload:
    """A workload from TOML, checked against the kernel.

    What the text leaves out is taken from the kernel. Raises EvolveError `bad-workload`, naming the
    file, for broken TOML, unknown keys, missing or unknown scalars, arrays that do not match.
    """
    try:
        parsed = WorkloadFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as cause:
        raise EvolveError("bad-workload", f"not TOML: {cause}", file=file) from cause
    except ValidationError as cause:
        first = cause.errors()[0]
        where = ".".join(str(p) for p in first["loc"]) or "the document"
        raise EvolveError("bad-workload", f"{where}: {first['msg']}", file=file) from cause
    try:
        return _fitted(parsed, kernel)
    except EvolveError as e:
        e.file = e.file or file
        raise


def _fitted(w: WorkloadFile, kernel: Kernel) -> Workload:
    sizes = {s.name for s in kernel.scalars if s.is_size}
    data = {s.name: s for s in kernel.scalars if not s.is_size}
    for shape in (*w.timed, *w.check):
        _same_names(set(shape), sizes, "size")
        for n, v in shape.items():
            if v < 1:
                raise EvolveError("bad-workload", f"{n} = {v}: sizes are at least 1")
            if v >= 2**31 and kernel.scalar(n).dtype.size == 4:
                raise EvolveError("bad-workload", f"{n} = {v} does not fit {kernel.scalar(n).dtype.c_name}")
    _same_names(set(w.values), set(data), "value")
    arrays = arrays_of(kernel)
    known = {a.name: a for a in arrays}
    for name, entry in w.arrays.items():
        array = known.get(name)
        if array is None:
            have = ", ".join(known)
            raise EvolveError("bad-workload", f"{kernel.name} has no array {name}", hint=f"it has {have}")
        want = (array.role, tuple(print_expr(e) for e in array.extents), array.dtype.value)
        if (entry.role, entry.extents, entry.dtype) != want:
            shown = f"{want[0]} {want[2]}[{', '.join(want[1])}]"
            raise EvolveError("bad-workload", f"array {name} does not match the kernel, where it is {shown}")
    workload = Workload(w.numerics, w.timed, w.check, dict(w.values), arrays)
    for shape in (*w.timed, *w.check):
        if bytes_at(workload, shape) > MAX_BYTES:
            raise EvolveError("bad-workload", f"the arrays at {dict(shape)} take over {MAX_BYTES >> 30} GiB")
    return workload


def _same_names(given: set[str], wanted: set[str], what: str) -> None:
    for n in sorted(given - wanted):
        raise EvolveError(
            "bad-workload",
            f"the kernel has no {what} {n}",
            hint=f"it has {', '.join(sorted(wanted)) or 'none'}",
        )
    for n in sorted(wanted - given):
        raise EvolveError("bad-workload", f"{what} {n} is missing")


def to_toml(w: Workload) -> str:
    """The workload as TOML that `read_workload` reads back."""
    lines = [f'numerics = "{w.numerics}"', ""]
    for title, shapes in (("timed", w.timed), ("check", w.check)):
        for shape in shapes:
            lines += [f"[[{title}]]", *(f"{n} = {v}" for n, v in shape.items()), ""]
    if w.values:
        lines += ["[values]", *(f"{n} = {v!r}" for n, v in w.values.items()), ""]
    for a in w.arrays:
        extents = ", ".join(f'"{print_expr(e)}"' for e in a.extents)
        lines += [f"[arrays.{a.name}]", f'role = "{a.role}"', f"extents = [{extents}]"]
        lines += [f'dtype = "{a.dtype.value}"', ""]
    return "\n".join(lines)
