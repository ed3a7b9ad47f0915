"""A small tree of C text: statements, blocks and conditions, with the origin of each line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from evolve.codegen.rendered import LineOrigin

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
    return Node(origin=origin, body=body, cond=cond, orelse=orelse or [], else_comment=else_comment)


def layout(nodes: list[Node], depth: int = 0) -> Iterator[tuple[str, LineOrigin | None]]:
    """The lines of the text with their origins."""
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
        yield from layout(n.body, depth + 1)
        if n.orelse:
            note = f"  // {n.else_comment}" if n.else_comment else ""
            yield f"{pad}}} else {{{note}", n.origin
            yield from layout(n.orelse, depth + 1)
        yield f"{pad}}}", n.origin
