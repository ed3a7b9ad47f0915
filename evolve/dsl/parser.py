"""Program text to `Program`: grammar, signatures, spellings, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

from evolve.dsl.program import Hole, ListValue, Name, Operation, Program, Statement, Value, print_value
from evolve.dsl.registry import PARAMETER_TYPES, Parameter, Primitive, aliases, statements
from evolve.dsl.simple import Raw, is_empty, read_line
from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir

MAX_BYTES = 64 * 1024
MAX_STATEMENTS = 400
MAX_NESTING = 16
MAX_DIGITS = 100
MAX_HOLES = 64
MAX_INTEGER = 2**31 - 1
MAX_CHAIN = 16
MAX_OPERATORS = 8
"""Operands in a row, and arithmetic operators in one comparison: what simplification does quickly."""

_COMPARISONS = frozenset(("==", "!=", "<=", ">=", "<", ">"))


def parse(text: str, file: str | None = None) -> Program:
    """The program, each statement brought to canonical form.

    Raises EvolveError `malformed-program` with the line: not in the grammar, an unknown primitive,
    arguments that do not fit its signature, or over a limit (64 KiB, 400 statements, 16 levels of
    brackets, 64 holes).
    """
    _check_limits(text, file)
    known = _line_by_line(text)
    read = (_raw(tree, file) for tree in _read(text, file)) if known is None else known
    program = Program(tuple(_statement(raw, file) for raw in read))
    if len(program.statements) > MAX_STATEMENTS:
        raise _error(f"the program has more than {MAX_STATEMENTS} statements", None, file)
    if len(program.holes()) > MAX_HOLES:
        raise _error(f"the program has more than {MAX_HOLES} holes", None, file)
    return program


@lru_cache(maxsize=4096)
def parse_statement(text: str) -> Statement:
    """One statement. Raises EvolveError `malformed-program`."""
    program = parse(text)
    if len(program.statements) != 1:
        raise _error(f"one statement is expected, not {len(program.statements)}", None, None)
    return program.statements[0]


def _error(message: str, line: int | None, file: str | None, hint: str | None = None) -> EvolveError:
    return EvolveError("malformed-program", message, file=file, line=line, hint=hint)


def _check_limits(text: str, file: str | None) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _error(f"the program is longer than {MAX_BYTES} bytes", None, file)
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        for char in line.split("#", 1)[0]:
            depth += (char in "([") - (char in ")]")
            if depth > MAX_NESTING:
                raise _error(f"brackets are nested deeper than {MAX_NESTING}", number, file)
        if re.search(rf"\d{{{MAX_DIGITS + 1}}}", line.split("#", 1)[0]):
            raise _error(f"a number has more than {MAX_DIGITS} digits", number, file)


@cache
def _lark() -> Any:
    from lark import Lark

    grammar = (data_dir("dsl_spec") / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _read(text: str, file: str | None) -> list[Any]:
    from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

    try:
        tree = _lark().parse(text)
    except UnexpectedInput as e:
        line = e.line if e.line and e.line > 0 else len(text.splitlines()) or 1
        shown = text.splitlines()[line - 1].strip() if text.splitlines() else ""
        if isinstance(e, UnexpectedCharacters):
            what = f"character {e.char!r}"
        elif isinstance(e, UnexpectedToken) and e.token.type not in ("$END", "_NL"):
            what = f"`{e.token.value}`"
        else:
            what = "end of line"
        message = f"unexpected {what} at column {max(e.column, 1)} of `{shown[:120]}`"
        raise _error(message, line, file, "write one call a line: co, ci = split(c, 64)") from None
    return [child for child in tree.children if child is not None]


def _value(node: Any) -> Value:
    from lark import Token

    if isinstance(node, Token):
        raise AssertionError(f"stray token {node!r}")
    parts = [c for c in node.children if c is not None]
    match node.data:
        case "integer":
            return int(parts[0])
        case "path":
            return Name(str(parts[0]))
        case "list":
            return ListValue(tuple(_value(p) for p in parts))
        case "hole":
            return Hole(tuple(dict.fromkeys(_value(p) for p in parts)))
        case "expression":
            return _chain(["and" if i % 2 else p for p in parts for i in (0, 1)][:-1])
        case _:
            return _chain(parts)


def _chain(parts: list[Any]) -> Value:
    """Operands with operators between them, grouped from the left."""
    if len(parts) > 2 * MAX_CHAIN:
        raise _ChainError(f"more than {MAX_CHAIN} operands in a row")
    result = _value(parts[0])
    for op, operand in zip(parts[1::2], parts[2::2], strict=True):
        result = Operation(str(op), result, _value(operand))
    return result


class _ChainError(Exception):
    """An expression is too long."""


def _line_by_line(text: str) -> list[Raw] | None:
    """The statements, each of which stands on one line; None where one is wrong, which the whole text tells
    as it should be told."""
    out = []
    for number, line in enumerate(text.split("\n"), 1):
        if not is_empty(line):
            raw = read_line(line, number) or _by_grammar(line, number)
            if raw is None:
                return None
            out.append(raw)
    return out


def _by_grammar(line: str, number: int) -> Raw | None:
    try:
        (tree,) = _read(line, None)
        return replace(_raw(tree, None), line=number)
    except (EvolveError, ValueError):
        return None


def _raw(tree: Any, file: str | None) -> Raw:
    targets_tree, name_token, *arguments = tree.children
    line = int(name_token.line)
    targets = () if targets_tree is None else tuple(str(t) for t in targets_tree.children)
    read = []
    for argument in (a for a in arguments if a is not None):
        key = None if argument.data == "positional" else str(argument.children[0])
        try:
            read.append((key, _value(argument.children[-1])))
        except _ChainError as e:
            raise _error(str(e), line, file) from None
    return Raw(line, targets, str(name_token), tuple(read))


def _statement(raw: Raw, file: str | None) -> Statement:
    line = raw.line
    primitive, implied = _lookup(raw.name, line, file)
    positional: list[Value] = []
    named: dict[str, Value] = {}
    for key, value in raw.arguments:
        if key is None:
            if named:
                raise _error("a positional argument follows a keyword argument", line, file)
            positional.append(value)
            continue
        if key in named:
            raise _error(f"{key} is given twice", line, file)
        named[key] = value
    for key, text in implied.items():
        if key in named:
            raise _error(f"{raw.name} already says {key}={text}", line, file)
        named[key] = Name(text)
    args, keywords = _bind(primitive, positional, named, line, file)
    _check_targets(primitive, raw.targets, line, file)
    return Statement(raw.targets, primitive.name, args, keywords, line)


def _lookup(name: str, line: int, file: str | None) -> tuple[Primitive, Mapping[str, str]]:
    known = statements()
    if name in known:
        return known[name], {}
    if name in aliases():
        target, implied = aliases()[name]
        return known[target], implied
    close = get_close_matches(name, [*known, *aliases()], n=1)
    hint = f"did you mean {close[0]}?" if close else f"primitives: {', '.join(known)}"
    raise _error(f"there is no primitive {name}", line, file, hint)


def _bind(
    primitive: Primitive, positional: list[Value], named: dict[str, Value], line: int, file: str | None
) -> tuple[tuple[Value, ...], tuple[tuple[str, Value], ...]]:
    hint = primitive.signature
    if len(positional) > len(primitive.parameters):
        most = len(primitive.parameters)
        message = f"{primitive.name} takes {most} arguments, {len(positional)} given"
        raise _error(message, line, file, hint)
    given = {p.name: v for p, v in zip(primitive.parameters, positional, strict=False)}
    for key, value in named.items():
        if primitive.parameter(key) is None:
            raise _error(f"{primitive.name} has no argument {key}", line, file, hint)
        if key in given:
            raise _error(f"{primitive.name} is given {key} twice", line, file, hint)
        given[key] = value
    args: list[Value] = []
    keywords: list[tuple[str, Value]] = []
    for p in primitive.parameters:
        if p.name not in given:
            if p.is_required:
                raise _error(f"{primitive.name} needs the argument {p.name}", line, file, hint)
            continue
        value = given[p.name]
        reason = _misfit(p, value)
        if reason:
            message = f"{p.name} of {primitive.name} must be {reason}, not `{print_value(value)}`"
            raise _error(message, line, file, hint)
        if p.is_positional:
            args.append(value)
        elif value != _default(p):
            keywords.append((p.name, value))
    return tuple(args), tuple(keywords)


def _default(p: Parameter) -> Value | None:
    return Name(p.default) if isinstance(p.default, str) else p.default


def _misfit(p: Parameter, value: Value) -> str | None:
    """What the value should have been; None if it fits."""
    if isinstance(value, Hole):
        return next((r for r in (_misfit(p, c) for c in value.choices) if r), None)
    at_least = f" of at least {p.minimum}" if p.minimum is not None else ""
    match p.type:
        case "loop" | "buffer":
            fits = isinstance(value, Name)
        case "loops":
            fits = isinstance(value, Name) or (
                isinstance(value, ListValue)
                and bool(value.items)
                and all(isinstance(x, Name) for x in value.items)
            )
        case "int":
            fits = _is_integer(p, value)
        case "ints":
            fits = isinstance(value, ListValue) and all(
                all(_is_integer(p, c) for c in x.choices) if isinstance(x, Hole) else _is_integer(p, x)
                for x in value.items
            )
        case "choice":
            fits = isinstance(value, Name) and value.text in p.choices
            if not fits:
                return f"one of {', '.join(p.choices)}"
        case _:
            fits = _is_condition(value)
    return None if fits else PARAMETER_TYPES[p.type] + at_least


def _is_integer(p: Parameter, value: Value) -> bool:
    return (
        isinstance(value, int)
        and abs(value) <= MAX_INTEGER
        and (p.minimum is None or value >= int(p.minimum))
    )


def _is_condition(value: Value) -> bool:
    if not isinstance(value, Operation):
        return False
    if value.op == "and":
        return _is_condition(value.lhs) and _is_condition(value.rhs)
    return (
        value.op in _COMPARISONS
        and _is_arithmetic(value.lhs)
        and _is_arithmetic(value.rhs)
        and _operators(value) <= MAX_OPERATORS + 1
    )


def _operators(value: Value) -> int:
    return 1 + _operators(value.lhs) + _operators(value.rhs) if isinstance(value, Operation) else 0


def _is_arithmetic(value: Value) -> bool:
    match value:
        case int():
            return abs(value) <= MAX_INTEGER
        case Name():
            return "." not in value.text
        case Hole():
            return all(_is_arithmetic(c) for c in value.choices)
        case Operation():
            return value.op in ("+", "-", "*", "//", "%") and (
                _is_arithmetic(value.lhs) and _is_arithmetic(value.rhs)
            )
        case _:
            return False


def _check_targets(primitive: Primitive, targets: tuple[str, ...], line: int, file: str | None) -> None:
    least, most = primitive.results
    if targets and not least <= len(targets) <= most:
        if most == 0:
            raise _error(f"{primitive.name} has no result to name", line, file)
        count = str(most) if least == most else f"{least} to {most}"
        raise _error(f"{primitive.name} has {count} results, {len(targets)} named", line, file)
    if len(set(targets)) != len(targets):
        raise _error("one name is given to two results", line, file)
