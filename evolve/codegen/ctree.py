"""A small tree of C text: statements, blocks and conditions, with the origin of each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evolve.codegen.names import identifiers
from evolve.codegen.rendered import LineOrigin
from evolve.codegen.wrap import wrapped

INDENT = "    "


@dataclass
class Node:
    """One line, or a header with a braced body. A node with `cond` is an `if` and may have an else side."""

    text: str = ""
    origin: LineOrigin | None = None
    body: list[Node] | None = None
    cond: tuple[str, ...] = ()
    orelse: list[Node] = field(default_factory=list)
    else_comment: str = ""
    before: tuple[str, ...] = ()
    """Lines directly above the header, such as a pragma."""


def line(text: str, origin: LineOrigin | None = None) -> Node:
    return Node(text, origin)


def scope(
    header: str, body: list[Node], origin: LineOrigin | None = None, before: tuple[str, ...] = ()
) -> Node:
    return Node(header, origin, body, before=before)


def branch(
    cond: tuple[str, ...],
    body: list[Node],
    origin: LineOrigin | None = None,
    orelse: list[Node] | None = None,
    else_comment: str = "",
) -> Node:
    """`if (cond && ...) { body }`, joined with an `if` that is all of its body."""
    if not orelse and len(body) == 1 and body[0].cond and not body[0].orelse:
        inner = body[0]
        fresh = tuple(c for c in inner.cond if c not in cond)
        return Node(origin=origin, body=inner.body, cond=(*cond, *fresh))
    return Node(
        origin=origin,
        body=_unbraced(body),
        cond=cond,
        orelse=_unbraced(orelse or []),
        else_comment=else_comment,
    )


def _unbraced(nodes: list[Node]) -> list[Node]:
    """What braces have around them anyway needs none of its own."""
    code = [n for n in nodes if not n.text.startswith("//")]
    if len(code) != 1 or code[0].body is None or code[0].text or code[0].cond or code[0].before:
        return nodes
    at = nodes.index(code[0])
    return [*nodes[:at], *code[0].body, *nodes[at + 1 :]]


def layout(nodes: list[Node]) -> Iterator[tuple[str, LineOrigin | None]]:
    """The lines of the text with their origins, long ones broken."""
    for text, origin in _lines(nodes, 0):
        for part in wrapped(text):
            yield part, origin


def _lines(nodes: list[Node], depth: int) -> Iterator[tuple[str, LineOrigin | None]]:
    pad = INDENT * depth
    for n in nodes:
        for extra in n.before:
            yield pad + extra, n.origin
        if n.body is None:
            yield (pad + n.text if n.text else ""), n.origin
            continue
        if n.cond:
            yield f"{pad}if ({' && '.join(n.cond)}) {{", n.origin
        else:
            yield (f"{pad}{n.text} {{" if n.text else f"{pad}{{"), n.origin
        yield from _lines(n.body, depth + 1)
        if n.orelse:
            note = f"  // {n.else_comment}" if n.else_comment else ""
            yield f"{pad}}} else {{{note}", n.origin
            yield from _lines(n.orelse, depth + 1)
        yield f"{pad}}}", n.origin


_DECLARATION = re.compile(r"(?:\w+ )+(\w+);$")


def is_declaration(n: Node) -> bool:
    """Whether the node declares a variable, so that its braces matter."""
    return (
        n.body is None
        and re.match(r"(?:const )?\w+(?: \w+)? \w+(?:\[\d+\])*(?: = .*)?;$", n.text) is not None
    )


def declares(before: Node, node: Node) -> bool:
    """Whether `before` declares the scalar that `node` gives its first value."""
    if before.body is not None or node.body is not None:
        return False
    m = _DECLARATION.match(before.text)
    if m is None or before.text.count(" ") > 2 or not node.text.startswith(f"{m[1]} = "):
        return False
    return m[1] not in identifiers(node.text.split(" = ", 1)[1])


def split_invariant(
    body: list[Node], variable: str, stable: frozenset[str]
) -> tuple[tuple[str, ...], list[Node]]:
    """Conditions to test before the loop, and its body without them.

    Holds for a body that is one `if` without an else side. Only conditions over the `stable` names
    move: what a loop may change, in registers or in memory, is read where it was.
    """
    only = body[0] if len(body) == 1 else None
    if only is None or not only.cond or only.orelse or only.body is None:
        return (), body
    out = tuple(c for c in only.cond if identifiers(c) <= stable - {variable})
    kept = tuple(c for c in only.cond if c not in out)
    if not out:
        return (), body
    return out, [replace(only, cond=kept)] if kept else only.body


def texts(nodes: list[Node]) -> list[str]:
    """Every line and condition, however deep, but for comments."""
    out: list[str] = []
    for n in nodes:
        out += [*([] if n.text.startswith("//") else [n.text]), *n.cond]
        out += texts(n.body or []) + texts(n.orelse)
    return out
