"""From statements over subscripts to a kernel: loop and buffer names, statement identities, size scalars."""

from __future__ import annotations

from dataclasses import replace

from evolve.frontend.domain import Axis, Domain
from evolve.frontend.includes import Origins
from evolve.frontend.polynomial import expression, variable
from evolve.frontend.premises import Premises
from evolve.frontend.prove import simplify
from evolve.frontend.variables import Thread
from evolve.ir.expr import Expr, Load, Var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Origin, Reduce, Span, Stmt, Store
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import fresh, map_block_exprs, map_expr, walk

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
        base = _source_name(loop.name, domain, thread) or _default_name(loop, domain)
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


def _default_name(loop: Axis, domain: Domain) -> str:
    """A name for a loop that no source variable stands for."""
    digits = [x.name for x in domain.loops if x.axis == loop.axis]
    if len(digits) == 2:
        return ("row", "col")[digits.index(loop.name)]
    return _UNNAMED[loop.axis]


def _source_name(loop: str, domain: Domain, thread: Thread) -> str | None:
    """A source variable that has the loop variable's value, perhaps shifted."""
    shifted: str | None = None
    loops = {x.name for x in domain.loops}
    for name, poly in thread.names:
        if not any(n.startswith("$") for n in poly.names()):
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


def assemble(
    name: str, thread: Thread, buffers: tuple[Buffer, ...], body: Block, assumed: Premises
) -> Kernel:
    """The kernel."""
    scalars = (*thread.scalars, *assumed.implied)
    loosened = tuple(sorted(thread.loosened))
    params = tuple(thread.params)
    return Kernel(name, params, buffers, scalars, body, contents=assumed.contents, loosened=loosened)


def located(kernel: Kernel, origins: Origins) -> Kernel:
    """Lines of the text replaced by the files and lines that they were read from."""

    def span(s: Span | None) -> Span | None:
        return s and Span(*origins.of(s.line), s.column)

    def go(b: Block) -> Block:
        out: list[Stmt] = []
        for s in b.stmts:
            match s:
                case For():
                    out.append(replace(s, body=go(s.body), span=span(s.span)))
                case If():
                    out.append(replace(s, body=go(s.body), orelse=go(s.orelse), span=span(s.span)))
                case Alloc():
                    out.append(Alloc(replace(s.buffer, span=span(s.buffer.span))))
                case Store() | Reduce():
                    out.append(replace(s, span=span(s.span)))
                case _:
                    out.append(s)
        return Block(tuple(out))

    return replace(kernel, body=go(kernel.body))
