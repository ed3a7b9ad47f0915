"""A CUDA file's kernel as IR."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from evolve.frontend.addresses import Shape, accesses, element_count, rewrite, shape_of
from evolve.frontend.clang import Parsed, parse
from evolve.frontend.domain import Domain, UnboundedError, domain_of
from evolve.frontend.execute import execute
from evolve.frontend.finish import assemble, located, named, nest, numbered
from evolve.frontend.geometry import Geometry, LaunchInfo, find_launch
from evolve.frontend.host import Dims
from evolve.frontend.lanes import gather
from evolve.frontend.locate import Found, choose, comment_block, kernels, launches
from evolve.frontend.original import device_text, kept_definitions, read_only
from evolve.frontend.polynomial import ONE, expression
from evolve.frontend.premises import Premises, check_uses, premises
from evolve.frontend.read import Reader
from evolve.frontend.refuse import CannotLiftError, RefusalError
from evolve.frontend.scalars import separate
from evolve.frontend.settle import settle
from evolve.frontend.strides import said_by_loops, threads_allowed
from evolve.frontend.tidy import tidy
from evolve.frontend.values import AXES
from evolve.frontend.variables import Thread
from evolve.ir.errors import EvolveError
from evolve.ir.expr import Expr, index
from evolve.ir.kernel import Kernel, Original
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Block, Buffer, Span
from evolve.ir.types import Space
from evolve.ir.verify import verify
from evolve.ir.visit import local_buffers, variables
from evolve.target.limits import THREADS_MOST


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a file: its name, signature and line."""

    name: str
    signature: str
    line: int


@dataclass(frozen=True)
class Lifted:
    """A kernel as the compiler sees it, and what lifting relied on.

    kernel         PARALLEL loops for the source's threads; every leaf has its origin
    original       the source's device code and its launch
    launch         the `<<<>>>` in the file that the launch was read from, if any
    comment_block  the TOML of a `/* evolve … */` comment, if any
    no_wrap        BOOL facts over the scalars: no C integer operation leaves its type's range, and the
                   original's launch is possible and covers the domain
    notes          sentences for the user: what was assumed
    fixed          threads of a block by axis, where the kernel means others with another block: a multiple of
                   blockIdx was taken for blockDim's, or loops take threadIdx further
    doubt          why no block can be assumed and the launch must be said, if so
    """

    kernel: Kernel
    original: Original
    launch: LaunchInfo | None
    comment_block: str | None
    no_wrap: tuple[Expr, ...]
    notes: tuple[str, ...]
    fixed: Mapping[int, Expr] = field(default_factory=dict, hash=False)
    doubt: str | None = None


def list_kernels(path: str | Path) -> tuple[KernelInfo, ...]:
    """The kernels defined in a file, in textual order. Raises EvolveError no-file, syntax-error."""
    parsed = parse(path)
    return tuple(KernelInfo(k.name, k.signature, parsed.origins.of(k.line)[1]) for k in kernels(parsed))


def lift(
    path: str | Path,
    entry: str | None = None,
    text: str | None = None,
    launch: LaunchInfo | None = None,
    *,
    exact: bool = False,
) -> Lifted:
    """Lift the kernel named `entry` (or the only one) of a CUDA file, or of `text` as though it stood there.

    `launch` says how it is launched, instead of the file. `exact` is for the contract of that name: of floats
    `m = x > m ? x : m` stays what it says; else it is a maximum, which differs for NaNs and zeros. Headers in
    the file's folder are read with it; a `text` has to be self-contained (`includes`).
    Raises EvolveError with code no-file, no-kernel, syntax-error, unknown-entry, several-kernels, and
    CannotLiftError (code cannot-lift) with the line, the construct and the reason.
    """
    parsed = parse(path, text)
    found = choose(parsed, entry)
    try:
        return _lift(parsed, found, launch, exact)
    except RefusalError as refusal:
        raise CannotLiftError(*parsed.origins.of(refusal.line), refusal) from refusal
    except RecursionError as error:
        deep = RefusalError(found.line, f"kernel {found.name}", "its statements are nested too deeply")
        raise CannotLiftError(*parsed.origins.of(found.line), deep) from error


