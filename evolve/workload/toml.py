"""`workload.toml`: reading, checking, writing."""

from __future__ import annotations

import json
import tomllib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evolve.ir.errors import EvolveError
from evolve.ir.expr import Expr
from evolve.ir.types import DType
from evolve.workload.model import (
    EVERY_FAMILY,
    ArraySpec,
    Contract,
    Distribution,
    LaunchSpec,
    Role,
    Sizes,
    Tolerance,
    Values,
    Workload,
)
from evolve.workload.sizes import parse_size, size_text
from evolve.workload.wording import explain, not_toml

SizeText = str | int
Scalar = Annotated[int | float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Values(_Strict):
    range: list[SizeText] | None = Field(default=None, min_length=2, max_length=2)
    nondecreasing: bool | None = None
    distribution: Distribution | None = None
    parameter: float | int | None = Field(default=None, gt=0, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0)


class _Array(_Strict):
    role: Role | None = None
    dtype: Literal["f32", "f64", "i32", "u32", "i64", "u64", "u8", "bool"] | None = None
    extents: list[SizeText] | None = None
    values: _Values | None = None


class _Launch(_Strict):
    grid: list[SizeText] = Field(min_length=1, max_length=3)
    block: list[SizeText] = Field(min_length=1, max_length=3)
    shared_bytes: int = Field(default=0, ge=0, le=232_448)


class _Tolerance(_Strict):
    relative: float = Field(default=8.0, ge=0, allow_inf_nan=False)
    absolute: float = Field(default=1e-30, ge=0, allow_inf_nan=False)


class _File(_Strict):
    entry: str | None = None
    numerics: Contract | None = None
    families: list[str] | None = Field(default=None, min_length=1)
    timed: list[dict[str, Scalar]] | None = Field(default=None, min_length=1, max_length=16)
    check: list[dict[str, Scalar]] | None = Field(default=None, max_length=64)
    arrays: dict[str, _Array] = Field(default_factory=dict)
    launch: _Launch | None = None
    tolerance: _Tolerance | None = None


def to_toml(w: Workload, *, assumed_launch: bool = False) -> str:
    """The file's text; `from_toml` of it gives the same workload. An assumed launch is a comment in it, so
    that it stays assumed where the text is given back."""
    out: list[str] = [f"# {line}" for line in w.assumed]
    out += [f"entry = {_text(w.entry)}", f"numerics = {_text(w.numerics)}"]
    out += [f"families = [{', '.join(_text(f) for f in w.families)}]", ""]
    for title, sets in (("timed", w.timed), ("check", w.check)):
        for sizes in sets:
            out += [f"[[{title}]]", *(f"{k} = {_number(v)}" for k, v in sizes.items()), ""]
    for a in w.arrays:
        extents = ", ".join(_text(size_text(e)) for e in a.extents)
        out += [f"[arrays.{a.name}]", f"role = {_text(a.role)}", f"dtype = {_text(a.dtype.value)}"]
        out += [f"extents = [{extents}]", *_values_lines(a), ""]
    launch = ["[launch]"]
    for name, dims in (("grid", w.launch.grid), ("block", w.launch.block)):
        launch.append(f"{name} = [{', '.join(_text(size_text(e)) for e in dims)}]")
    if w.launch.shared_bytes:
        launch.append(f"shared_bytes = {w.launch.shared_bytes}")
    if assumed_launch:
        launch = ["# The launch is assumed. Where it is another, say so here:", *(f"# {x}" for x in launch)]
    out += launch
    out += ["", "[tolerance]", f"relative = {_number(w.tolerance.relative)}"]
    out.append(f"absolute = {_number(w.tolerance.absolute)}")
    return "\n".join(out) + "\n"


def _values_lines(a: ArraySpec) -> list[str]:
    v = a.values
    if v is None:
        return []
    out = [f"[arrays.{a.name}.values]", f"range = [{_text(size_text(v.low))}, {_text(size_text(v.high))}]"]
    if v.nondecreasing:
        out.append("nondecreasing = true")
    out.append(f"distribution = {_text(v.distribution)}")
    if v.parameter is not None:
        out.append(f"parameter = {_number(v.parameter)}")
    if v.seed:
        out.append(f"seed = {v.seed}")
    return out


def _text(s: str) -> str:
    return json.dumps(s)


def _number(v: int | float) -> str:
    if isinstance(v, (bool, int)):
        return str(int(v))
    text = repr(float(v))
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def from_toml(text: str, base: Workload, file: str | None = None, *, comment: bool = False) -> Workload:
    """`base`, the inferred workload, with what a TOML text says instead. What it does not mention stays.

    `comment`: the text is a comment in `file`, so its lines are not the file's.

    Raises EvolveError bad-workload (not TOML, unknown keys, wrong types, bad size expressions),
    unknown-array. Fit with the kernel is checked by `validate`.
    """
    given = _parse(text, file, comment)
    try:
        arrays = tuple(_array(a, given.arrays.get(a.name)) for a in base.arrays)
        launch = base.launch if given.launch is None else _launch(given.launch)
    except EvolveError as error:
        raise EvolveError("bad-workload", error.message, file=file, hint=error.hint) from error
    unknown = sorted(set(given.arrays) - {a.name for a in base.arrays})
    if unknown:
        known = ", ".join(a.name for a in base.arrays)
        raise EvolveError(
            "unknown-array", f"the kernel has no array {unknown[0]}; it has: {known}", file=file
        )
    for family in given.families or ():
        if family not in EVERY_FAMILY:
            every = ", ".join(EVERY_FAMILY)
            message = f"there is no input family {family}; there is: {every}"
            raise EvolveError("bad-workload", message, file=file)
    tolerance = base.tolerance
    if given.tolerance is not None:
        tolerance = Tolerance(given.tolerance.relative, given.tolerance.absolute)
    return Workload(
        entry=given.entry if given.entry is not None else base.entry,
        arrays=arrays,
        timed=base.timed if given.timed is None else _sets(given.timed, base.timed),
        check=base.check if given.check is None else _sets(given.check, base.check or base.timed),
        launch=launch,
        numerics=given.numerics or base.numerics,
        tolerance=tolerance,
        families=tuple(given.families) if given.families else base.families,
        assumed=base.assumed,
    )


def launch_of(text: str, file: str | None = None, *, comment: bool = False) -> LaunchSpec | None:
    """The launch in a TOML text, if it says one. Raises EvolveError bad-workload."""
    given = _parse(text, file, comment).launch
    try:
        return None if given is None else _launch(given)
    except EvolveError as error:
        raise EvolveError("bad-workload", error.message, file=file, hint=error.hint) from error


def _sets(given: list[dict[str, Any]], base: tuple[Sizes, ...]) -> tuple[Sizes, ...]:
    """Data scalars that are not mentioned keep their values; sizes must all be given."""
    data = {k: v for k, v in (base[0] if base else {}).items() if isinstance(v, float)}
    return tuple({**data, **{k: (float(v) if k in data else v) for k, v in sizes.items()}} for sizes in given)


def _array(base: ArraySpec, given: _Array | None) -> ArraySpec:
    if given is None:
        return base
    extents = base.extents
    if given.extents is not None:
        extents = _read(given.extents, f"arrays.{base.name}.extents")
    dtype = base.dtype if given.dtype is None else DType(given.dtype)
    return ArraySpec(base.name, given.role or base.role, dtype, extents, _values(base, given.values))


def _values(base: ArraySpec, given: _Values | None) -> Values | None:
    """The base's clause with what is given instead; another distribution has another parameter."""
    old = base.values
    if given is None:
        return old
    if old is None:
        if given.range is None:
            raise EvolveError("bad-size", f"workload key arrays.{base.name}.values needs a range")
        old = Values(parse_size(0), parse_size(1))
    low, high = old.low, old.high
    if given.range is not None:
        low, high = _read(given.range, f"arrays.{base.name}.values.range")
    return Values(
        low,
        high,
        old.nondecreasing if given.nondecreasing is None else given.nondecreasing,
        given.distribution or old.distribution,
        old.parameter if given.distribution is None and given.parameter is None else given.parameter,
        old.seed if given.seed is None else given.seed,
    )


def _launch(given: _Launch) -> LaunchSpec:
    one = parse_size(1)
    grid = (*_read(given.grid, "launch.grid"), one, one)
    block = (*_read(given.block, "launch.block"), one, one)
    return LaunchSpec((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), given.shared_bytes)


def _read(sizes: list[SizeText], key: str) -> tuple[Expr, ...]:
    """Size expressions. Raises EvolveError bad-size that names the key."""
    out: list[Expr] = []
    for at, text in enumerate(sizes, start=1):
        try:
            out.append(parse_size(text))
        except EvolveError as error:
            message = f"workload key {key}[{at}]: {error.message}"
            raise EvolveError(error.code, message, hint=error.hint) from error
    return tuple(out)


def _parse(text: str, file: str | None, comment: bool) -> _File:
    try:
        return _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise not_toml(error, file, comment=comment) from error
    except ValidationError as error:
        raise explain(error, file) from error
    except RecursionError as error:
        raise EvolveError("bad-workload", "the workload is nested too deeply", file=file) from error
    except ValueError as error:  # an integer of thousands of digits
        raise EvolveError("bad-workload", "a number in the workload is too long", file=file) from error
