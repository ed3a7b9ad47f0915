"""A whole module as one CUDA text: the variants' kernels, then the original."""

from __future__ import annotations

import re
from dataclasses import replace

from evolve.codegen.collectives import Collectives
from evolve.codegen.conditions import Condition, conditions
from evolve.codegen.ctree import Node, layout
from evolve.codegen.emit import EmittedKernel, KernelEmitter
from evolve.codegen.heading import geometry, heading
from evolve.codegen.names import Names, identifiers
from evolve.codegen.original import original_launch, render_original
from evolve.codegen.prelude import prelude
from evolve.codegen.rendered import ORIGINAL, LineOrigin, Param, Rendered, RenderedLaunch, RenderedVariant
from evolve.codegen.rounding import rounded_by_order
from evolve.codegen.wrap import wrapped
from evolve.ir.expr import TRUE, conjunction
from evolve.ir.kernel import Kernel, Module, Variant
from evolve.ir.printer import print_flagged
from evolve.ir.stmt import For
from evolve.ir.visit import local_buffers, walk


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
    lines = module.original.lines
    for i, variant in enumerate(module.variants):
        emitted = []
        for j, kernel in enumerate(variant.kernels):
            suffix = f"_v{i + 1}" + (f"_{j + 1}" if len(variant.kernels) > 1 else "")
            name = shared.fresh(f"{kernel.name}{suffix}")
            emitted.append((name, kernel, KernelEmitter(kernel, name, Names(), collectives, lines).emit()))
        asked = conditions(variant, [c for _, _, e in emitted for c in e.conditions])
        launches = tuple(_launch(name, _params(module, kernel, e), e, kernel) for name, kernel, e in emitted)
        rounded, needed = rounded_by_order(variant.kernels), tuple(f.buffer for f in variant.flagged)
        variants.append(_variant(asked, launches, rounded, needed))
        for number, (_, kernel, e) in enumerate(emitted):
            here = {p.name for p in launches[number].params}
            premises = [print_flagged(f) for f in variant.flagged if f.buffer in here]
            if number:
                premises.append(f"{emitted[number - 1][0]} was launched before it")
            parts.append([*heading(launches[number], kernel, asked, premises), *e.nodes])
    return _assemble(module, tuple(variants), parts, collectives)


def _params(module: Module, kernel: Kernel, e: EmittedKernel) -> tuple[Param, ...]:
    """The parameters, those told that are scratch memory: arrays that the original does not have."""
    known = {b.name: b.extents for b in kernel.buffers if b.name not in module.params}
    return tuple(
        replace(p, extents=known[p.name], is_scratch=True) if p.name in known else p for p in e.params
    )


def render_kernel(kernel: Kernel, name: str | None = None) -> tuple[str, RenderedVariant]:
    """One kernel alone, without an original behind it: for looking at and for tests."""
    collectives = Collectives(Names(_ir_names(kernel)))
    emitter = KernelEmitter(kernel, name or kernel.name, Names(), collectives)
    e = emitter.emit()
    asked = conditions(Variant(TRUE, (kernel,)), e.conditions)
    launch = _launch(emitter.name, e.params, e, kernel)
    body = [*heading(launch, kernel, asked), *e.nodes]
    lines = [t for t, _ in layout(body)]
    text = prelude("\n".join(lines) + "\n".join(collectives.texts))
    text += "".join(f"{t}\n" for t in collectives.texts) + "\n".join(lines) + "\n"
    return text, _variant(asked, (launch,), rounded_by_order((kernel,)), ())


def _variant(
    asked: tuple[Condition, ...],
    launches: tuple[RenderedLaunch, ...],
    rounded: frozenset[str],
    needed: tuple[str, ...],
) -> RenderedVariant:
    guard = conjunction(tuple(c.expr for c in asked))
    return RenderedVariant(guard, launches, rounded, needed, {c.expr: c.why for c in asked})


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
    helpers = [(t, None) for text in collectives.texts for x in (*text.splitlines(), "") for t in wrapped(x)]
    constants = prelude("\n".join(t for t, _ in [*helpers, *body]))
    rows += [(t, None) for t in constants.splitlines()]
    rows += helpers
    rows += body
    original = render_original(module.original)
    for definition in re.findall(r"^#ifndef .*\n#define .*\n#endif\n", constants, re.MULTILINE):
        original = original.replace(definition, "", 1)
    original = original.lstrip("\n")
    if variants:
        rows.append((ORIGINAL, None))
    rows += [(t, None) for t in original.splitlines()]
    text = "\n".join(t for t, _ in rows) + "\n"
    return Rendered(text, variants, original_launch(module), tuple(o for _, o in rows))


def _launch(name: str, params: tuple[Param, ...], e: EmittedKernel, kernel: Kernel) -> RenderedLaunch:
    launch = RenderedLaunch(name, params, e.grid, e.block, e.shared_bytes, carveout=kernel.carveout)
    return replace(launch, note=geometry(launch))
