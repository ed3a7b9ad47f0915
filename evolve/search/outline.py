"""What the statements of a program refer to and which values they set, read off `dsl_spec/`.

Mutation and crossover work on this. A statement refers to loops and buffers by name; numbers and
choices are its values. Its *subjects* are what it is about: a loop of the kernel with all loops made
from it, or an array with its copies and their loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from evolve.dsl.parser import parse
from evolve.dsl.program import Hole, ListValue, Name, Operation, Program, Statement, Value
from evolve.dsl.registry import Parameter
from evolve.dsl.registry import statements as vocabulary
from evolve.ir.errors import EvolveError

LOOPS = ("loop", "loops")
REFERENCES = (*LOOPS, "buffer")
VALUES = ("int", "ints", "choice")


def read(text: str) -> Program | None:
    """The program, None if the text is not in the language."""
    try:
        return parse(text)
    except EvolveError:
        return None


def signature(s: Statement) -> tuple[Parameter, ...]:
    """The parameters of a statement's primitive."""
    return vocabulary()[s.primitive].parameters


def given(s: Statement) -> dict[str, Value]:
    """A statement's arguments by parameter, without those left at their default."""
    positional = (p.name for p in signature(s) if p.is_positional)
    return dict(zip(positional, s.args, strict=True)) | dict(s.keywords)


def with_given(s: Statement, values: Mapping[str, Value]) -> Statement:
    """The statement with these arguments, in canonical form. Raises KeyError without a required one."""
    args = tuple(values[p.name] for p in signature(s) if p.is_positional)
    keywords = tuple(
        (p.name, values[p.name])
        for p in signature(s)
        if not p.is_positional and p.name in values and values[p.name] != _default(p)
    )
    return replace(s, args=args, keywords=keywords)


def _default(p: Parameter) -> Value | None:
    return Name(p.default) if isinstance(p.default, str) else p.default


def is_knowledge(s: Statement) -> bool:
    """Whether the statement states a condition on the sizes."""
    return any(p.type == "condition" for p in signature(s))


def names_in(v: Value) -> tuple[str, ...]:
    """The names in an argument that refers to loops or to a buffer."""
    match v:
        case Name():
            return (v.text,)
        case ListValue():
            return tuple(n for item in v.items for n in names_in(item))
        case _:
            return ()


def references(s: Statement, types: tuple[str, ...] = REFERENCES) -> tuple[str, ...]:
    """The loops and buffers that a statement names, in textual order."""
    values = given(s)
    return tuple(
        n for p in signature(s) if p.type in types and p.name in values for n in names_in(values[p.name])
    )


def referring(s: Statement, to: Callable[[str], tuple[str, ...]]) -> Statement | None:
    """The statement with each name that it refers to replaced by the names `to(name)`.

    A name replaced by none leaves its group, and with it its number of a list that has one for each
    loop. None where nothing is left, or where one loop or buffer is wanted and there are several.
    """
    values = given(s)
    for p in signature(s):
        if p.type not in REFERENCES or p.name not in values:
            continue
        before = names_in(values[p.name])
        after = [to(name) for name in before]
        found = tuple(dict.fromkeys(n for names in after for n in names))
        if not found or (p.type != "loops" and len(found) != 1):
            return None
        values[p.name] = Name(found[0]) if len(found) == 1 else ListValue(tuple(map(Name, found)))
        for other in signature(s):
            numbers = values.get(other.name)
            if other.type == "ints" and isinstance(numbers, ListValue) and len(numbers.items) == len(before):
                kept = tuple(n for n, names in zip(numbers.items, after, strict=True) if names)
                values[other.name] = ListValue(kept)
                if len(kept) == 1:
                    values[p.name] = ListValue((Name(found[0]),))
    return with_given(s, values)


def settings(s: Statement) -> dict[str, Value]:
    """The numbers and choices of a statement by parameter."""
    values = given(s)
    return {p.name: values[p.name] for p in signature(s) if p.type in VALUES and p.name in values}


def slot(s: Statement) -> tuple[str, tuple[str, ...]]:
    """What is equal in statements that differ in values and names of results only."""
    return s.primitive, references(s)


def root(name: str) -> str:
    """The loop or buffer that a path name starts from."""
    return name.split(".", 1)[0]


def subjects(statements: tuple[Statement, ...]) -> tuple[frozenset[str], ...]:
    """For each statement the roots of what it is about; none where it is about the whole kernel.

    A copy belongs to the array it was made from. A statement about a buffer is not about the loop
    that says where.
    """
    family: dict[str, str] = {}
    out = []
    for s in statements:
        buffers = references(s, ("buffer",))
        about = {root(n) for n in buffers or references(s, LOOPS)}
        about = {family.get(one, one) for one in about}
        if buffers:
            family |= dict.fromkeys(s.targets, min(about))
        out.append(frozenset(about))
    return tuple(out)


@dataclass(frozen=True)
class Number:
    """An integer argument: of which statement and parameter, which item of a list (None: no list)."""

    statement: int
    parameter: str
    item: int | None
    value: int
    minimum: int


def numbers(statements: tuple[Statement, ...]) -> list[Number]:
    """The integers among the values, in textual order; conditions hold none."""
    out = []
    for at, s in enumerate(statements):
        values = given(s)
        for p in signature(s):
            if p.type not in ("int", "ints") or p.name not in values:
                continue
            value = values[p.name]
            items = list(enumerate(value.items)) if isinstance(value, ListValue) else [(None, value)]
            out += [Number(at, p.name, i, v, p.minimum or 0) for i, v in items if isinstance(v, int)]
    return out


def with_number(statements: tuple[Statement, ...], n: Number, value: Value) -> tuple[Statement, ...]:
    """The statements with another value, or a hole, at a number's place."""
    s = statements[n.statement]
    values = given(s)
    old = values[n.parameter]
    if n.item is not None:
        assert isinstance(old, ListValue)
        value = ListValue((*old.items[: n.item], value, *old.items[n.item + 1 :]))
    values[n.parameter] = value
    return (*statements[: n.statement], with_given(s, values), *statements[n.statement + 1 :])


def filled(s: Statement) -> Statement:
    """The statement with the first choice of each hole."""

    def first(v: Value) -> Value:
        match v:
            case Hole():
                return first(v.choices[0])
            case ListValue():
                return ListValue(tuple(map(first, v.items)))
            case Operation():
                return Operation(v.op, first(v.lhs), first(v.rhs))
            case _:
                return v

    return replace(s, args=tuple(map(first, s.args)), keywords=tuple((k, first(v)) for k, v in s.keywords))


def scaled_divisors(statements: tuple[Statement, ...], factor: int) -> tuple[Statement, ...]:
    """The statements with the divisors in conditions multiplied: `n % 64 == 0` by 2 is `n % 128 == 0`."""

    def scaled(v: Value) -> Value:
        match v:
            case Operation("%", lhs, int(divisor)):
                return Operation("%", lhs, divisor * factor)
            case Operation():
                return Operation(v.op, scaled(v.lhs), scaled(v.rhs))
            case _:
                return v

    return tuple(
        replace(s, args=tuple(scaled(v) for v in s.args)) if is_knowledge(s) else s for s in statements
    )
