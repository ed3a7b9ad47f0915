"""Reads what most statements are made of, names, numbers and lists of them, without the grammar's parser.

That takes a third of a millisecond a statement, more than most transforms. Whatever is not plainly of this
form, mistakes above all, is left to the grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from evolve.dsl.program import ListValue, Name, Value

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ATOM = rf"(?:[0-9]{{1,9}}|{_NAME}(?:\.[A-Za-z0-9_]+)*)"
_LIST = rf"\[[ \t]*{_ATOM}(?:[ \t]*,[ \t]*{_ATOM})*[ \t]*\]"
_ARGUMENT = rf"(?:{_NAME}[ \t]*=[ \t]*)?(?:{_ATOM}|{_LIST})"
_STATEMENT = re.compile(
    rf"[ \t]*(?:({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)[ \t]*=[ \t]*)?({_NAME})[ \t]*"
    rf"\([ \t]*((?:{_ARGUMENT}(?:[ \t]*,[ \t]*{_ARGUMENT})*)?)[ \t]*\)[ \t]*"
)
_ONE = re.compile(rf"(?:({_NAME})[ \t]*=[ \t]*)?({_ATOM}|{_LIST})")
_ITEM = re.compile(_ATOM)
_OPERATOR = "and"
"""The one word that may be no name."""
_LONGEST = 1000
"""Characters of a line: matching what does not match may take their square."""


@dataclass(frozen=True)
class Raw:
    """A statement as written: arguments in order, with the keyword of those that have one."""

    line: int
    targets: tuple[str, ...]
    name: str
    arguments: tuple[tuple[str | None, Value], ...]


def read_line(line: str, number: int) -> Raw | None:
    """The statement on a line, which has one; None where the grammar has to say what it is."""
    said = line.partition("#")[0]
    found = _STATEMENT.fullmatch(said) if len(said) <= _LONGEST else None
    if found is None or _OPERATOR in _ITEM.findall(said):
        return None
    targets, name, arguments = found.groups()
    read = tuple((key or None, _value(value)) for key, value in _ONE.findall(arguments))
    return Raw(number, tuple(_ITEM.findall(targets or "")), name, read)


@lru_cache(maxsize=4096)
def read_value(text: str) -> Value | None:
    """One argument; None where the grammar has to say what it is."""
    plain = _ONE.fullmatch(text) and "=" not in text and _OPERATOR not in _ITEM.findall(text)
    return _value(text) if plain else None


def is_empty(line: str) -> bool:
    """Whether nothing stands on a line but a comment."""
    return not line.partition("#")[0].strip(" \t")


def _value(text: str) -> Value:
    if text[0] == "[":
        return ListValue(tuple(_value(x) for x in _ITEM.findall(text)))
    return int(text) if text[0].isdigit() else Name(text)
