"""A module as text, and what its host side must know to run it at given sizes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from evolve.codegen.launch import BufferArg, ConcreteLaunch, Dim3, ScalarArg, ScratchArg
from evolve.codegen.wrap import gathered
from evolve.ir.evaluate import Number, evaluate
from evolve.ir.expr import Const, Expr, conjunction, var
from evolve.ir.printer import print_expr
from evolve.ir.types import DType

ORIGINAL = "// The original kernel, for sizes that no variant above covers."
"""The line over the user's own kernel, where there are others."""
Dims = tuple[Expr, Expr, Expr]


def _tokens(text: str) -> list[str]:
    """What a compiler sees, but for directives' ends: words and signs without the comments behind them."""
    return re.sub(r"//[^\n]*", "", text).split()


@dataclass(frozen=True)
class Param:
    """One parameter of an emitted kernel. `dtype` is that of the element for a pointer.

    `extents`, in elements, are known of the original's arrays and of scratch memory only. `aligned`: the
    bytes that the address of an array must be a multiple of, for the widest access; 0: just its type's.
    """

    name: str
    dtype: DType
    is_pointer: bool
    is_const: bool = False
    extents: tuple[Expr, ...] = ()
    is_scratch: bool = False
    aligned: int = 0


@dataclass(frozen=True)
class RenderedLaunch:
    """A launch as functions of the scalars. `params` in signature order; `note` is for the reader.

    `carveout`: the percentage of an SM's memory that is preferred as shared memory; None: the driver decides.
    """

    kernel: str
    params: tuple[Param, ...]
    grid: Dims
    block: Dims
    shared_bytes: int = 0
    note: str = ""
    carveout: int | None = None

    @property
    def threads(self) -> int | None:
        """Threads a block where they are constant."""
        total = 1
        for e in self.block:
            if not isinstance(e, Const):
                return None
            total *= int(e.value)
        return total


@dataclass(frozen=True)
class RenderedVariant:
    """Launches that are valid when `guard` holds: the program's condition and what the text relies on.

    `rounded` are arrays whose last bits depend on the order of threads: see `rounding`. `needed` are
    arrays that callers of the original may leave out, as null pointers, and of the variant may not.
    `reasons`: why each operand of the guard is asked, as a comment says it.
    """

    guard: Expr
    launches: tuple[RenderedLaunch, ...]
    rounded: frozenset[str] = frozenset()
    needed: tuple[str, ...] = ()
    reasons: Mapping[Expr, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class LineOrigin:
    """Where a line of the text comes from: lifted statement, loop, transforms, line of the user's source."""

    stmt: str | None = None
    loop: str | None = None
    note: str = ""
    source_line: int | None = None


@dataclass(frozen=True)
class Rendered:
    """`text` compiles as it stands. `lines[i]` tells the origin of line i+1 (None: scaffolding)."""

    text: str
    variants: tuple[RenderedVariant, ...]
    original: RenderedLaunch
    lines: tuple[LineOrigin | None, ...]

    @property
    def by_statement(self) -> str:
        """The text with each statement on the line where it begins. To be compiled where two compilers' lines
        are compared: they take those of a statement of several lines differently. White space is all that
        differs, which is looked at."""
        own, mark, original = self.text.partition(ORIGINAL)
        text = gathered(own) + mark + original
        return text if _tokens(text) == _tokens(self.text) else self.text

    @property
    def fingerprint(self) -> str:
        """A hash of what runs: the text without comments, the guards and the launches."""
        code = re.sub(r"//[^\n]*", "", self.text)
        code = "\n".join(x.strip() for x in code.splitlines() if x.strip())
        parts = [code, print_expr(conjunction(tuple(v.guard for v in self.variants)))]
        for v in self.variants:
            for x in v.launches:
                dims = [print_expr(e) for e in (*x.grid, *x.block)]
                asked = "" if x.carveout is None else f" {x.carveout}"
                parts.append(f"{x.kernel} {dims} {x.shared_bytes}{asked}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def signatures(self) -> dict[str, tuple[Param, ...]]:
        """Parameters of every kernel that can be launched."""
        launches = [x for v in self.variants for x in v.launches]
        return {x.kernel: x.params for x in (*launches, self.original)}


def concretise(
    rendered: Rendered, scalars: Mapping[str, int | float]
) -> tuple[int, tuple[ConcreteLaunch, ...]]:
    """Which variant runs at these sizes (-1: the original) and its launches.

    A launch over an empty domain (a grid dimension below one) is left out.
    Raises EvolveError unknown-scalar when a scalar that a guard, a grid or a parameter needs has no value.
    """
    for i, v in enumerate(rendered.variants):
        if evaluate(v.guard, scalars):
            return i, _concrete(v.launches, scalars)
    return -1, _concrete((rendered.original,), scalars)


def concretise_variant(
    rendered: Rendered, variant: int, scalars: Mapping[str, int | float]
) -> tuple[ConcreteLaunch, ...]:
    """The launches of one variant (-1: the original), its guard not asked."""
    launches = (rendered.original,) if variant < 0 else rendered.variants[variant].launches
    return _concrete(launches, scalars)


def _concrete(
    launches: tuple[RenderedLaunch, ...], scalars: Mapping[str, int | float]
) -> tuple[ConcreteLaunch, ...]:
    out = []
    for x in launches:
        grid, block = _dims(x.grid, scalars), _dims(x.block, scalars)
        if min(*grid, *block) < 1:
            continue
        args = tuple(_argument(p, scalars) for p in x.params)
        out.append(ConcreteLaunch(x.kernel, args, grid, block, x.shared_bytes, x.carveout))
    return tuple(out)


def _argument(p: Param, scalars: Mapping[str, Number]) -> BufferArg | ScratchArg | ScalarArg:
    if p.is_scratch:
        return ScratchArg(p.name, p.dtype.value, prod(int(evaluate(e, scalars)) for e in p.extents))
    if p.is_pointer:
        return BufferArg(p.name)
    return ScalarArg(p.name, p.dtype.value, evaluate(var(p.name), scalars))


def _dims(dims: Dims, scalars: Mapping[str, Number]) -> Dim3:
    x, y, z = (int(evaluate(e, scalars)) for e in dims)
    return x, y, z
