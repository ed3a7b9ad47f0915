"""Well-formedness of a kernel: what every pass may rely on. One function per invariant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from evolve.ir.data import is_ordered
from evolve.ir.effects import effects
from evolve.ir.expr import Call, Expr, Find
from evolve.ir.kernel import Kernel
from evolve.ir.launches import phases, scratch
from evolve.ir.math import FUNCTIONS
from evolve.ir.stmt import Alloc, Block, Boundary, Buffer, For, If, Leaf, Reduce, Stmt, Store
from evolve.ir.types import DType, Space
from evolve.ir.visit import MOST_REMEMBERED, loads, subexpressions, variables, walk


class MalformedKernelError(Exception):
    """A pass built IR that breaks an invariant: always a bug in that pass."""


def verify(kernel: Kernel) -> None:
    """Raises MalformedKernelError naming the first invariant that fails."""
    checks = (
        _names_are_unique,
        _everything_in_scope,
        _accesses_fit_buffers,
        _calls_are_known,
        _contents_are_read,
        _finds_have_a_premise,
        _launches_are_apart,
    )
    for check in checks:
        for message in check(kernel):
            raise MalformedKernelError(f"{kernel.name}: {message}")


def _names_are_unique(k: Kernel) -> Iterator[str]:
    seen: set[str] = set()
    names = [*(b.name for b in k.buffers), *(s.name for s in k.scalars)]
    names += [s.stmt.var for s in walk(k.body) if isinstance(s.stmt, For)]
    names += [s.stmt.buffer.name for s in walk(k.body) if isinstance(s.stmt, Alloc)]
    for name in names:
        if name in seen:
            yield f"name {name} is declared twice"
        seen.add(name)
    if set(k.params) != {b.name for b in k.buffers} | {s.name for s in k.scalars if not s.implied}:
        yield "params do not list exactly the buffers and scalars"


def _everything_in_scope(k: Kernel) -> Iterator[str]:
    scalars = {s.name for s in k.scalars}
    for body in phases(k.body):
        yield from _scope(body, scalars, {b.name for b in (*k.buffers, *scratch(k))})


def _exprs(s: Stmt) -> tuple[Expr, ...]:
    match s:
        case For():
            return (s.extent,)
        case If():
            return (s.cond,)
        case Alloc():
            return s.buffer.extents
        case Store() | Reduce():
            instance = s.origin.instance if s.origin else ()
            return (*s.indices, s.value, *instance)
        case _:
            return ()


@lru_cache(maxsize=MOST_REMEMBERED)
def _named(e: Expr) -> tuple[Call | Find, ...]:
    """The calls and searches in an expression; few have any."""
    return tuple(x for x in subexpressions(e) if isinstance(x, Call | Find))


def _scope(block: Block, names: set[str], buffers: set[str]) -> Iterator[str]:
    buffers = set(buffers)
    for s in block.stmts:
        for e in _exprs(s):
            for name in sorted(variables(e) - names):
                yield f"variable {name} is not in scope"
            for x in loads(e):
                if x.buffer not in buffers:
                    yield f"buffer {x.buffer} is not in scope"
        match s:
            case Block():
                yield from _scope(s, names, buffers)
            case For():
                yield from _scope(s.body, names | {s.var}, buffers)
            case If():
                yield from _scope(s.body, names, buffers)
                yield from _scope(s.orelse, names, buffers)
            case Alloc():
                buffers.add(s.buffer.name)
            case Store() | Reduce():
                if s.buffer not in buffers:
                    yield f"buffer {s.buffer} is not in scope"


def _accesses_fit_buffers(k: Kernel) -> Iterator[str]:
    known: dict[str, Buffer] = {b.name: b for b in k.buffers}
    known |= {s.stmt.buffer.name: s.stmt.buffer for s in walk(k.body) if isinstance(s.stmt, Alloc)}
    for b in known.values():
        if b.padding and len(b.padding) != len(b.extents):
            yield f"buffer {b.name} has {len(b.padding)} paddings for {len(b.extents)} dimensions"
        if any(n < 0 for n in b.padding):
            yield f"buffer {b.name} has a negative padding: its rows would overlap"
        if b.swizzle is not None and (b.space is not Space.SHARED or len(b.extents) < 2):
            yield f"buffer {b.name} is swizzled, and has no rows and columns in shared memory"
        if (b.space is Space.GLOBAL) != any(b.name == g.name for g in (*k.buffers, *scratch(k))):
            yield f"buffer {b.name} is declared in the wrong space"
    for site in walk(k.body):
        for access in effects(site.stmt).accesses:
            buffer = known.get(access.buffer)
            if buffer is None:
                continue
            if len(access.indices) != len(buffer.extents):
                have, want = len(access.indices), len(buffer.extents)
                yield f"{access.buffer} has {want} dimensions, {have} subscripts"
            if any(i.dtype is not DType.INDEX for i in access.indices):
                yield f"a subscript of {access.buffer} is not an INDEX expression"
        if isinstance(site.stmt, Leaf) and site.stmt.buffer in known:
            dtype = known[site.stmt.buffer].dtype
            if site.stmt.value.dtype is not dtype:
                yield f"{site.stmt.buffer} holds {dtype.value}, the value is {site.stmt.value.dtype.value}"
            if isinstance(site.stmt, Reduce) and site.stmt.atomic:
                yield from _atomic(site.stmt, known[site.stmt.buffer])
            elif isinstance(site.stmt, Reduce) and site.stmt.aggregated:
                yield f"lanes add up for {site.stmt.buffer}, which is not updated atomically"


def _atomic(s: Reduce, b: Buffer) -> Iterator[str]:
    if b.space is Space.REGISTER:
        yield f"{s.buffer} is in registers, which no two threads update"
    if not s.monoid.has_atomic(b.dtype):
        yield f"there is no atomic {s.monoid.name} of {b.dtype.value}, as of {s.buffer}"


def _calls_are_known(k: Kernel) -> Iterator[str]:
    for site in walk(k.body):
        for e in _exprs(site.stmt):
            for x in _named(e):
                if isinstance(x, Call) and (x.fn not in FUNCTIONS or len(x.args) != FUNCTIONS[x.fn].arity):
                    yield f"call of unknown function {x.fn}/{len(x.args)}"


def _contents_are_read(k: Kernel) -> Iterator[str]:
    arrays = {b.name: b for b in k.buffers}
    scalars = {s.name for s in k.scalars}
    written = {s.stmt.buffer for s in walk(k.body) if isinstance(s.stmt, Leaf)}
    for c in k.contents:
        if c.buffer not in arrays or arrays[c.buffer].dtype.is_float:
            yield f"values are given for {c.buffer}, which is no integer array of the kernel"
        if c.buffer in written:
            yield f"values are given for {c.buffer}, which the kernel writes"
        if not variables(c.low) | variables(c.high) <= scalars:
            yield f"the values of {c.buffer} are limited by more than scalars"


def _finds_have_a_premise(k: Kernel) -> Iterator[str]:
    arrays = {b.name for b in k.buffers}
    for site in walk(k.body):
        found = [x for e in _exprs(site.stmt) for x in _named(e) if isinstance(x, Find)]
        if found and not isinstance(site.stmt, Leaf):
            yield f"{found[0].buffer} is searched to know how often something runs"
        for x in found:
            if x.buffer not in arrays or not is_ordered(k, x.buffer):
                yield f"{x.buffer} is searched and not known to be nondecreasing"


def _launches_are_apart(k: Kernel) -> Iterator[str]:
    own = sum(isinstance(s, Boundary) for s in k.body.stmts)
    if own != sum(isinstance(site.stmt, Boundary) for site in walk(k.body)):
        yield "a launch ends inside a statement"
    scalars = {s.name for s in k.scalars if not s.implied}
    for b in scratch(k):
        if any(loads(e) or not variables(e) <= scalars for e in b.extents):
            yield f"the size of scratch buffer {b.name} is no function of the scalars"
