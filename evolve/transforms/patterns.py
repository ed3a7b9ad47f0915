"""Patterns: statements that stand for programs in the language itself (`dsl_spec/patterns/`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse_statement
from evolve.dsl.program import Statement
from evolve.dsl.registry import Derived, Pattern, patterns
from evolve.ir.kernel import Kernel
from evolve.transforms.call import TRANSFORMS, Call, Result, Transform
from evolve.transforms.names import NameTable
from evolve.transforms.shapes import CONDITIONS, NAMES

Apply = Callable[[Kernel, Statement, NameTable], tuple[Kernel, NameTable]]
Values = Mapping[str, tuple[str, ...]]

_PLACE = re.compile(r"\{(\w+)\}([\w.]*)")
_LIST = re.compile(r"\[([^\[\]]*)\]")


def register(apply: Apply) -> None:
    """Enters the patterns into the table of transforms; their statements are applied by `apply`."""
    for name, pattern in patterns().items():
        TRANSFORMS[name] = _transform(pattern, apply)


def expansion(call: Call, pattern: Pattern) -> tuple[str, ...]:
    """The statements that a pattern stands for. Raises RefusedError E-PATTERN with the reason, or E-NAME."""
    values = {p.name: _argument(call, p.name, p.type) for p in pattern.spec.parameters}
    for one in pattern.applies:
        reason = CONDITIONS[one.rule](call.kernel, *_of(one, values))
        if reason is not None:
            raise RefusedError("E-PATTERN", f"{pattern.spec.name} does not apply: {reason}")
    for name, derived in pattern.names.items():
        values[name] = NAMES[derived.rule](call.kernel, *_of(derived, values))
    for name, factors in pattern.numbers.items():
        product = 1
        for factor in factors:
            product *= int(*values[factor])
        values[name] = (str(product),)
    lines = (fill(line, values) for line in pattern.program)
    return tuple(line for line in lines if line is not None)


def fill(line: str, values: Values) -> str | None:
    """A line of a pattern's program with its arguments; None where nothing is left to be done.

    `{loops}.o` stands for that of each loop. What is empty is left out of a list; a line with an empty list,
    or with an empty argument, is left out.
    """
    out = _LIST.sub(lambda m: f"[{', '.join(_items(m[1], values))}]", line)
    if "[]" in out or any(not values[m[1]] for m in _PLACE.finditer(out)):
        return None
    return _PLACE.sub(lambda m: ", ".join(f"{v}{m[2]}" for v in values[m[1]]), out)


def _items(text: str, values: Values) -> list[str]:
    out: list[str] = []
    for item in (x.strip() for x in text.split(",")):
        place = _PLACE.fullmatch(item)
        out += [f"{v}{place[2]}" for v in values[place[1]]] if place else [item]
    return out


def _of(one: Derived, values: Values) -> list[str]:
    return [v for name in one.of for v in values[name]]


def _argument(call: Call, name: str, kind: str) -> tuple[str, ...]:
    if call.value(name) is None:
        return ()
    match kind:
        case "loops":
            return call.loops(name)
        case "loop":
            (found,) = call.loops(name)[:1]
            call.site(name)
            return (found,)
        case "buffer":
            return (call.buffer(name).name,)
        case "int":
            return (str(call.integer(name)),)
        case _:
            return (call.word(name),)


def _transform(pattern: Pattern, apply: Apply) -> Transform:
    def expand(call: Call) -> Result:
        kernel, names = call.kernel, call.names
        for text in expansion(call, pattern):
            try:
                kernel, names = apply(kernel, parse_statement(text), names)
            except RefusedError as e:
                d = e.diagnostic
                if d.code == "E-NO-CHANGE" and text.startswith("specialize("):
                    continue  # known already
                raise RefusedError(
                    d.code, f"in `{text}`: {d.message}", witness=d.witness, repair=d.repair
                ) from e
        return kernel, names

    return expand
