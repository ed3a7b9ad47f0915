"""Transform programs as data, and their canonical text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never


@dataclass(frozen=True)
class Name:
    """A loop, group, buffer, scalar or keyword such as `grid.x`, by its path name."""

    text: str


@dataclass(frozen=True)
class Hole:
    """`?[64, 128]`: one of these values, to be chosen by the tuner."""

    choices: tuple[Value, ...]


@dataclass(frozen=True)
class Operation:
    """An operator of a condition: arithmetic `+ - * // %`, a comparison, or `and`."""

    op: str
    lhs: Value
    rhs: Value


@dataclass(frozen=True)
class ListValue:
    """A list, such as a group of loops or one number a dimension."""

    items: tuple[Value, ...]


Value: TypeAlias = int | Name | Hole | Operation | ListValue


@dataclass(frozen=True)
class Statement:
    """`targets = primitive(*args, **keywords)`.

    `args` are the positional arguments in order, `keywords` the others that differ from their default,
    in the order of the primitive's signature: equal statements have equal fields. `line` is 1-based.
    """

    targets: tuple[str, ...]
    primitive: str
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...] = ()
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return print_statement(self)


@dataclass(frozen=True)
class Program:
    """Statements in order. `str(program)` is its canonical text, which parses to an equal program."""

    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        return print_program(self)

    def holes(self) -> tuple[Hole, ...]:
        """All holes in textual order."""
        return tuple(h for s in self.statements for v in values_of(s) for h in _holes(v))


def values_of(s: Statement) -> tuple[Value, ...]:
    """All argument values of a statement in textual order."""
    return (*s.args, *(v for _, v in s.keywords))


def _holes(v: Value) -> Iterator[Hole]:
    match v:
        case Hole():
            yield v
        case Operation():
            yield from _holes(v.lhs)
            yield from _holes(v.rhs)
        case ListValue():
            for item in v.items:
                yield from _holes(item)
        case _:
            pass


_LEVEL = {"and": 1, "+": 3, "-": 3, "*": 4, "//": 4, "%": 4}
_COMPARISON_LEVEL = 2


def print_value(v: Value, outer: int = 0) -> str:
    """The value as the grammar reads it, with the fewest parentheses that keep the tree."""
    match v:
        case int():
            return str(v)
        case Name():
            return v.text
        case Hole():
            return f"?[{', '.join(print_value(c) for c in v.choices)}]"
        case ListValue():
            return f"[{', '.join(print_value(x) for x in v.items)}]"
        case Operation():
            level = _LEVEL.get(v.op, _COMPARISON_LEVEL)
            left = level + 1 if level == _COMPARISON_LEVEL else level
            text = f"{print_value(v.lhs, left)} {v.op} {print_value(v.rhs, level + 1)}"
            return f"({text})" if level < outer else text
        case _:
            assert_never(v)


def print_statement(s: Statement) -> str:
    """One line."""
    head = f"{', '.join(s.targets)} = " if s.targets else ""
    parts = [print_value(v) for v in s.args] + [f"{k}={print_value(v)}" for k, v in s.keywords]
    return f"{head}{s.primitive}({', '.join(parts)})"


def print_program(p: Program) -> str:
    """One statement a line, each ended by a newline."""
    return "".join(f"{print_statement(s)}\n" for s in p.statements)
