"""The host function of a text as a tree of tuples, conversions that change nothing left out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evolve.frontend.clang import binary_operator, children, evaluate, kind, parse, unary_operator
from evolve.ir.errors import EvolveError
from evolve.validation.declarations import DECLARATIONS, HOST, HOST_LINES
from evolve.validation.verdict import UnreadError

Node = tuple[Any, ...]
"""(what, …): num value | name key spelling | cast type node | op sign left right type | call name nodes |
launch kernel grid block shared stream nodes | lambda hash | null"""


@dataclass(frozen=True)
class Declared:
    key: int
    name: str
    type: str
    init: Node | None
    line: int


@dataclass(frozen=True)
class Does:
    """An expression as a statement."""

    node: Node
    line: int


@dataclass(frozen=True)
class Asks:
    """`if (cond) then`, or a block under no condition (None)."""

    cond: Node | None
    then: tuple[Step, ...]
    line: int


@dataclass(frozen=True)
class Gives:
    node: Node
    line: int


Step = Declared | Does | Asks | Gives


@dataclass(frozen=True)
class Host:
    """`params`: key, name and type of each."""

    params: tuple[tuple[int, str, str], ...]
    body: tuple[Step, ...]
    line: int


def read_host(text: str, launched: frozenset[str]) -> Host:
    """The function of a text that launches these kernels, the only one that does. Raises UnreadError."""
    try:
        parsed = parse("launched.cu", DECLARATIONS + HOST + text)
    except EvolveError as e:
        raise UnreadError(f"clang cannot parse the text: {e}") from e
    if parsed.problems:
        first = parsed.problems[0]
        raise UnreadError(f"clang: {first.message}", first.line - HOST_LINES)
    reader = _Reader(text)
    found = [f for f in _functions(parsed.root) if launched & _launches(f)]
    if len(found) != 1:
        raise UnreadError(f"{len(found)} functions that launch kernels")
    return reader.function(found[0])


def _functions(cursor: Any) -> list[Any]:
    out = []
    for c in children(cursor):
        if c.location.file is None or c.location.file.name != "launched.cu":
            continue
        if kind(c) in ("LINKAGE_SPEC", "UNEXPOSED_DECL", "NAMESPACE"):
            out += _functions(c)
        elif kind(c) == "FUNCTION_DECL" and c.is_definition():
            out.append(c)
    return out


def _launches(c: Any) -> set[str]:
    """The kernels that a function launches."""
    return {x.spelling for x in c.walk_preorder() if kind(x) == "CALL_EXPR" and _configuration(x) is not None}


def _configuration(c: Any) -> Any | None:
    calls = [x for x in children(c)[1:2] if kind(x) == "CALL_EXPR"]
    return next((x for x in calls if x.spelling == "__cudaPushCallConfiguration"), None)


def type_name(t: Any) -> str:
    """A type's canonical spelling, without what cannot be written or aliased."""
    spelled = t.get_canonical().spelling.replace("__restrict", "").replace("*const", "*")
    return " ".join(w for w in spelled.split() if w not in ("const", "volatile", "enum", "struct"))


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()

    def function(self, c: Any) -> Host:
        params = tuple((p.hash, p.spelling, type_name(p.type)) for p in children(c) if kind(p) == "PARM_DECL")
        (body,) = [x for x in children(c) if kind(x) == "COMPOUND_STMT"]
        return Host(params, self.steps(body), _line(c))

    def steps(self, c: Any) -> tuple[Step, ...]:
        if kind(c) == "COMPOUND_STMT":
            return tuple(s for x in children(c) for s in self.step(x))
        return self.step(c)

    def step(self, c: Any) -> tuple[Step, ...]:
        k, line = kind(c), _line(c)
        if k == "DECL_STMT":
            return tuple(self.declared(d) for d in children(c))
        if k == "IF_STMT":
            parts = children(c)
            if len(parts) != 2:
                raise UnreadError("another side of a condition", line)
            return (Asks(self.node(parts[0]), self.steps(parts[1]), line),)
        if k == "COMPOUND_STMT":
            return (Asks(None, self.steps(c), line),)
        if k == "RETURN_STMT":
            return (Gives(self.node(children(c)[0]), line),)
        if c.kind.is_expression():
            return (Does(self.node(c), line),)
        raise UnreadError(k.lower().replace("_", " "), line)

    def declared(self, d: Any) -> Declared:
        if kind(d) != "VAR_DECL" or d.storage_class.name != "NONE":
            raise UnreadError(f"declaration of {d.spelling}", _line(d))
        init = [x for x in children(d) if x.kind.is_expression()]
        return Declared(
            d.hash, d.spelling, type_name(d.type), self.node(init[-1]) if init else None, _line(d)
        )

    def node(self, c: Any) -> Node:
        k = kind(c)
        if k in ("INTEGER_LITERAL", "FLOATING_LITERAL", "CXX_BOOL_LITERAL_EXPR"):
            return ("num", evaluate(c))
        if k in ("CXX_NULL_PTR_LITERAL_EXPR", "GNU_NULL_EXPR"):
            return ("null",)
        if k == "PAREN_EXPR":
            return self.node(children(c)[0])
        if k == "DECL_REF_EXPR":
            return ("name", c.referenced.hash, c.spelling)
        if k == "LAMBDA_EXPR":
            return ("lambda", self.hashed(c))
        if k in ("UNEXPOSED_EXPR", "CSTYLE_CAST_EXPR", "CXX_FUNCTIONAL_CAST_EXPR"):
            return self.converted(c)
        if k == "UNARY_OPERATOR":
            return ("op", unary_operator(c), self.node(children(c)[0]), None, type_name(c.type))
        if k == "BINARY_OPERATOR":
            left, right = children(c)
            return ("op", binary_operator(c), self.node(left), self.node(right), type_name(c.type))
        if k == "CALL_EXPR":
            return self.call(c)
        raise UnreadError(k.lower().replace("_", " "), _line(c))

    def converted(self, c: Any) -> Node:
        parts = [x for x in children(c) if kind(x) != "TYPE_REF"]
        if len(parts) != 1:
            raise UnreadError(f"conversion to {c.type.spelling}", _line(c))
        inner, to = self.node(parts[0]), type_name(c.type)
        same = to == type_name(parts[0].type) or (inner[0] == "cast" and inner[1] == to)
        function = "(" in to or inner[0] in ("lambda", "null")
        return inner if same or function else ("cast", to, inner)

    def call(self, c: Any) -> Node:
        config = _configuration(c)
        given = [a for a in c.get_arguments() if a is not None and not _left_out(a)]
        if config is not None:
            return ("launch", c.spelling, *self.configured(config), tuple(self.node(a) for a in given))
        if c.spelling == "operator()":
            parts = children(c)
            return ("call", self.node(parts[0]), tuple(self.node(a) for a in parts[2:]))
        if c.spelling == "dim3":
            inner = [x for x in children(c) if x.kind.is_expression() and not _left_out(x)]
            return ("dim3", tuple(self.node(a) for a in inner))
        if c.referenced is not None and kind(c.referenced) == "CONSTRUCTOR":
            (only,) = [x for x in children(c) if x.kind.is_expression()]
            return self.node(only)
        return ("call", c.spelling, tuple(self.node(a) for a in given))

    def configured(self, config: Any) -> Sequence[Node]:
        grid, block, shared, stream = (self.node(a) for a in config.get_arguments())
        return grid, block, shared, stream

    def hashed(self, c: Any) -> str:
        """SHA-256 of a function object's text, comments and indentation left out."""
        first, last = c.extent.start, c.extent.end
        lines = self.lines[first.line - HOST_LINES - 1 : last.line - HOST_LINES]
        lines[-1] = lines[-1].encode()[: last.column - 1].decode()
        lines[0] = lines[0].encode()[first.column - 1 :].decode()
        code = "\n".join(x.partition("//")[0].strip() for x in lines)
        return hashlib.sha256(code.encode()).hexdigest()


def _left_out(a: Any) -> bool:
    """Arguments that are left out have nothing below them."""
    return kind(a) == "UNEXPOSED_EXPR" and not children(a)


def _line(c: Any) -> int:
    return int(c.location.line) - HOST_LINES
