"""What is wrong in a workload file, for the person who wrote it: which key, what it holds, what to write."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from evolve.ir.errors import EvolveError
from evolve.workload.model import DISTRIBUTIONS, EVERY_FAMILY, Contract, Role

_BRANCHES = ("int", "float", "str", "bool")
"""Members of unions, which pydantic puts behind the keys."""
_SHOWN = 40


def _either(names: Sequence[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)


_SHAPE = 'a list of sizes, which are numbers or expressions in quotes: ["rows", "cols + 1"]'
_DIMS = 'a list of 1 to 3 sizes, as ["(n + 255) / 256"] or [256]'
_SETS = "tables, each under its own heading [[{0}]] with a line `name = value` for every size"
EXPECTED: Mapping[tuple[str, ...], str] = {
    ("entry",): 'the kernel\'s name in quotes, entry = "softmax"',
    ("numerics",): f"numerics = {_either(get_args(Contract))}",
    ("families",): f"a list of input families, at least one: {_either(EVERY_FAMILY)}",
    ("families", "*"): f"an input family: {_either(EVERY_FAMILY)}",
    ("timed",): f"1 to 16 {_SETS.format('timed')}",
    ("timed", "*"): _SETS.format("timed"),
    ("timed", "*", "*"): "a finite number, without quotes",
    ("check",): f"at most 64 {_SETS.format('check')}",
    ("check", "*"): _SETS.format("check"),
    ("check", "*", "*"): "a finite number, without quotes",
    ("arrays",): "a table for each array, under the heading [arrays.NAME]",
    ("arrays", "*"): "a table under the heading [arrays.NAME], with role, dtype, extents or values",
    ("arrays", "*", "role"): f"role = {_either(get_args(Role))}",
    ("arrays", "*", "dtype"): f"dtype = {_either(('f32', 'f64', 'i32', 'u32', 'i64', 'u64', 'u8', 'bool'))}",
    ("arrays", "*", "extents"): _SHAPE,
    ("arrays", "*", "extents", "*"): 'a size: a number, or an expression in quotes, "cols + 1"',
    ("arrays", "*", "values"): (
        "a table under the heading [arrays.NAME.values], with range, nondecreasing, distribution, parameter "
        "or seed"
    ),
    ("arrays", "*", "values", "range"): 'the least value and the end of the values, as [0, "cols"]',
    ("arrays", "*", "values", "range", "*"): 'a size: a number, or an expression in quotes, "nnz + 1"',
    ("arrays", "*", "values", "nondecreasing"): "true or false",
    ("arrays", "*", "values", "distribution"): f"distribution = {_either(DISTRIBUTIONS)}",
    ("arrays", "*", "values", "parameter"): "a finite number above 0",
    ("arrays", "*", "values", "seed"): "a whole number of at least 0",
    ("launch",): "a table under the heading [launch], with grid and block",
    ("launch", "grid"): _DIMS,
    ("launch", "grid", "*"): 'a size: a number, or an expression in quotes, "(n + 255) / 256"',
    ("launch", "block"): _DIMS,
    ("launch", "block", "*"): 'a size: a number, or an expression in quotes, "(n + 255) / 256"',
    ("launch", "shared_bytes"): "a number of bytes between 0 and 232448",
    ("tolerance",): "a table under the heading [tolerance], with relative or absolute",
    ("tolerance", "relative"): "a finite number of at least 0",
    ("tolerance", "absolute"): "a finite number of at least 0",
}
"""What each key may hold; * stands for any name or place in a list."""


def explain(error: ValidationError, file: str | None) -> EvolveError:
    """`bad-workload` for the first thing that pydantic found wrong."""
    first = error.errors(include_url=False, include_context=False)[0]
    loc = first["loc"]
    while len(loc) > 1 and loc[-1] in _BRANCHES and _pattern(loc) not in EXPECTED:
        loc = loc[:-1]
    expected = EXPECTED.get(_pattern(loc))
    hint = f"write {expected}" if expected else None
    match first["type"]:
        case "extra_forbidden":
            wrong = "is not known"
            place = f"{_path(loc[:-1])} can have" if len(loc) > 1 else "known keys"
            above = _pattern(loc[:-1])
            hint = f"{place}: {', '.join(p[-1] for p in EXPECTED if p[:-1] == above)}"
        case "missing":
            wrong = "is missing"
        case _:
            wrong = f"cannot be {_shown(first['input'])}"
    return EvolveError("bad-workload", f"workload key {_path(loc)} {wrong}", file=file, hint=hint)


def not_toml(error: tomllib.TOMLDecodeError, file: str | None, *, comment: bool) -> EvolveError:
    """`bad-workload` for a text that is not TOML, with the line; in a comment lines count from its start."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error), re.DOTALL)
    what, line = (found[1], int(found[2])) if found else (str(error), None)
    what = what[:1].lower() + what[1:]
    place = f"line {line} of the workload comment" if comment and line else "the workload"
    return EvolveError(
        "bad-workload",
        f"{place} is not TOML: {what}",
        file=file,
        line=None if comment else line,
        hint='TOML has lines like n = 1048576 or numerics = "exact", under headings like [[timed]]',
    )


def _pattern(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """The key of `EXPECTED` for a place."""
    out: list[str] = []
    for at, key in enumerate(loc):
        named = (at, loc[0]) in ((1, "arrays"), (2, "timed"), (2, "check"))
        out.append("*" if named or isinstance(key, int) else str(key))
    return tuple(out)


def _path(loc: tuple[int | str, ...]) -> str:
    """`timed[2].n`, lists counted from 1."""
    out = ""
    for key in loc:
        out += f"[{key + 1}]" if isinstance(key, int) else f".{key}" if out else key
    return out


def _shown(value: Any) -> str:
    """A value as TOML would have it, cut."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list) and (not value or any(isinstance(x, Mapping) for x in value)):
        return f"a list of {len(value)} tables" if value else "an empty list"
    if isinstance(value, float):
        return repr(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " …"