def _lines(parsed: Parsed) -> dict[str, str]:
    """The lines of the text by the places in files that they come from."""
    places = (Span(*parsed.origins.of(i), 0) for i in range(1, parsed.text.count("\n") + 2))
    return dict(zip(map(str, places), parsed.text.split("\n"), strict=True))


def _lift(parsed: Parsed, found: Found, given: LaunchInfo | None, exact: bool) -> Lifted:
    file = str(parsed.path)
    if found.obstacle is not None:
        raise RefusalError(
            found.line, f"{found.obstacle} {found.name}", "only plain kernels at file scope can be used"
        )
    _refuse_errors(parsed, found)
    read = find_launch(parsed, found)
    launch = given or read
    threads = launch.threads if launch else {}
    thread = execute(Reader(file).function(found.cursor), file, threads, exact)
    unread = () if launch else tuple(parsed.origins.of(site.line) for site in launches(parsed, found))
    most = min(threads_allowed(parsed, found) or THREADS_MOST, THREADS_MOST)
    _check_names(given, thread)
    geometry = Geometry(launch, gather(thread, found.line), unread, most=most)
    geometry.settle(thread)
    check_uses(thread, thread.body, found.line)
    domain = _domain(thread, geometry, found.line)
    assumed = premises(thread, domain)
    domain.known = assumed.known
    no_wrap = settle(thread.obligations, domain.known, domain.substitution, thread.scalars, assumed.implied)
    shapes = _shapes(thread, domain)
    kernel = located(_kernel(found, thread, domain, assumed, shapes), parsed.origins)
    grid, block = geometry.dims(thread, domain, found.line)
    doubt = None
    if launch is None:
        said = said_by_loops(thread.body, thread, domain)
        if said.block and not said.doubts:
            told = _block_of(said.block, block)
            why = geometry.notes(told)
            try:
                again = _lift(parsed, found, LaunchInfo(None, grid, told, why), exact)
            except RefusalError as refusal:
                said.doubts.append(f"with blocks as its loops have them {refusal.reason}")
            else:
                return replace(again, fixed={**again.fixed, **{a: told[a] for a in said.block}})
        doubt = said.doubts[0] if said.doubts else None
    doubt = doubt or geometry.doubt(block)
    needs = geometry.needs(thread, domain, block, found.line)
    text = device_text(parsed, found)
    alone = parse(parsed.path, text)
    if alone.problems:
        raise RefusalError(
            found.line, "kernel", f"its device code does not compile on its own: {alone.problems[0].message}"
        )
    original = Original(text, found.name, grid, block, read_only=read_only(found), lines=_lines(parsed))
    notes = (*_notes(geometry, block, no_wrap, needs), *assumed.notes, *_lengths(shapes))
    notes = (*notes, *sorted(thread.notes))
    no_wrap = (*no_wrap, *(x for x in needs if x not in no_wrap))
    fixed: dict[int, Expr] = {a: index(thread.threads.block[a]) for a in thread.threads.tiled}
    fixed |= {a: block[a] for a in range(3) if f"$threadIdx.{AXES[a]}" in domain.implied}
    known = None if launch is not None and launch.assumed else launch
    return Lifted(kernel, original, known, comment_block(parsed.text), no_wrap, notes, fixed, doubt)


def _block_of(said: Mapping[int, int], block: Dims) -> Dims:
    x, y, z = (index(said[a]) if a in said else block[a] for a in range(3))
    return x, y, z


def _domain(thread: Thread, geometry: Geometry, line: int) -> Domain:
    """The domain; sizes and data are told apart on the way. Raises RefusalError."""
    while True:
        sizes = separate(thread, geometry.names())
        registers = frozenset(local_buffers(Block(tuple(thread.body))))
        lowest = tuple((s.name, 1) for s in thread.scalars if s.name in sizes)
        # A grid-stride loop goes on beyond the threads that there are.
        launched = {name: most for name, most in geometry.reach().items() if name not in thread.strided}
        try:
            return domain_of(thread.body, lowest, registers, line, launched)
        except UnboundedError as error:
            spare = geometry.spare(thread, error.name)
            if spare is None:
                raise geometry.unbounded(error) from error
            geometry.assumed[error.name] = spare


