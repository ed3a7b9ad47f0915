"""The comment over an emitted kernel: its launch, where it is valid and why only there, what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evolve.codegen.conditions import Condition
from evolve.codegen.ctext import ExprText
from evolve.codegen.ctree import Node, line
from evolve.codegen.rendered import Param, RenderedLaunch
from evolve.ir.affine import Ranges
from evolve.ir.approximate import approximate_calls
from evolve.ir.expr import Expr, index
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr, print_premise
from evolve.ir.visit import variables

APART = "no array that it writes overlaps another"
ALONE = "nothing else writes or updates the arrays while it runs"
"""What the text takes for granted besides the guards. Updates of the source may have been atomic."""


def heading(
    launch: RenderedLaunch, kernel: Kernel, conditions: Iterable[Condition], premises: Iterable[str] = ()
) -> list[Node]:
    """Lines of comment. `premises`: what else it rests on."""
    return [line(f"// {t}") for t in _heading(launch, kernel, conditions, premises)]


def _heading(
    launch: RenderedLaunch, kernel: Kernel, conditions: Iterable[Condition], premises: Iterable[str]
) -> Iterator[str]:
    yield f"{launch.kernel}: {launch.note}."
    yield "Valid where"
    by_reason: dict[str, list[str]] = {}
    for c in conditions:
        if variables(c.expr):
            by_reason.setdefault(c.why, []).append(c_text(c.expr))
    for why, terms in by_reason.items():
        yield f"  {', '.join(terms)}: {why};"
    for text in _alignments(launch.params):
        yield f"  {text};"
    yield f"  {APART} (__restrict__)."
    yield "Rests on what no launch can check:"
    rest = [ALONE, *map(print_premise, kernel.contents), *_lengths(kernel), *premises]
    for i, premise in enumerate(rest):
        yield f"  {premise}{'.' if i == len(rest) - 1 else ';'}"
    used = approximate_calls(kernel)
    if used:
        yield f"Approximate functions: {', '.join(used)}."
    for p in launch.params:
        if p.is_scratch:
            size = " * ".join(map(c_text, p.extents))
            yield f"{p.name} is scratch memory of {size} elements, which the launches share."


def _alignments(params: tuple[Param, ...]) -> Iterator[str]:
    """That arrays which are accessed in vectors begin where these can."""
    for size in sorted({p.aligned for p in params if p.aligned}, reverse=True):
        names = [p.name for p in params if p.aligned == size]
        one = len(names) == 1
        yield f"{' and '.join(names)} start{'s' * one} at a multiple of {size} bytes (vector accesses)"


def _lengths(kernel: Kernel) -> Iterator[str]:
    for size in sorted(kernel.implied):
        long = [b.name for b in kernel.buffers if any(size in variables(x) for x in b.extents)]
        if long:
            has = "have" if len(long) > 1 else "has"
            yield f"{' and '.join(long)} {has} {size} elements along the first dimension"


def geometry(launch: RenderedLaunch) -> str:
    """How a kernel is launched, in words."""
    grid, block = (", ".join(map(c_text, _trim(dims))) for dims in (launch.grid, launch.block))
    shared = f", {launch.shared_bytes} bytes of dynamic shared memory" if launch.shared_bytes else ""
    preferred = "" if launch.carveout is None else f", {launch.carveout} % of an SM's memory shared"
    return f"grid ({grid}), block ({block}){shared}{preferred}"


def _trim(dims: tuple[Expr, Expr, Expr]) -> tuple[Expr, ...]:
    out = list(dims)
    while len(out) > 1 and out[-1] == index(1):
        out.pop()
    return tuple(out)


def c_text(e: Expr) -> str:
    """A condition or a size as C has it, over parameters."""
    positive = Ranges(dict.fromkeys(variables(e), (1, None)), {})
    return ExprText(lambda name: name, print_expr, positive).text(e)
