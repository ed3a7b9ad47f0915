"""A matcher of GBNF, as much as `dsl.grammar` writes: literals, classes, groups, `|`, `?` and `{m,n}`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\[[^\]]*\]|\{\d+,\d+\}|[a-z][a-z0-9-]*|[()|?])')
Node = tuple[str, Any]


@dataclass
class Grammar:
    """Rules by name; `matches` asks whether a whole text is what `root` says."""

    rules: dict[str, Node]
    _text: str = ""
    _known: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)

    def matches(self, text: str) -> bool:
        self._text, self._known = text, {}
        return len(text) in self._ends(self.rules["root"], 0)

    def _ends(self, node: Node, at: int) -> frozenset[int]:
        """Where a match that begins there can end."""
        key = (id(node), at)
        if key not in self._known:
            self._known[key] = frozenset(self._found(node, at))
        return self._known[key]

    def _found(self, node: Node, at: int) -> Iterator[int]:
        kind, of = node
        match kind:
            case "text":
                if self._text.startswith(of, at):
                    yield at + len(of)
            case "class":
                if at < len(self._text) and any(low <= self._text[at] <= high for low, high in of):
                    yield at + 1
            case "name":
                yield from self._ends(self.rules[of], at)
            case "or":
                for one in of:
                    yield from self._ends(one, at)
            case "then":
                here = {at}
                for one in of:
                    here = {end for start in here for end in self._ends(one, start)}
                yield from here
            case _:
                one, least, most = of
                here = {at}
                for n in range(most + 1):
                    if n >= least:
                        yield from here
                    here = {end for start in here for end in self._ends(one, start)}


def read(text: str) -> Grammar:
    """The grammar. Raises ValueError on what is none, and where a rule is missing or begins with itself."""
    rules = {}
    for line in text.splitlines():
        name, arrow, rule = line.partition(" ::= ")
        if not arrow or name in rules:
            raise ValueError(line)
        tokens = _tokens(rule)
        rules[name] = _either(tokens)
        if tokens:
            raise ValueError(f"{name}: {tokens}")
    for name in rules:
        if name in _first(rules, rules[name], set()):
            raise ValueError(f"{name} begins with itself")
    return Grammar(rules)


def _tokens(rule: str) -> list[str]:
    out, at = [], 0
    while at < len(rule.rstrip()):
        found = _TOKEN.match(rule, at)
        if found is None:
            raise ValueError(rule[at:])
        out.append(found[1])
        at = found.end()
    return out[::-1]


def _either(tokens: list[str]) -> Node:
    alternatives = [_sequence(tokens)]
    while tokens and tokens[-1] == "|":
        tokens.pop()
        alternatives.append(_sequence(tokens))
    return ("or", alternatives)


def _sequence(tokens: list[str]) -> Node:
    parts: list[Node] = []
    while tokens and tokens[-1] not in ("|", ")"):
        token = tokens.pop()
        if token == "(":
            parts.append(_either(tokens))
            if not tokens or tokens.pop() != ")":
                raise ValueError("a bracket is not closed")
        elif token == "?":
            parts.append(("times", (parts.pop(), 0, 1)))
        elif token[0] == "{":
            least, most = map(int, token[1:-1].split(","))
            parts.append(("times", (parts.pop(), least, most)))
        elif token[0] == '"':
            parts.append(("text", json.loads(token)))
        elif token[0] == "[":
            parts.append(("class", [(a, b or a) for a, b in re.findall(r"(.)(?:-(.))?", token[1:-1])]))
        else:
            parts.append(("name", token))
    return ("then", parts)


def _first(rules: dict[str, Node], node: Node, seen: set[str]) -> set[str]:
    """The rules that may stand where this one begins. Raises ValueError for one that is not there."""
    kind, of = node
    if kind == "name":
        if of not in rules:
            raise ValueError(f"no rule {of}")
        if of not in seen:
            seen.add(of)
            _first(rules, rules[of], seen)
    elif kind == "or":
        for one in of:
            _first(rules, one, seen)
    elif kind == "then":
        for one in of:
            _first(rules, one, seen)
            if not (one[0] == "times" and one[1][1] == 0):
                break
    elif kind == "times":
        _first(rules, of[0], seen)
    return seen
