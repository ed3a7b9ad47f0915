"""A whole module as one CUDA text: the variants' kernels, then the original."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from evolve.codegen.collectives import Collectives
from evolve.codegen.ctext import ExprText
from evolve.codegen.ctree import Node, layout, line
from evolve.codegen.emit import EmittedKernel, KernelEmitter
from evolve.codegen.names import Names, identifiers
from evolve.codegen.original import original_launch, render_original
from evolve.codegen.prelude import prelude
from evolve.codegen.rendered import LineOrigin, Param, Rendered, RenderedLaunch, RenderedVariant
from evolve.codegen.rounding import rounded_by_order
from evolve.ir.affine import Ranges
from evolve.ir.approximate import approximate_calls
from evolve.ir.expr import TRUE, Binary, BinaryOp, Const, Expr, compare, conjunction, index, var
from evolve.ir.kernel import Kernel, Module, Variant
from evolve.ir.printer import print_expr, print_flagged, print_premise
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import For
from evolve.ir.visit import local_buffers, variables, walk

WIDTH = 100

ASSUMPTIONS = (
    "arrays do not overlap",
    "nothing else writes or updates the arrays while it runs",
)
"""What the text takes for granted besides the guards. Updates of the source may have been atomic."""


def render(module: Module) -> Rendered:
    """CUDA text for the module, compiled as it stands by NVRTC.

    Each variant's guard is the program's condition together with what the text relies on: index
    arithmetic fits 32 bits, grid dimensions are within the launch limits, sizes are at least 1.
    Raises CodegenError for a schedule that has no rendering.
    """
    shared = Names(identifiers(module.original.text) | _words(module))
    collectives = Collectives(shared)
    variants: list[RenderedVariant] = []
    parts: list[list[Node]] = []
    for i, variant in enumerate(module.variants):
        emitted = []
        for j, kernel in enumerate(variant.kernels):
            suffix = f"_v{i + 1}" + (f"_{j + 1}" if len(variant.kernels) > 1 else "")
            name = shared.fresh(f"{kernel.name}{suffix}")
            emitted.append((name, kernel, KernelEmitter(kernel, name, Names(), collectives).emit()))
        guard = _guard(variant, [e for _, _, e in emitted])
        launches = tuple(_launch(name, _params(module, kernel, e), e, kernel) for name, kernel, e in emitted)
        rounded, needed = rounded_by_order(variant.kernels), tuple(f.buffer for f in variant.flagged)
        variants.append(RenderedVariant(guard, launches, rounded, needed))
        for number, (name, kernel, e) in enumerate(emitted):
            head = _heading(name, guard, e, kernel)
            here = {p.name for p in launches[number].params}
            premises = (print_flagged(f) for f in variant.flagged if f.buffer in here)
            head += [line(f"// And on this: {t}.") for t in premises]
            if number:
                head.append(line(f"// And on this: {emitted[number - 1][0]} was launched before it."))
            head += [line(f"// {t}") for t in _scratch(launches[number].params)]
            parts.append([*head, *e.nodes])
    return _assemble(module, tuple(variants), parts, collectives)


def _params(module: Module, kernel: Kernel, e: EmittedKernel) -> tuple[Param, ...]:
    """The parameters, those told that are scratch memory: arrays that the original does not have."""
    known = {b.name: b.extents for b in kernel.buffers if b.name not in module.params}
    return tuple(
        replace(p, extents=known[p.name], is_scratch=True) if p.name in known else p for p in e.params
    )


def _scratch(params: tuple[Param, ...]) -> Iterator[str]:
    for p in params:
        if p.is_scratch:
            size = " * ".join(_c_condition(e) for e in p.extents)
            yield f"{p.name} is scratch memory of {size} elements, which the launches share."


def render_kernel(kernel: Kernel, name: str | None = None) -> tuple[str, RenderedVariant]:
    """One kernel alone, without an original behind it: for looking at and for tests."""
    collectives = Collectives(Names(_ir_names(kernel)))
    emitter = KernelEmitter(kernel, name or kernel.name, Names(), collectives)
    e = emitter.emit()
    guard = _guard(Variant(TRUE, (kernel,)), [e])
    launch = _launch(emitter.name, e.params, e, kernel)
    lines = [t for t, _ in layout([*_heading(emitter.name, guard, e, kernel), *e.nodes])]
    text = prelude("\n".join(lines) + "\n".join(collectives.texts))
    text += "".join(f"{t}\n" for t in collectives.texts) + "\n".join(lines) + "\n"
    return text, RenderedVariant(guard, (launch,), rounded_by_order((kernel,)))


def _words(module: Module) -> frozenset[str]:
    """Names that the kernels of the module give to their own variables."""
    kernels = [k for v in module.variants for k in v.kernels]
    return frozenset(n for k in kernels for n in _ir_names(k))


def _ir_names(kernel: Kernel) -> frozenset[str]:
    loops = {s.stmt.var for s in walk(kernel.body) if isinstance(s.stmt, For)}
    names = {*kernel.params, *loops, *local_buffers(kernel.body)}
    return frozenset(re.sub(r"\W", "_", n) for n in names)


def _assemble(
    module: Module, variants: tuple[RenderedVariant, ...], parts: list[list[Node]], collectives: Collectives
) -> Rendered:
    rows: list[tuple[str, LineOrigin | None]] = []
    body = [row for part in parts for row in (*layout(part), ("", None))]
    helpers = [(t, None) for text in collectives.texts for t in (*text.splitlines(), "")]
    constants = prelude("\n".join(t for t, _ in [*helpers, *body]))
    rows += [(t, None) for t in constants.splitlines()]
    rows += helpers
    rows += body
    original = render_original(module.original)
    for definition in re.findall(r"^#ifndef .*\n#define .*\n#endif\n", constants, re.MULTILINE):
        original = original.replace(definition, "", 1)
    original = original.lstrip("\n")
    if variants:
        rows.append(("// The original kernel, for sizes that no variant above covers.", None))
    rows += [(t, None) for t in original.splitlines()]
    text = "\n".join(t for t, _ in rows) + "\n"
    return Rendered(text, variants, original_launch(module), tuple(o for _, o in rows))


def _guard(variant: Variant, emitted: list[EmittedKernel]) -> Expr:
    terms: list[Expr] = [*conjuncts((variant.guard,))]
    for k in variant.kernels:
        terms += conjuncts(k.assumptions)
    for e in emitted:
        terms += e.guards
    used = frozenset(s.name for k in variant.kernels for s in k.scalars if s.is_size and not s.implied)
    terms += [compare(BinaryOp.GE, var(n), 1) for n in sorted(used) if not _implies_positive(n, terms)]
    return conjunction(_tightest(tuple(dict.fromkeys(terms))))


def _tightest(terms: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Without upper bounds that another upper bound of the same expression implies."""
    most: dict[Expr, int] = {}
    for t in terms:
        match t:
            case Binary(BinaryOp.LE, lhs, Const(value)):
                most[lhs] = min(int(value), most.get(lhs, int(value)))
    return tuple(
        t
        for t in terms
        if not (isinstance(t, Binary) and t.op is BinaryOp.LE and isinstance(t.rhs, Const))
        or t.rhs.value == most[t.lhs]
    )


