"""From statements over subscripts to a kernel: loop and buffer names, statement identities, size scalars."""

from __future__ import annotations

from dataclasses import replace

from evolve.frontend.domain import Domain
from evolve.frontend.execute import Thread
from evolve.frontend.polynomial import expression, variable
from evolve.frontend.prove import simplify
from evolve.ir.expr import Cast, Expr, Load, Var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Origin, Reduce, Stmt, Store
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import children, fresh, map_block_exprs, map_expr, walk

_UNNAMED = ("ix", "iy", "iz")


def nest(domain: Domain, body: Block) -> Block:
    """The parallel loops around the body, outermost first."""
    for loop in reversed(domain.loops):
        body = Block((For(loop.name, expression(loop.extent), LoopKind.PARALLEL, body),))
    return body


def named(body: Block, domain: Domain, thread: Thread, taken: set[str]) -> Block:
    """Internal names replaced by the source's, repeated ones with suffixes _2, _3 …"""
    names: dict[str, str] = {}
    for loop in domain.loops:
        base = _source_name(loop.name, domain, thread) or _UNNAMED[loop.axis]
        names[loop.name] = _take(base, taken)
    for site in walk(body):
        internal = None
        if isinstance(site.stmt, For):
            internal = site.stmt.var
        elif isinstance(site.stmt, Alloc):
            internal = site.stmt.buffer.name
        if internal is not None and internal not in names:
            names[internal] = _take(internal.split("#")[0], taken)
    return _rename(body, names)


def _take(base: str, taken: set[str]) -> str:
    name = fresh(base, taken)
    taken.add(name)
    return name


def _source_name(loop: str, domain: Domain, thread: Thread) -> str | None:
    """A source variable that has the loop variable's value, perhaps shifted."""
    shifted: str | None = None
    loops = {x.name for x in domain.loops}
    for name, poly in thread.names:
        if not any(n.startswith("$global") for n in poly.names()):
            continue
        value = simplify(poly.substitute(domain.substitution), domain.known)
        difference = value - variable(loop)
        if not difference.terms:
            return name
        if (
            shifted is None
            and not difference.names() & loops
            and not any("#" in n for n in difference.names())
        ):
            shifted = name
    return shifted


def _rename(block: Block, names: dict[str, str]) -> Block:
    def one(e: Expr) -> Expr:
        if isinstance(e, Var) and e.name in names:
            return replace(e, name=names[e.name])
        if isinstance(e, Load) and e.buffer in names:
            return replace(e, buffer=names[e.buffer])
        return e

    def go(b: Block) -> Block:
        out: list[Stmt] = []
        for s in b.stmts:
            match s:
                case For():
                    out.append(replace(s, var=names.get(s.var, s.var), body=go(s.body)))
                case If():
                    out.append(replace(s, body=go(s.body), orelse=go(s.orelse)))
                case Alloc():
                    out.append(Alloc(replace(s.buffer, name=names.get(s.buffer.name, s.buffer.name))))
                case Store() | Reduce():
                    out.append(replace(s, buffer=names.get(s.buffer, s.buffer)))
                case _:
                    out.append(s)
        return Block(tuple(out))

    return map_block_exprs(go(block), lambda e: map_expr(e, one))


def numbered(block: Block) -> Block:
    """Every store and reduction with its identity: S0, S1 … in textual order, and its loops."""
    count = 0

    def go(b: Block, loops: tuple[str, ...]) -> Block:
        nonlocal count
        out: list[Stmt] = []
        for s in b.stmts:
            match s:
                case For():
                    out.append(replace(s, body=go(s.body, (*loops, s.var))))
                case If():
                    body = go(s.body, loops)
                    out.append(replace(s, body=body, orelse=go(s.orelse, loops)))
                case Store() | Reduce():
                    origin = Origin(f"S{count}", tuple(Var(x, DType.INDEX) for x in loops))
                    count += 1
                    out.append(replace(s, origin=origin))
                case _:
                    out.append(s)
        return Block(tuple(out))

    return go(block, ())


def assemble(name: str, thread: Thread, buffers: tuple[Buffer, ...], body: Block) -> Kernel:
    """The kernel, with its integer scalars told apart: sizes are INDEX, the others are data."""
    integers = {s.name: s.dtype for s in thread.scalars if not s.dtype.is_float and s.dtype is not DType.BOOL}
    sizes = _sizes(body, buffers, set(integers))

    def data(e: Expr) -> Expr:
        if isinstance(e, Cast) and isinstance(e.arg, Var) and e.arg.dtype is DType.INDEX:
            n = e.arg.name
            if n in integers and n not in sizes:
                v = Var(n, integers[n])
                return v if e.dtype is integers[n] else Cast(v, e.dtype)
        return e

    body = map_block_exprs(body, lambda e: map_expr(e, data))
    scalars = tuple(Scalar(s.name, s.dtype, s.name in sizes) for s in thread.scalars)
    return Kernel(name, tuple(thread.params), buffers, scalars, body)


def _sizes(body: Block, buffers: tuple[Buffer, ...], integers: set[str]) -> set[str]:
    found: set[str] = set()

    def visit(e: Expr) -> None:
        if isinstance(e, Cast) and isinstance(e.arg, Var):
            return
        if isinstance(e, Var) and e.dtype is DType.INDEX and e.name in integers:
            found.add(e.name)
        for x in children(e):
            visit(x)

    def keep(e: Expr) -> Expr:
        visit(e)
        return e

    map_block_exprs(body, keep)
    for b in buffers:
        for x in b.extents:
            visit(x)
    return found
