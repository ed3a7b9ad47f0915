"""online: the sweep for a maximum and that for sums of exponentials relative to it, as one.

    for c: m[] max= e(c)                        for c: old[] = m[]
    s[] = 0                                            m[] max= e(c)
    for d: s[] sum= exp(e(d) - m[])                    s[] = s[] * exp(old[] - safe(m[]))
                                                       s[] sum= exp(e(c) - safe(m[]))
                                                s[] = s[] * exp(m[] - m[])

Where both are shared out among threads, each has a maximum and a sum of its own, m_part and s_part; the last
statement then brings its sum to the common maximum, before the sums are combined. Where both sweeps compute
the exponents, the joined one does so twice, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.expr import Binary, BinaryOp, Expr, Load, var
from evolve.ir.kernel import Kernel
from evolve.ir.scaled import difference, exp_of_difference, power_in, safe, with_power
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Leaf, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, Space
from evolve.ir.visit import (
    Site,
    children,
    fresh,
    leaves,
    rewrite,
    substitute,
    substitute_block,
    variables,
    walk,
)
from evolve.transforms.call import Call, Result, transform
from evolve.transforms.edit import declared_in, extent_at, loop_at, touched
from evolve.transforms.names import taken_names


@dataclass(frozen=True)
class _Total:
    """A sum, and the loops inside the sweep over its cells."""

    update: Reduce
    loops: tuple[For, ...]


@dataclass(frozen=True)
class _Sweeps:
    """The loops that become one, outermost first, and what they hold."""

    first: tuple[For, ...]
    second: tuple[For, ...]
    top: Reduce
    totals: tuple[_Total, ...]
    scale: Load


@transform("online")
def online(call: Call) -> Result:
    """See dsl_spec/online.yaml."""
    kernel = call.kernel
    first, second = call.loops("maximum"), call.loops("sum")
    found = _sweeps(kernel, first, second)
    taken = taken_names(kernel)
    made = _fused(found, taken, call.note)
    body = _placed(kernel, found, made, _ending(found, taken, call.note))
    names = call.names
    for loop in second:
        names = names.without_loop(loop, f"joined by {call.note}")
    return replace(kernel, body=body), names


def _sweeps(kernel: Kernel, first: tuple[str, ...], second: tuple[str, ...]) -> _Sweeps:
    """Raises RefusedError unless the loops are two nests alike, of a maximum and of a sum relative to it."""
    if len(first) != len(second) or set(first) & set(second):
        raise RefusedError("E-ONLINE-NEST", "as many loops of the one sweep are needed as of the other")
    one, two = (tuple(loop_at(kernel, n)[0] for n in names) for names in (first, second))
    for nest in (one, two):
        for outer, inner in pairwise(nest):
            if outer.body.stmts != (inner,):
                raise RefusedError("E-ONLINE-NEST", f"{inner.var} is not all that {outer.var} holds")
    for a, b in zip(one, two, strict=True):
        if a.kind is not b.kind or extent_at(kernel, a.var) != extent_at(kernel, b.var):
            raise RefusedError(
                "E-ONLINE-NEST",
                f"{a.var} and {b.var} are not loops of one extent and kind",
                repair="split and bind both sweeps alike",
            )
    here, there = declared_in(one[-1].body), declared_in(two[-1].body)
    tops = [leaf for leaf, _ in leaves(one[-1].body) if leaf.buffer not in here]
    top = tops[0] if tops else None
    if len(tops) != 1 or not isinstance(top, Reduce) or top.monoid != MAX:
        raise RefusedError("E-ONLINE-FORM", f"{first[-1]} does not hold one maximum and nothing else")
    totals = tuple((x, site) for x, site in leaves(two[-1].body) if x.buffer not in there)
    powers = {x.buffer: x for x, _ in leaves(two[-1].body) if x.buffer in there and _is_power(x)}
    scales = [_scale(x, powers) for x, _ in totals]
    if not totals or None in scales or len(set(scales)) != 1:
        raise RefusedError(
            "E-ONLINE-FORM",
            f"{second[-1]} does not hold sums of exp(e - m), or of it by a weight, and nothing else",
        )
    (scale,) = set(scales)
    assert scale is not None
    inside = {s.stmt.var for n in (one, two) for s in walk(n[-1].body) if isinstance(s.stmt, For)}
    if any(inside & variables(i) for i in (*top.indices, *scale.indices)):
        raise RefusedError(
            "E-ONLINE-FORM", f"inside {first[-1]} and {second[-1]} the maximum is not the same all over"
        )
    of_each = {x.var for x in two} & frozenset().union(*map(variables, scale.indices), frozenset())
    if of_each or scale.buffer in there:
        loop = min(of_each, default=second[-1])
        raise RefusedError(
            "E-ONLINE-FORM", f"each iteration of {loop} has a maximum of its own, it is no sweep for one"
        )
    for a, b in zip(one, two, strict=True):
        whole = [x for x, _ in totals if not any(b.var in variables(i) for i in x.indices)]
        if whole and any(a.var in variables(i) for i in top.indices):
            raise RefusedError(
                "E-ONLINE-FORM",
                f"{a.var} has a maximum of its own in each iteration, {whole[0].buffer} one sum for all",
                repair="reduce both sweeps in parts, or none",
            )
    sums = tuple(_Total(x, _moving(x, site)) for x, site in totals if isinstance(x, Reduce))
    return _Sweeps(one, two, top, sums, scale)


def _is_power(leaf: Leaf) -> bool:
    """Whether a variable gets an `exp(e - m)`."""
    step = difference(leaf.value) if isinstance(leaf, Store) else None
    return step is not None and isinstance(step.rhs, Load)


def _scale(total: Leaf, powers: dict[str, Leaf]) -> Load | None:
    """The m that a sum of exp(e - m) is relative to; the exponential may be in one of `powers`."""
    if not isinstance(total, Reduce) or total.monoid != SUM:
        return None
    power = power_in(total.value)
    if power is None:
        product = isinstance(total.value, Binary) and total.value.op is BinaryOp.MUL
        factors = children(total.value) if product else (total.value,)
        kept = [powers[x.buffer] for x in factors if isinstance(x, Load) and x.buffer in powers]
        power = kept[0].value if len(kept) == 1 else None
    step = None if power is None else difference(power)
    return step.rhs if step is not None and isinstance(step.rhs, Load) else None


def _moving(total: Reduce, site: Site) -> tuple[For, ...]:
    """The loops of the sweep, outermost first, in which a sum has a cell for each iteration."""
    used = frozenset[str]().union(*map(variables, total.indices))
    return tuple(x for x in site.loops if x.var in used)


def _fused(s: _Sweeps, taken: set[str], note: str) -> For:
    """The loops of the first nest around the bodies of both, with the rescaling between."""
    dtype = s.top.value.dtype
    taken.add(name := fresh(f"{s.top.buffer}_old", taken))
    names: dict[str, Expr] = {b.var: var(a.var) for a, b in zip(s.first, s.second, strict=True)}
    own = Load(s.top.buffer, s.top.indices, dtype)
    factor = exp_of_difference(Load(name, (), dtype), safe(own))

    def relative(x: Stmt) -> Stmt | None:
        power = power_in(x.value) if isinstance(x, Store | Reduce) else None
        step = None if power is None else difference(power)
        if not isinstance(x, Store | Reduce) or step is None or step.rhs != s.scale:
            return None
        return replace(x, value=with_power(x.value, exp_of_difference(step.lhs, safe(own), power)))

    second = substitute_block(rewrite(s.second[-1].body, relative), names)
    body: tuple[Stmt, ...] = (
        Alloc(Buffer(name, dtype, (), Space.REGISTER)),
        Store(name, (), own),
        *s.first[-1].body.stmts,
        *(_times(x, names, factor, taken, note) for x in s.totals),
        *second.stmts,
    )
    for loop in reversed(s.first):
        body = (replace(loop, body=Block(body), note=note),)
    (out,) = body
    assert isinstance(out, For)
    return out


def _ending(s: _Sweeps, taken: set[str], note: str) -> tuple[Stmt, ...]:
    """The sums brought to the maximum that the source takes, by each thread that has one."""
    dtype = s.top.value.dtype
    cells = frozenset[str]().union(*(variables(i) for x in s.totals for i in x.update.indices))
    names: dict[str, Expr] = {}
    loops = []
    for a, b in zip(s.first, s.second, strict=True):
        if b.var in cells:
            taken.add(name := fresh(f"{a.var}.scale", taken))
            loops.append(replace(a, var=name, note=note))
            names |= {a.var: var(name), b.var: var(name)}
    own = Load(s.top.buffer, tuple(substitute(i, names) for i in s.top.indices), dtype)
    factor = exp_of_difference(own, s.scale)
    out = tuple[Stmt, ...](_times(x, names, factor, taken, note) for x in s.totals)
    for loop in reversed(loops):
        out = (replace(loop, body=Block(out)),)
    return out


def _times(total: _Total, names: dict[str, Expr], factor: Expr, taken: set[str], note: str) -> Stmt:
    """A sum multiplied: all its cells, in the loops of the sweep that `names` gives."""
    loops = []
    for x in total.loops:
        taken.add(name := fresh(f"{x.var}.scale", taken))
        names = {**names, x.var: var(name)}
        loops.append(replace(x, var=name, note=note))
    at = tuple(substitute(i, names) for i in total.update.indices)
    own = Load(total.update.buffer, at, factor.dtype)
    out: Stmt = Store(total.update.buffer, at, Binary(BinaryOp.MUL, own, factor, factor.dtype))
    for x in reversed(loops):
        out = replace(x, body=Block((out,)))
    return out


def _placed(kernel: Kernel, s: _Sweeps, fused: For, ending: tuple[Stmt, ...]) -> Block:
    """The block that holds both nests with `fused` in their place.

    Of what stands between them, what depends on the first sweep follows, the rest goes before.
    """
    one, two = s.first[0], s.second[0]
    if loop_at(kernel, one.var)[1].path != loop_at(kernel, two.var)[1].path:
        raise RefusedError("E-ONLINE-NEST", f"{one.var} and {two.var} are not loops of one block")

    def joined(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        i, j = stmts.index(one), stmts.index(two)
        if i > j:
            raise RefusedError("E-ONLINE-NEST", f"{two.var} comes before {one.var}")
        made = set(touched(one.body)[1])
        before, after = list[Stmt](), list[Stmt]()
        for x in stmts[i + 1 : j]:
            reads, writes = touched(Block((x,)))
            late = bool((reads | writes) & made)
            made |= writes if late else frozenset()
            (after if late else before).append(x)
        return (*stmts[:i], *before, fused, *after, *ending, *stmts[j + 1 :])

    return _in_block(kernel.body, one, joined)


def _in_block(block: Block, at: For, f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Block:
    """The block, or that inside it, that holds the loop directly, with other statements."""
    if any(s is at for s in block.stmts):
        return Block(f(block.stmts))

    def one(s: Stmt) -> Stmt:
        match s:
            case Block():
                return _in_block(s, at, f)
            case For():
                return replace(s, body=_in_block(s.body, at, f))
            case If():
                return replace(s, body=_in_block(s.body, at, f), orelse=_in_block(s.orelse, at, f))
            case _:
                return s

    return Block(tuple(one(s) for s in block.stmts))
