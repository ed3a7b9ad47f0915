"""A CUDA file's kernel as IR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evolve.frontend.addresses import Shape, accesses, rewrite, shape_of
from evolve.frontend.clang import Parsed, parse
from evolve.frontend.domain import Domain, domain_of
from evolve.frontend.execute import execute
from evolve.frontend.finish import assemble, named, nest, numbered
from evolve.frontend.locate import Found, choose, comment_block, kernels, launches
from evolve.frontend.original import Dims, device_text, kept_definitions, launch_dims, read_only
from evolve.frontend.polynomial import Poly, canonical, expression, polynomial
from evolve.frontend.read import Reader
from evolve.frontend.refuse import CannotLiftError, RefusalError
from evolve.frontend.scalars import separate
from evolve.frontend.settle import settle
from evolve.frontend.tidy import tidy
from evolve.frontend.variables import Thread
from evolve.ir.errors import EvolveError
from evolve.ir.expr import Const, Expr, ceildiv, index
from evolve.ir.kernel import Kernel, Original
from evolve.ir.stmt import Block, Buffer
from evolve.ir.types import Space
from evolve.ir.verify import verify
from evolve.ir.visit import local_buffers, variables
from evolve.target.limits import THREADS_MOST

_DEFAULT_BLOCK = {1: (256, 1, 1), 2: (16, 16, 1), 3: (8, 8, 4)}


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a file: its name, signature and line."""

    name: str
    signature: str
    line: int


@dataclass(frozen=True)
class LaunchInfo:
    """A `<<<>>>` that was read off: its line, grid and block over the scalars."""

    line: int
    grid: Dims
    block: Dims


@dataclass(frozen=True)
class Lifted:
    """A kernel as the compiler sees it, and what lifting relied on.

    kernel         PARALLEL loops for the source's threads; every leaf has its origin
    original       the source's device code and its launch
    launch         the `<<<>>>` in the file that the launch was read from, if any
    comment_block  the TOML of a `/* evolve … */` comment, if any
    no_wrap        BOOL facts over the scalars: no C integer operation leaves its type's range
    notes          sentences for the user: what was assumed
    """

    kernel: Kernel
    original: Original
    launch: LaunchInfo | None
    comment_block: str | None
    no_wrap: tuple[Expr, ...]
    notes: tuple[str, ...]


def list_kernels(path: str | Path) -> tuple[KernelInfo, ...]:
    """The kernels defined in a file, in textual order. Raises EvolveError no-file, syntax-error."""
    return tuple(KernelInfo(k.name, k.signature, k.line) for k in kernels(parse(path)))


def lift(path: str | Path, entry: str | None = None, text: str | None = None) -> Lifted:
    """Lift the kernel named `entry` (or the only one) of a CUDA file, or of `text` as though it stood there.

    Raises EvolveError with code no-file, no-kernel, syntax-error, unknown-entry, several-kernels, and
    CannotLiftError (code cannot-lift) with the line, the construct and the reason.
    """
    parsed = parse(path, text)
    found = choose(parsed, entry)
    try:
        return _lift(parsed, found)
    except RefusalError as refusal:
        raise CannotLiftError(str(parsed.path), refusal) from refusal
    except RecursionError as error:
        deep = RefusalError(found.line, f"kernel {found.name}", "its statements are nested too deeply")
        raise CannotLiftError(str(parsed.path), deep) from error


def _lift(parsed: Parsed, found: Found) -> Lifted:
    file = str(parsed.path)
    if found.obstacle is not None:
        raise RefusalError(
            found.line, f"{found.obstacle} {found.name}", "only plain kernels at file scope can be used"
        )
    _refuse_errors(parsed, found)
    thread = execute(Reader(file).function(found.cursor), file)
    launch = _launch(parsed, found)
    launch_names = frozenset(n for e in launch.grid for n in variables(e)) if launch else frozenset()
    sizes = separate(thread, launch_names)
    body = Block(tuple(thread.body))
    registers = frozenset(local_buffers(body))
    lowest = tuple((s.name, 1) for s in thread.scalars if s.name in sizes)
    domain = domain_of(thread.body, lowest, registers, found.line, _launched(launch))
    no_wrap = settle(thread.obligations, domain.known, domain.substitution, thread.scalars)
    kernel = _kernel(found, thread, domain)
    grid, block = _dims(thread, domain, launch, found)
    text = device_text(parsed, found)
    alone = parse(parsed.path, text)
    if alone.problems:
        raise RefusalError(
            found.line, "kernel", f"its device code does not compile on its own: {alone.problems[0].message}"
        )
    original = Original(text, found.name, grid, block, read_only=read_only(found))
    notes = (*_notes(launch, block, no_wrap), *sorted(thread.notes))
    return Lifted(kernel, original, launch, comment_block(parsed.text), no_wrap, notes)


