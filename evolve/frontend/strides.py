"""What a kernel's own text says of the block it is launched with, where no launch does.

`blockIdx.x * 1024 + j * 256 + threadIdx.x` with j in 0..4 fills its tile of 1024 with blocks of 256; with
1024, several threads would do the same element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from evolve.frontend.clang import Parsed, children, kind
from evolve.frontend.domain import Domain
from evolve.frontend.locate import Found
from evolve.frontend.polynomial import Poly, constant, polynomial
from evolve.frontend.prove import Known, nonnegative, variable_atom
from evolve.frontend.values import AXES
from evolve.frontend.variables import Thread
from evolve.ir.expr import Expr
from evolve.ir.stmt import Block, For, Reduce, Stmt, Store
from evolve.ir.visit import loads, local_buffers, walk

_BOUNDS = re.compile(r"__launch_bounds__\s*\(([^,)]*)")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Said:
    """Threads of a block by axis (0 is x) as loops have them; `doubts`: what no assumed block would suit."""

    block: dict[int, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Fill:
    """Loops beside a thread index: the least stride, in threads, and whether they fill the whole."""

    stride: int
    fills: bool


def said_by_loops(body: list[Stmt], thread: Thread, domain: Domain) -> Said:
    """What the loops of `body`, in terms of `$global.x` and so on, say of a block that would be assumed.

    Looked at are axes whose block stands for a literal that blockIdx is multiplied with, and such that only
    a guard that moves with loops bounds: both are as large as all that the loops fill.
    """
    out = Said()
    registers = frozenset(local_buffers(Block(tuple(body))))
    for axis, letter in enumerate(AXES):
        if axis in thread.threads.tiled:
            name, whole, exact = f"$global.{letter}", constant(thread.threads.block[axis]), True
        elif f"$threadIdx.{letter}" in domain.implied:
            name, exact = f"$threadIdx.{letter}", False
            whole = domain.reach[name]
        else:
            continue
        known = Known(lowest=domain.known.lowest)
        taken: set[int] = set()
        read: set[int] = set()
        for site in walk(Block(tuple(body))):
            s = site.stmt
            if not isinstance(s, Store | Reduce):
                continue
            private = s.buffer in registers
            for index in _indices(s, private):
                found = _fill(polynomial(index), name, site.loops, whole, exact, known)
                if found is None:
                    continue
                if found.fills:
                    (read if private else taken).add(found.stride)
                elif isinstance(s, Store) and not private:
                    out.doubts.append(f"a loop has strides of {found.stride} beside threadIdx.{letter}")
        if len(taken | read) > 1 or read - taken:
            steps = " and ".join(map(str, sorted(taken | read)))
            out.doubts.append(f"loops have strides of {steps} beside threadIdx.{letter}")
        elif taken:
            out.block[axis] = taken.pop()
    return out


def _indices(s: Store | Reduce, private: bool) -> Iterator[Expr]:
    """What says which elements a statement is about: in sums and registers also what goes there."""
    yield from s.indices
    inner = [*s.indices, s.value] if isinstance(s, Reduce) or private else list(s.indices)
    for e in inner:
        for load in loads(e):
            yield from load.indices


def _fill(p: Poly, name: str, loops: tuple[For, ...], whole: Poly, exact: bool, known: Known) -> _Fill | None:
    """None where no loop steps over fewer threads than `whole`, which are all that the index takes."""
    own = p.coefficient(variable_atom(name))
    if own is None or not own[0].terms:
        return None
    steps: list[tuple[int, Poly]] = []
    for loop in loops:
        beside = p.coefficient(variable_atom(loop.var))
        if beside is None or not beside[0].terms:
            continue
        ratio, rest = beside[0].divide(own[0])
        stride = ratio.constant
        if rest.terms or stride is None or stride < 2 or nonnegative(constant(stride) - whole, known):
            continue
        steps.append((stride, polynomial(loop.extent)))
    if not steps:
        return None
    steps.sort(key=lambda step: step[0])
    chained = all(constant(a) * n == constant(b) for (a, n), (b, _) in pairwise(steps))
    reached = steps[-1][1] * constant(steps[-1][0])
    full = reached == whole if exact else nonnegative(reached - whole, known)
    return _Fill(steps[0][0], chained and full)


def threads_allowed(parsed: Parsed, found: Found) -> int | None:
    """The N of `__launch_bounds__(N)`: a number, or a macro that is one. None: there is none that is seen."""
    start = found.cursor.extent.start.offset
    ends = [c.extent.start.offset for c in children(found.cursor) if kind(c) == "COMPOUND_STMT"]
    head = parsed.text.encode()[start : ends[0] if ends else start].decode()
    bounds = _BOUNDS.search(head)
    if bounds is None:
        return None
    text = bounds.group(1).strip()
    for _ in range(8):
        if not _NAME.fullmatch(text):
            break
        macro = re.findall(rf"^[ \t]*#[ \t]*define[ \t]+{text}[ \t]+(\w+)[ \t]*(?://.*)?$", parsed.text, re.M)
        text = macro[0] if len(macro) == 1 else ""
    return int(text) if text.isdecimal() and int(text) > 0 else None
