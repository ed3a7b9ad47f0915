"""A module's text read back: does each kernel of it do what the kernel that was proved does?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from evolve.codegen.rendered import Rendered, RenderedLaunch, RenderedVariant
from evolve.ir.expr import TRUE, Binary, BinaryOp, Const, Var, conjunction
from evolve.ir.expr import Expr as Term
from evolve.ir.kernel import Kernel, Module, Variant
from evolve.ir.poly import fixed_scalars
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import For
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import leaves, local_buffers, walk
from evolve.validation.context import Context, Known
from evolve.validation.formula import at_least, below, is_opaque, negation
from evolve.validation.instructions import check_directives, threads_allowed
from evolve.validation.items import Item
from evolve.validation.meaning import kernel_condition, kernel_index
from evolve.validation.polynomial import Interval, Poly, constant, variable
from evolve.validation.read import TextReader
from evolve.validation.reuse import check_scratch
from evolve.validation.state import AXES, GRID, Index, Parameter, Place, Shared, State
from evolve.validation.statements import touched_by_call
from evolve.validation.text import (
    Array,
    Assign,
    Branch,
    Evaluate,
    Function,
    Group,
    Loop,
    Pointer,
    Stmt,
    While,
)
from evolve.validation.verdict import DifferenceError, TextStatus, TextVerdict, UnreadError
from evolve.validation.walk import Walk
from evolve.validation.widths import Widths
from evolve.validation.witness import happens, within_types

WARP = 32
MOST_BLOCKS = 65535
"""Along y and z of a grid."""
STATIC_BYTES = 48 * 1024
"""Of shared memory that a block has without asking for it."""


def validate(module: Module, rendered: Rendered) -> TextVerdict:
    """Reads every kernel of the module back from its text; UNKNOWN where it has none. Raises nothing."""
    if not module.variants:
        return TextVerdict(TextStatus.UNKNOWN, "nothing of the text was proved")
    return _read_back(rendered.text, tuple(zip(module.variants, rendered.variants, strict=True)))


def validate_kernel(kernel: Kernel, text: str, rendered: RenderedVariant) -> TextVerdict:
    """The same of one kernel that was rendered alone."""
    return _read_back(text, ((Variant(conjunction(kernel.assumptions), (kernel,)), rendered),))


def _read_back(text: str, variants: Sequence[tuple[Variant, RenderedVariant]]) -> TextVerdict:
    line, known = 0, Known()
    try:
        reader = TextReader(text)
        functions = [reader.kernel(x.kernel) for _, made in variants for x in made.launches]
        if functions:
            check_directives(text, functions)
        for variant, made in variants:
            _check_guard(variant.guard, variant.kernels, made.guard)
            for kernel, launch in zip(variant.kernels, made.launches, strict=True):
                function = reader.kernel(launch.kernel)
                line = function.line
                compare(kernel, function, launch, made.guard, known)
    except DifferenceError as e:
        if known.exceeded:
            return TextVerdict(TextStatus.UNKNOWN, f"a question was too hard: {e.reason}?", e.line or line)
        return TextVerdict(TextStatus.REFUTED, e.reason, e.line or line)
    except UnreadError as e:
        return TextVerdict(TextStatus.UNKNOWN, e.reason, e.line or line)
    except Exception as e:  # A fault of this package says nothing about the text.
        return TextVerdict(TextStatus.UNKNOWN, f"{type(e).__name__}: {e}", line)
    return TextVerdict(TextStatus.PROVED)


def _check_guard(guard: Term, kernels: Sequence[Kernel], launched: Term) -> None:
    """What the proof assumes of sizes must be asked before a launch."""
    asked = set(conjuncts((launched,)))
    wanted = {*conjuncts((guard,)), *(t for k in kernels for t in conjuncts(k.assumptions))}
    least = {x[0]: x[1] for x in map(_at_most, asked) if x is not None}
    for t in wanted - asked:
        bound = _at_most(t)
        if t == TRUE or (bound is not None and least.get(bound[0], bound[1] + 1) <= bound[1]):
            continue
        raise _not_asked(t, launched, kernels[0])


def _not_asked(wanted: Term, launched: Term, kernel: Kernel) -> DifferenceError | UnreadError:
    """What to raise where a launch does not ask that, in these words at least."""
    reason = "the launch does not ask what the proof assumes"
    sizes = {s.name: variable(s.name) for s in kernel.scalars if s.is_size}
    state = State(
        kernel=kernel, buffers={}, block={}, grid={}, sizes=sizes, written=frozenset(), constants=frozenset()
    )
    context = Context(dict.fromkeys(sizes, (None, None)), asked=within_types(kernel.scalars))
    asked = context.given(*(kernel_condition(state, t, {}, context) for t in conjuncts((launched,))))
    f = kernel_condition(state, wanted, {}, context)
    return DifferenceError(reason) if is_opaque(f) else happens(asked, negation(f), reason)


def _check_asked(state: State, guard: Term, sizes: Sequence[str], known: Known) -> None:
    """What is read here rests on sizes being at least 1, and a launch on the limits of a grid."""
    limits = within_types(s for s in state.kernel.scalars if s.name in sizes)
    context = Context(dict.fromkeys(state.sizes, (None, None)), known=known, asked=limits)
    asked = context.given(*(kernel_condition(state, t, {}, context) for t in conjuncts((guard,))))
    for n in sizes:
        if not asked.holds(at_least(variable(n), constant(1))):
            other = below(variable(n), constant(1))
            raise happens(asked, other, f"the launch does not ask that {n} is 1 at least")
    for axis in GRID[1:]:
        if not asked.holds(at_least(constant(MOST_BLOCKS), state.grid[axis])):
            other = below(constant(MOST_BLOCKS), state.grid[axis])
            reason = f"the launch does not ask that {axis.value} has {MOST_BLOCKS} blocks at most"
            raise happens(asked, other, reason)


def _at_most(t: Term) -> tuple[Term, int] | None:
    """What is bounded, and by which number."""
    match t:
        case Binary(BinaryOp.LE, lhs, Const(value=int() as value)):
            return lhs, value
        case _:
            return None


def _multiple(t: Term) -> tuple[str, int]:
    """A size, at least 1, that is a multiple of a number and so not less; an empty name for other facts."""
    match t:
        case Binary(
            BinaryOp.EQ, Binary(BinaryOp.MOD, Var(name), Const(value=int() as d)), Const(value=0)
        ) if d > 0:
            return name, d
        case _:
            return "", 1


def compare(kernel: Kernel, function: Function, launch: RenderedLaunch, guard: Term, known: Known) -> None:
    """Raises DifferenceError or UnreadError unless the function does what the kernel does."""
    fixed = fixed_scalars(kernel.assumptions)
    names = [s.name for s in kernel.scalars if s.is_size]
    sizes = {n: constant(fixed[n]) if n in fixed else variable(n) for n in names}
    ranges: dict[str, Interval] = dict.fromkeys(sizes, (1, None))
    written = {x.buffer for x, _ in leaves(kernel.body)}
    state = State(
        kernel=kernel,
        buffers={b.name: b for b in kernel.buffers} | local_buffers(kernel.body),
        block={},
        grid={},
        sizes=sizes,
        written=frozenset(_written(function.body)),
        constants=frozenset(b.name for b in kernel.buffers if b.name not in written),
        aligned={p.name: p.aligned for p in launch.params},
    )
    context = Context(ranges, known=known)
    state.grid = {a: kernel_index(state, e, {}, context) for a, e in zip(GRID, launch.grid, strict=True)}
    for axis, n in state.grid.items():
        ranges[axis.value] = (0, None if n.value is None else n.value - 1)
    _set_block(state, launch, context)
    for axis, threads in state.block.items():
        ranges[axis.value] = (0, threads - 1)
    facts = [kernel_condition(state, f, {}, context) for f in conjuncts(kernel.assumptions)]
    facts += [below(variable(a.value), n) for a, n in state.grid.items() if n.value is None]
    reads: dict[str, tuple[Poly, Poly]] = {}
    for c in kernel.contents:
        reads[c.buffer] = (kernel_index(state, c.low, {}, context), kernel_index(state, c.high, {}, context))
    guarded = [kernel_condition(state, t, {}, context) for t in conjuncts((guard,))]
    ordered = {c.buffer: state.buffers[c.buffer].extents for c in kernel.contents if c.nondecreasing}
    context = replace(
        context,
        ranges=ranges,
        reads=reads,
        asked=(*guarded, *within_types(s for s in kernel.scalars if s.name not in fixed)),
        ordered={b: kernel_index(state, x[0], {}, context).plus(-1) for b, x in ordered.items()},
    ).given(*facts)
    asked = [x for x in map(_at_most, conjuncts((guard,))) if x is not None]
    polys = [(kernel_index(state, e, {}, context), c) for e, c in asked]
    free = [s for s in kernel.scalars if s.is_size and not s.implied and s.name not in fixed]
    _check_asked(state, guard, [s.name for s in free], known)
    state.widths = Widths(
        sizes=frozenset(s.name for s in free),
        narrow=frozenset(s.name for s in free if s.dtype is DType.I32),
        ints=frozenset(b.name for b in kernel.buffers if b.dtype is DType.I32),
        extents={a.value: n for a, n in state.grid.items()},
        reads=reads,
        asked=polys,
        least={n: d for n, d in map(_multiple, conjuncts(kernel.assumptions)) if n},
    )
    _bind_parameters(state, function, launch)
    _check_hints(state, function)
    allowed, threads = threads_allowed(function), prod(state.block.values())
    if allowed is not None and allowed < threads:
        raise DifferenceError(f"__launch_bounds__({allowed}) and {threads} threads")
    check_scratch(function)
    Walk(state).exact(function.body, [Item(kernel.body)], Place(context, line=function.line))
    state.places.check()
    state.check_used()
    _check_memory(state, launch)


def _set_block(state: State, launch: RenderedLaunch, context: Context) -> None:
    x, y, z = (kernel_index(state, e, {}, context).value for e in launch.block)
    if x is None or y is None or z is None:
        raise UnreadError("a block of no constant shape")
    state.launched = (x, y, z)
    state.block = dict(zip(AXES, (x, y, z), strict=True))
    if state.kernel.lanes:
        wanted = {a: _most(state, a, context) for a in AXES}
        if wanted[LoopKind.THREAD_Y] > 1:
            rows, columns, warps = (wanted[a] for a in AXES)
            if (rows * columns, warps, 1) != (x, y, z) or x != WARP:
                raise DifferenceError("the launch has other threads than the kernel")
            state.block = wanted
            state.is_warps = True


def _most(state: State, axis: LoopKind, context: Context) -> int:
    """Iterations of the longest loop that is bound to an axis."""
    out = 1
    for site in walk(state.kernel.body):
        if isinstance(site.stmt, For) and site.stmt.kind is axis:
            n = kernel_index(state, site.stmt.extent, {}, context).value
            out = max(out, n or 1)
    return out


def _bind_parameters(state: State, function: Function, launch: RenderedLaunch) -> None:
    if len(function.params) != len(launch.params):
        raise DifferenceError("the text has other parameters")
    if tuple(p.name for p in launch.params) != tuple(state.kernel.params):
        raise DifferenceError("the launch has other arguments than the kernel")
    for p, given in zip(function.params, launch.params, strict=True):
        array = isinstance(p.type, Pointer)
        element = p.type.element if isinstance(p.type, Pointer) else p.type
        if given.name in {b.name for b in state.kernel.buffers}:
            if not array or element is not state.buffers[given.name].dtype:
                raise DifferenceError(f"parameter {p.name} has another type")
            if p.key in function.readonly and given.name not in state.constants:
                raise DifferenceError(f"{p.name} is const and is written", function.line)
            state.names[p.key] = Parameter(given.name, True)
            continue
        scalar = state.kernel.scalar(given.name)
        if array or element is not scalar.dtype:
            raise DifferenceError(f"parameter {p.name} has another type")
        if scalar.is_size:
            state.names[p.key] = Index(state.sizes[given.name])
        else:
            state.names[p.key] = Parameter(given.name, False)


def _check_hints(state: State, function: Function) -> None:
    """What has a hint is global memory, and what is loaded by the read-only path nobody writes meanwhile."""
    for x in function.hinted:
        held = state.names.get(x.base.key)
        if not isinstance(held, Parameter) or not held.is_array:
            raise DifferenceError(f"{x.base.name} is not in global memory", x.line)
        if x.constant and held.name not in state.constants:
            raise DifferenceError(f"{x.base.name} is loaded as constant and is written", x.line)


def _check_memory(state: State, launch: RenderedLaunch) -> None:
    """Arrays in the block's dynamic memory lie apart, and within what the launch asks for."""
    end = static = 0
    arrays = [b.declaration for b in state.names.values() if isinstance(b, Shared)]
    for d in sorted((d for d in arrays if d.offset is not None), key=lambda d: d.offset or 0):
        assert isinstance(d.type, Array) and d.offset is not None
        if d.offset < end or d.offset % d.type.element.size:
            raise DifferenceError(f"{d.name} lies where another array does", d.line)
        end = d.offset + d.type.element.size * prod(d.type.extents)
    for d in (d for d in arrays if d.offset is None and isinstance(d.type, Array)):
        static += d.type.element.size * prod(d.type.extents)  # type: ignore[union-attr]
    if static > STATIC_BYTES:
        raise DifferenceError(f"{static} bytes of shared memory, a block has {STATIC_BYTES}")
    if end > launch.shared_bytes:
        raise DifferenceError(f"{end} bytes of shared memory, the launch has {launch.shared_bytes}")


def _written(body: Sequence[Stmt]) -> Iterator[int]:
    for s in body:
        match s:
            case Assign() | Evaluate():
                yield from touched_by_call(s)
            case Branch():
                yield from _written(s.then)
                yield from _written(s.orelse)
            case Loop() | While() | Group():
                yield from _written(s.body)
            case _:
                pass