_UNKNOWN = re.compile("unknown type name|use of undeclared|no template named|no member named")
_FROM_HEADERS = (
    "headers of libraries are not read: only CUDA's built-in types and functions, and what the file itself "
    "defines, can be used; 16-bit floats are not supported yet"
)


def _refuse_errors(parsed: Parsed, found: Found) -> None:
    """Any clang error inside the kernel or what it uses, and unbalanced braces anywhere."""
    spans = [(c.extent.start.line, c.extent.end.line) for c in kept_definitions(parsed, found)]
    for p in parsed.problems:
        inside = any(a <= p.line <= b for a, b in spans)
        if inside or p.message.startswith(("expected '}'", "extraneous closing brace")):
            hint = _FROM_HEADERS if _UNKNOWN.match(p.message) else None
            raise EvolveError("syntax-error", p.message, file=str(parsed.path), line=p.line, hint=hint)


def _kernel(found: Found, thread: Thread, domain: Domain) -> Kernel:
    body = Block(tuple(domain.body))
    buffers = frozenset(thread.elements)
    by_buffer = accesses(body, domain.known, buffers)
    shapes: dict[str, Shape] = {b: shape_of(b, by_buffer[b]) for b in buffers}
    body = rewrite(body, domain.known, shapes)
    body = tidy(body, domain.known)
    taken = set(thread.params)
    body = numbered(named(nest(domain, body), domain, thread, taken))
    declared = tuple(
        Buffer(p, thread.elements[p], tuple(expression(x) for x in shapes[p].extents), Space.GLOBAL)
        for p in thread.params
        if p in thread.elements
    )
    kernel = assemble(found.name, thread, declared, body)
    verify(kernel)
    return kernel


def _launch(parsed: Parsed, found: Found) -> LaunchInfo | None:
    for site in launches(parsed, found):
        if site.shared is not None:
            continue
        dims = launch_dims(found, site)
        if dims is not None and all(isinstance(x, Const) for x in dims[1]):
            grid = tuple(canonical(x) for x in dims[0])
            return LaunchInfo(site.line, (grid[0], grid[1], grid[2]), dims[1])
    return None


def _launched(launch: LaunchInfo | None) -> dict[int, Poly]:
    """Threads on each axis as the launch in the file makes them."""
    if launch is None:
        return {}
    return {a: polynomial(launch.grid[a]) * polynomial(launch.block[a]) for a in range(3)}


def _dims(thread: Thread, domain: Domain, launch: LaunchInfo | None, found: Found) -> tuple[Dims, Dims]:
    fixed = thread.threads.block
    if launch is not None:
        for axis, size in fixed.items():
            have = launch.block[axis]
            if have != index(size):
                raise RefusalError(
                    found.line,
                    "thread index",
                    f"it takes blocks of {size}, the launch at line {launch.line} differs",
                )
        return launch.grid, launch.block
    sizes = list(_DEFAULT_BLOCK[max(1, max(domain.reach, default=0) + 1)])
    for axis, size in fixed.items():
        sizes[axis] = size
    if sizes[0] * sizes[1] * sizes[2] > THREADS_MOST:
        sizes = [fixed.get(a, 1) for a in range(3)]
    grid = [
        canonical(ceildiv(expression(domain.reach[a]), sizes[a])) if a in domain.reach else index(1)
        for a in range(3)
    ]
    block = [index(x) for x in sizes]
    return (grid[0], grid[1], grid[2]), (block[0], block[1], block[2])


def _notes(launch: LaunchInfo | None, block: Dims, no_wrap: tuple[Expr, ...]) -> tuple[str, ...]:
    from evolve.ir.printer import print_expr

    out = ["arrays do not overlap", "integer parameters used as sizes are at least 1"]
    threads = " x ".join(print_expr(x) for x in block if x != index(1)) or "1"
    if launch is None:
        out.append(
            f"the kernel is launched with blocks of {threads} threads and a grid that covers its domain"
        )
    else:
        out.append(f"the launch at line {launch.line} is the one to use: blocks of {threads} threads")
    out += [f"integer arithmetic does not wrap around: {print_expr(f)}" for f in no_wrap]
    return tuple(out)