def _check_names(given: LaunchInfo | None, thread: Thread) -> None:
    """Raises EvolveError unknown-scalar for a launch of more than constants and integer parameters."""
    known = {s.name for s in thread.scalars if not s.dtype.is_float}
    for e in (*given.grid, *given.block) if given is not None else ():
        unknown = sorted(variables(e) - known)
        if unknown:
            raise EvolveError("unknown-scalar", f"launch: {print_expr(e)} uses {unknown[0]}")


_UNKNOWN = re.compile("unknown type name|use of undeclared|no template named|no member named")
_FROM_HEADERS = (
    "headers of libraries are not read: only CUDA's built-in types and functions, and what the file and the "
    "headers in its folder define, can be used; 16-bit floats are not supported yet"
)


def _refuse_errors(parsed: Parsed, found: Found) -> None:
    """Any clang error inside the kernel or what it uses, and unbalanced braces anywhere."""
    spans = [(c.extent.start.line, c.extent.end.line) for c in kept_definitions(parsed, found)]
    for p in parsed.problems:
        inside = any(a <= p.line <= b for a, b in spans)
        if inside or p.message.startswith(("expected '}'", "extraneous closing brace")):
            hint = _FROM_HEADERS if _UNKNOWN.match(p.message) else None
            file, line = parsed.origins.of(p.line)
            raise EvolveError("syntax-error", p.message, file=file, line=line, hint=hint)


def _shapes(thread: Thread, domain: Domain) -> dict[str, Shape]:
    """The dimensions of the arrays. Raises RefusalError."""
    body, arrays = Block(tuple(domain.body)), frozenset(thread.elements)
    known = domain.known
    shapes: dict[str, Shape] = {}
    for b, _ in known.ordered:
        # What such an array holds at its ends is part of the premise about it, and decides how far it points.
        shapes[b] = shape_of(b, accesses(body, known, arrays)[b])
        known = known.ending(b, element_count(shapes[b]) - ONE)
    found = accesses(body, known, arrays)
    return {b: shapes.get(b) or shape_of(b, found[b]) for b in thread.elements}


def _kernel(
    found: Found, thread: Thread, domain: Domain, assumed: Premises, shapes: Mapping[str, Shape]
) -> Kernel:
    body = rewrite(Block(tuple(domain.body)), domain.known, dict(shapes))
    body = tidy(body, domain.known)
    taken = {*thread.params, *(s.name for s in assumed.implied)}
    body = numbered(named(nest(domain, body), domain, thread, taken))
    declared = tuple(
        Buffer(p, thread.elements[p], tuple(expression(x) for x in shapes[p].extents), Space.GLOBAL)
        for p in thread.params
        if p in thread.elements
    )
    kernel = assemble(found.name, thread, declared, body, assumed)
    verify(kernel)
    return kernel


def _lengths(shapes: Mapping[str, Shape]) -> list[str]:
    out = []
    for name, shape in shapes.items():
        count = print_expr(expression(element_count(shape)))
        if shape.assumed:
            out.append(f"{name} has {count} elements, the last of which the kernel does not touch")
        if shape.idle:
            out.append(f"{name} has {count} elements also where the kernel touches none of them")
    return out


def _notes(
    geometry: Geometry, block: Dims, no_wrap: tuple[Expr, ...], needs: tuple[Expr, ...]
) -> tuple[str, ...]:
    out = ["arrays do not overlap", "integer parameters used as sizes are at least 1"]
    out += geometry.notes(block)
    out += [f"the launch is large enough, and possible: {print_expr(f)}" for f in needs]
    out += [f"integer arithmetic does not wrap around: {print_expr(f)}" for f in no_wrap]
    return tuple(out)