def _implies_positive(name: str, terms: list[Expr]) -> bool:
    return any(
        isinstance(t, Binary)
        and t.op is BinaryOp.EQ
        and t.lhs == var(name)
        and isinstance(t.rhs, Const)
        and t.rhs.value >= 1
        for t in terms
    )


def _launch(name: str, params: tuple[Param, ...], e: EmittedKernel, kernel: Kernel) -> RenderedLaunch:
    note = _geometry(e, kernel)
    return RenderedLaunch(name, params, e.grid, e.block, e.shared_bytes, note, kernel.carveout)


def _geometry(e: EmittedKernel, kernel: Kernel) -> str:
    grid = ", ".join(print_expr(x) for x in _trim(e.grid))
    block = ", ".join(print_expr(x) for x in _trim(e.block))
    shared = f", {e.shared_bytes} bytes of dynamic shared memory" if e.shared_bytes else ""
    preferred = "" if kernel.carveout is None else f", {kernel.carveout} % of an SM's memory shared"
    return f"grid ({grid}), block ({block}){shared}{preferred}"


def _trim(dims: tuple[Expr, Expr, Expr]) -> tuple[Expr, ...]:
    out = list(dims)
    while len(out) > 1 and out[-1] == index(1):
        out.pop()
    return tuple(out)


def _heading(name: str, guard: Expr, e: EmittedKernel, kernel: Kernel) -> list[Node]:
    out = [line(f"// Launch {name} with {_geometry(e, kernel)}.")]
    terms = [_c_condition(t) for t in conjuncts((guard,)) if variables(t)]
    if terms:
        out += [line(f"// {t}") for t in _wrapped("Valid when ", terms)]
    out.append(line(f"// Relies on this: {ASSUMPTIONS[0]}."))
    others = [*_alignments(e.params), *ASSUMPTIONS[1:], *(print_premise(c) for c in kernel.contents)]
    out += [line(f"// And on this: {x}.") for x in others]
    used = approximate_calls(kernel)
    if used:
        out.append(line(f"// Approximate functions: {', '.join(used)}."))
    for size in sorted(kernel.implied):
        long = [b.name for b in kernel.buffers if any(size in variables(x) for x in b.extents)]
        if long:
            out.append(
                line(f"// {size} is how long {' and '.join(long)} must be, along the first dimension.")
            )
    return out


def _alignments(params: tuple[Param, ...]) -> Iterator[str]:
    """That arrays which are accessed in vectors begin where these can."""
    for size in sorted({p.aligned for p in params if p.aligned}, reverse=True):
        names = [p.name for p in params if p.aligned == size]
        yield f"{' and '.join(names)} start{'s' * (len(names) == 1)} at a multiple of {size} bytes"


def _wrapped(head: str, items: list[str]) -> list[str]:
    """Items with commas between them, broken at commas only."""
    out = [head]
    for i, item in enumerate(items):
        text = item + ("." if i == len(items) - 1 else ", ")
        if len(out[-1]) + len(text) > WIDTH and out[-1] != head:
            out.append("  ")
        out[-1] += text
    return [t.rstrip() for t in out]


def _c_condition(e: Expr) -> str:
    positive = Ranges(dict.fromkeys(variables(e), (1, None)), {})
    return ExprText(lambda name: name, print_expr, positive).text(e)
