"""A kernel of several launches taken apart, and put together again.

`Boundary` statements of the body divide it. Each launch is a kernel of its own, which takes the arrays that
it uses, scratch memory among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evolve.ir.effects import effects
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, Boundary, Buffer, For, Leaf, Stmt
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import walk


def scratch(kernel: Kernel) -> tuple[Buffer, ...]:
    """The scratch buffers, in order of declaration."""
    return tuple(s.buffer for s in _declarations(kernel.body))


def phases(body: Block) -> tuple[Block, ...]:
    """What stands between boundaries, declarations of scratch left out; some may do nothing."""
    declared = _declarations(body)
    out: list[list[Stmt]] = [[]]
    for s in body.stmts:
        if isinstance(s, Boundary):
            out.append([])
        elif s not in declared:
            out[-1].append(s)
    return tuple(Block(tuple(stmts)) for stmts in out)


def _declarations(body: Block) -> list[Alloc]:
    return [s for s in body.stmts if isinstance(s, Alloc) and s.buffer.space is Space.GLOBAL]


def launches(kernel: Kernel) -> tuple[Kernel, ...]:
    """The kernels that are launched, in order; the kernel itself when it has no boundary.

    Those that do nothing are left out.
    """
    if not any(isinstance(s, Boundary) for s in kernel.body.stmts) and not scratch(kernel):
        return (kernel,)
    bodies = phases(kernel.body)
    return tuple(_launch(kernel, b) for b in bodies if any(isinstance(s, Leaf) for s in _stmts(b)))


def joined(kernel: Kernel, parts: Sequence[Kernel]) -> Kernel:
    """`kernel` with the bodies of its launches, as `launches` gives them, replaced by those of `parts`."""
    if len(parts) == 1 and not scratch(kernel):
        return parts[0]
    stmts: list[Stmt] = [*_declarations(kernel.body)]
    for i, part in enumerate(parts):
        stmts += [Boundary()] if i else []
        stmts += part.body.stmts
    return replace(kernel, body=Block(tuple(stmts)))


def _launch(kernel: Kernel, body: Block) -> Kernel:
    used = {a.buffer for s in _stmts(body) for a in effects(s).accesses}
    buffers = tuple(b for b in (*kernel.buffers, *scratch(kernel)) if b.name in used)
    names = {b.name for b in buffers} | {s.name for s in kernel.scalars}
    params = [n for n in kernel.params if n in names]
    params += [b.name for b in scratch(kernel) if b.name in used]
    contents = tuple(c for c in kernel.contents if c.buffer in used)
    # Threads along x alone are numbered alike whether that axis is lanes or not, and may be of several warps.
    kinds = {s.kind for s in _stmts(body) if isinstance(s, For)}
    lanes = kernel.lanes and not kinds.isdisjoint((LoopKind.THREAD_Y, LoopKind.THREAD_Z))
    return replace(kernel, params=tuple(params), buffers=buffers, body=body, contents=contents, lanes=lanes)


def _stmts(body: Block) -> Iterator[Stmt]:
    return (site.stmt for site in walk(body))
