"""A workload for a kernel that came with none."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Protocol

from evolve.ir.effects import Mode, effects
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var
from evolve.ir.kernel import Kernel, Original
from evolve.ir.stmt import For
from evolve.ir.types import DType
from evolve.ir.visit import variables, walk
from evolve.target.limits import WARP
from evolve.workload.gates import gates, inside, works
from evolve.workload.implied import largest_side, trips, values_of, with_implied
from evolve.workload.model import ArraySpec, LaunchSpec, Role, Sizes, Workload
from evolve.workload.parameters import settings
from evolve.workload.pitches import pitches
from evolve.workload.sizes import size_text

NOT_GIVEN = ": no workload was given"
"""How the sentence about sizes ends that `infer` chose; it goes when a workload gives others."""
_LOG2_ELEMENTS = 27
_LOG2_MOST_ELEMENTS = 29
_TWO_DIMENSIONS = 8192
_COMPUTE_BOUND = 4096
_LOG2_WORK = 36
_SMALL = 16
_DATA_SCALAR = 1.25
_INTEGER_DATA = 3
# Tiny, odd, prime, a warp, around a block, and one of some size.
_CHECK_1D = (1, 3, 7, 17, 33, 64, 255, 1024, 4099)
_CHECK = ((1, 1), (2, 4), (3, 7), (17, 13), (32, 64), (65, 129), (5, 257))
_CHECKS = 6
_MAX_CHECK_ELEMENTS = 1 << 17


class LiftedKernel(Protocol):
    """What inference needs of a lifted kernel."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def original(self) -> Original: ...
    @property
    def no_wrap(self) -> tuple[Expr, ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


def infer(lifted: LiftedKernel) -> Workload:
    """Roles from reads and writes, extents from the IR, sizes far out of any L2, launch from the original."""
    kernel = lifted.kernel
    arrays = tuple(
        ArraySpec(b.name, _role(kernel, b.name), b.dtype, b.extents, values_of(kernel, b.name))
        for b in kernel.buffers
    )
    timed = _timed(kernel, lifted.no_wrap)
    check = _checked(kernel, lifted.no_wrap)
    launch = LaunchSpec(lifted.original.grid, lifted.original.block, lifted.original.shared_bytes)
    sizes = ", ".join(f"{k} = {v}" for k, v in timed.items())
    assumed = (f"timed at {sizes or 'its only size'}{NOT_GIVEN}", *lifted.notes, *_reach(kernel))
    return Workload(kernel.name, arrays, (timed,), check, launch, assumed=assumed)


def _reach(kernel: Kernel) -> Iterator[str]:
    """Arrays with more elements than the sizes themselves: a bound that is off by one shows up here."""
    for b in kernel.buffers:
        if any(_is_more(e) for e in b.extents):
            shape = " x ".join(size_text(e) for e in b.extents)
            yield f"{b.name} has {shape} elements, as far as the kernel reaches"


def _is_more(e: Expr) -> bool:
    match e:
        case Binary(BinaryOp.ADD, _, Const(value)):
            return value > 0
        case _:
            return False


def _role(kernel: Kernel, name: str) -> Role:
    modes: set[Mode] = set()
    for site in walk(kernel.body):
        modes |= {a.mode for a in effects(site.stmt).accesses if a.buffer == name}
    if Mode.REDUCE in modes or {Mode.READ, Mode.WRITE} <= modes:
        return "inout"
    return "out" if Mode.WRITE in modes else "in"


def _timed(kernel: Kernel, no_wrap: tuple[Expr, ...]) -> Sizes:
    """Sizes at which the largest array has about 2^27 elements, fewer for kernels that reuse their data."""
    sizes = [s.name for s in kernel.scalars if s.is_size]
    largest = _largest_array(kernel, sizes)
    extents = [site.stmt.extent for site in walk(kernel.body) if isinstance(site.stmt, For)]
    work = {n for e in extents for n in _factors(e) if n in sizes}
    if len(work) > len(largest) >= 1:
        side = _COMPUTE_BOUND if len(work) == 3 else 2 ** (_LOG2_WORK // len(work))
    elif kernel.contents:
        side = largest_side(kernel, len(largest))
    elif len(largest) == 2:
        side = _TWO_DIMENSIONS
    else:
        # Whole warps: sizes that nothing divides are for the checks, people time round ones.
        side = int(2 ** (_LOG2_ELEMENTS / max(1, len(largest)))) // WARP * WARP or WARP
    chosen = {n: side if n in largest or n in work else _SMALL for n in sizes}
    # Conditions on sizes alone first; what follows keeps them, so a size that they bind does not grow again.
    data, gate = _data_scalars(kernel), gates(kernel)
    chosen |= {n: int(v) for n, v in pitches(kernel, {**data, **chosen}).items() if n in chosen}
    chosen |= {n: int(v) for n, v in with_implied(kernel, chosen).items()}
    before = dict(chosen)
    chosen = {n: int(v) for n, v in inside(gate, {**data, **chosen}, ()).items() if n in chosen}
    while failing := {n for f in no_wrap if not evaluate(f, chosen) for n in variables(f) & chosen.keys()}:
        if max(chosen[n] for n in failing) == 1:
            break
        chosen |= {n: max(1, chosen[n] // 2) for n in failing}
    settled = inside(gate, {**data, **chosen}, no_wrap)
    chosen = {n: int(settled[n]) for n in chosen}
    while (over := _work(kernel, chosen) or _space(kernel, chosen)) and max(chosen[n] for n in over) > 1:
        chosen |= {n: max(1, chosen[n] // 2) for n in over}
    # What bounds one size alone, such as the threads of a block, leaves the others to make up for it.
    lost = prod(before[n] // max(1, chosen[n]) for n in largest)
    for n in (n for n in sizes if n in largest and chosen[n] == before[n]):
        while lost > 1 and all(evaluate(f, chosen | {n: 2 * chosen[n]}) for f in no_wrap):
            if not works(gate, {**settled, **chosen, n: 2 * chosen[n]}):
                break
            chosen[n], lost = 2 * chosen[n], lost // 2
    wider = pitches(kernel, {**settled, **chosen})
    fits = works(gate, wider) and all(evaluate(f, wider) for f in no_wrap)
    return wider if fits else {**settled, **chosen}


def _work(kernel: Kernel, sizes: Sizes) -> set[str]:
    """The sizes that decide how often a statement runs that runs too often; none if there is none.

    A loop inside another may depend on it: its extent counts as what it is at the ends of that one.
    """
    for site in walk(kernel.body):
        low, high, total, names = dict(sizes), dict(sizes), 1, set[str]()
        for loop in site.loops:
            extent = max(1, *(trips(loop.extent, at) for at in (low, high)))
            total *= extent
            names |= variables(loop.extent)
            low[loop.var], high[loop.var] = 0, extent - 1
        if total > 2**_LOG2_WORK:
            return names & sizes.keys()
    return set()


def _space(kernel: Kernel, sizes: Sizes) -> set[str]:
    """The sizes of an array of very many elements: one counts twice, or beside constant dimensions."""
    for b in kernel.buffers:
        if prod(int(evaluate(e, sizes)) for e in b.extents) > 2**_LOG2_MOST_ELEMENTS:
            return {n for e in b.extents for n in variables(e)} & sizes.keys()
    return set()


def _largest_array(kernel: Kernel, sizes: list[str]) -> set[str]:
    """The sizes whose product is the element count of the array with most of them."""
    best: set[str] = set()
    for b in kernel.buffers:
        found = {n for e in b.extents for n in _factors(e) if n in sizes}
        if len(found) > len(best):
            best = found
    return best


def _factors(e: Expr) -> set[str]:
    """Sizes in the leading term: the first addend of a sum, all operands of products and quotients."""
    match e:
        case Var():
            return {e.name}
        case Binary(op=BinaryOp.ADD | BinaryOp.SUB):
            return _factors(e.lhs) or _factors(e.rhs)
        case Binary(op=BinaryOp.MUL):
            return _factors(e.lhs) | _factors(e.rhs)
        case Binary():
            return _factors(e.lhs)
        case _:
            return set()


def _data_scalars(kernel: Kernel) -> dict[str, int | float]:
    out: dict[str, int | float] = {}
    for s in kernel.scalars:
        if not s.is_size:
            integer = 1 if s.dtype is DType.BOOL else _INTEGER_DATA
            out[s.name] = _DATA_SCALAR if s.dtype.is_float else integer
    return out


def _checked(kernel: Kernel, no_wrap: tuple[Expr, ...]) -> tuple[Sizes, ...]:
    sizes = [s.name for s in kernel.scalars if s.is_size]
    gate = gates(kernel)
    turns = settings(kernel, [_data_scalars(kernel)])
    out: list[Sizes] = []
    rows = [(n,) for n in _CHECK_1D] if len(sizes) == 1 else list(_CHECK)
    for number, row in enumerate(rows):
        # A third size and later ones repeat the first two, moved a little so that all differ.
        chosen = {n: row[k % len(row)] + k // len(row) for k, n in enumerate(sizes)}
        # Pitches differ from the rows' length by another number each time.
        made = pitches(kernel, {**turns[number % len(turns)], **chosen}, number)
        if number:  # the first stays, whether the kernel does anything there or not
            made = inside(gate, made, no_wrap)
        # A kernel without sizes has only these: whether they can be executed shows when they are.
        moderate = not sizes or _moderate(kernel, made)
        if all(evaluate(f, made) for f in no_wrap) and made not in out and moderate:
            out.append(made)
    # The largest ones reach the most code; the smallest one is the classic corner.
    return (*out[:1], *out[1:][-(_CHECKS - 1) :])


def _moderate(kernel: Kernel, sizes: Sizes) -> bool:
    """Every array has at least one element and none has too many to check quickly."""
    for b in kernel.buffers:
        extents = [int(evaluate(e, sizes)) for e in b.extents]
        if min(extents, default=1) < 1 or prod(extents) > _MAX_CHECK_ELEMENTS:
            return False
    return True
