"""Comments over loop nests: the line of the source that a nest does, or what it copies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from evolve.ir.expr import Cast, Const, Expr, Load
from evolve.ir.stmt import Block, For, If, Leaf, Reduce, Stmt
from evolve.ir.types import Space
from evolve.ir.visit import leaves

_PLACES = {Space.REGISTER: "registers", Space.SHARED: "shared memory", Space.GLOBAL: "memory"}
_MOST = 3
"""Lines that are said of one nest."""


def remarks(s: For, source: Mapping[str, str], spaces: Mapping[str, Space]) -> list[str]:
    """What is said over a nest.

    source  the lines of the user's files, by `FILE:LINE`
    spaces  where buffers lie
    """
    core: Stmt = s
    while True:
        block = core.body if isinstance(core, For | If) else core
        inside = block.stmts if isinstance(block, Block) else ()
        if len(inside) != 1 or (isinstance(core, If) and core.orelse.stmts):
            break
        core = inside[0]
    nested = [x for x in inside if isinstance(x, For | If | Block)]
    if nested and s.kind.is_thread:
        return []  # no loop of the text
    found = []
    for leaf, _ in leaves(Block((s,))):
        if isinstance(leaf.value, Const):
            continue  # what a sum begins with
        if leaf.origin is not None:
            found.append(_line(leaf, source))
        elif not nested:
            found.append(_copied(leaf, spaces))
    return list(dict.fromkeys(x for x in found if x))[:_MOST]


def _line(leaf: Leaf, source: Mapping[str, str]) -> str:
    """The source's line of a statement."""
    if leaf.span is None:
        return ""
    where = f"{_plain(PurePath(leaf.span.file).name)}:{leaf.span.line}"
    text = source.get(str(leaf.span), "")
    code = " ".join(re.sub(r"/\*.*?\*/", " ", text.partition("//")[0]).split())
    # What begins or ends on another line is found there; and nothing in a comment may mean something.
    whole = code.endswith(";") and code.count("(") == code.count(")") and _plain(code) == code
    return f"{where}: {code}" if whole else where


def _plain(text: str) -> str:
    """Without what a preprocessor might take for its own."""
    return re.sub(r"[^\w .,;:+\-*/%<>=!&|^~()\[\]{}?]|\?\?|%:|/\*", "_", text)


def _copied(leaf: Leaf, spaces: Mapping[str, Space]) -> str:
    """What a statement that no line of the source has is for."""
    source = next(_loads(leaf.value), None)
    if source is None:
        return ""
    where = _PLACES[spaces[leaf.buffer]]
    if isinstance(leaf, Reduce):
        return f"{source} into {leaf.buffer}" if where == "memory" else ""
    if leaf.prefetch:
        return f"L2 is asked for {source}"
    how = ", asynchronously" if leaf.asynchronous else ""
    return f"{source} to {where}{how}"


def _loads(e: Expr) -> Iterator[str]:
    """What is copied by a value that is an element of an array, converted or not."""
    match e:
        case Load():
            yield e.buffer
        case Cast(arg=arg):
            yield from _loads(arg)
