"""What a kernel does not share with the one that it was made from.

Transforms rebuild what stands around the loop that they change and leave everything else the same object, so
the difference is found without a look at most of either.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evolve.ir.stmt import Block, For, If, Stmt


@dataclass(frozen=True)
class Changes:
    """Statements that are gone, and those that are new, each with all inside it.

    `around` are the loops and conditions around the new ones that were there before, by identity.
    """

    gone: list[Stmt] = field(default_factory=list)
    new: list[Stmt] = field(default_factory=list)
    around: set[int] = field(default_factory=set)


def changes(before: Block, after: Block) -> Changes:
    """The difference between two bodies."""
    out = Changes()
    _compare(before, after, out)
    return out


def _compare(before: Block, after: Block, out: Changes) -> None:
    old, new = before.stmts, after.stmts
    if len(old) == len(new):
        for a, b in zip(old, new, strict=True):
            if a is not b:
                _compare_stmt(a, b, out)
        return
    most = min(len(old), len(new))
    start = next((i for i in range(most) if old[i] is not new[i]), most)
    end = next((i for i in range(most - start) if old[-1 - i] is not new[-1 - i]), most - start)
    out.gone.extend(old[start : len(old) - end])
    out.new.extend(new[start : len(new) - end])


def _compare_stmt(a: Stmt, b: Stmt, out: Changes) -> None:
    if isinstance(a, For) and isinstance(b, For) and (a.var, a.kind, a.extent) == (b.var, b.kind, b.extent):
        out.around.add(id(b))
        _compare(a.body, b.body, out)
    elif isinstance(a, If) and isinstance(b, If) and a.cond == b.cond:
        out.around.add(id(b))
        _compare(a.body, b.body, out)
        _compare(a.orelse, b.orelse, out)
    elif isinstance(a, Block) and isinstance(b, Block):
        out.around.add(id(b))
        _compare(a, b, out)
    else:
        out.gone.append(a)
        out.new.append(b)
