"""The isl view of index expressions and iteration domains. Imported lazily: it loads islpy.

isl objects of one thread live in one context (isl is not thread-safe). Everything here is exact:
what quasi-affine sets cannot express raises NonAffineError, it is never approximated.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import islpy as isl

from evolve.ir.affine import simplify
from evolve.ir.data import is_term, step_terms
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Find, Load, Select, Unary, UnaryOp, Var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.scope import conjuncts, ranges_at
from evolve.ir.stmt import For, If
from evolve.ir.types import DType

IslObject = Any
"""An islpy set, map or piecewise affine expression; islpy has no usable static types."""

MAX_OPERATIONS = 100_000


class NonAffineError(Exception):
    """An expression outside isl's language: a product of variables, a load, a cast."""


class IslLimitError(Exception):
    """A query used up its operations, or isl failed inside: nothing is known."""


_local = threading.local()


def context() -> IslObject:
    """This thread's isl context."""
    ctx = getattr(_local, "context", None)
    if ctx is None:
        ctx = isl.Context()
        _local.context = ctx
    return ctx


@contextmanager
def limited(operations: int = MAX_OPERATIONS) -> Iterator[None]:
    """Bound the isl work of the body; raises IslLimitError beyond.

    After an overrun the context refuses every query until its counter is reset, so it is reset on
    both sides. Nested, the inner limit holds inside and the outer one starts afresh after it.
    """
    ctx = context()
    outer = ctx.get_max_operations()
    ctx.reset_operations()
    ctx.set_max_operations(operations)
    try:
        yield
    except isl.Error as e:
        # Where in isl's own source it happened helps nobody.
        raise IslLimitError(str(e).partition(" in /")[0] or "isl failed") from e
    finally:
        ctx.set_max_operations(outer)
        ctx.reset_operations()


@dataclass(frozen=True)
class Sizes:
    """The scalars of a kernel: isl parameters, those fixed by the assumptions, and all that is known.

    `known` is a parameter set: sizes are at least 1, and the affine assumptions.
    `opaque` lists assumptions that isl cannot express; they are not used.
    """

    names: tuple[str, ...]
    fixed: Mapping[str, int]
    known: IslObject
    opaque: tuple[str, ...] = ()


def fixed_scalars(assumptions: Iterable[Expr]) -> dict[str, int]:
    """Scalars that the assumptions set to a constant."""
    out: dict[str, int] = {}
    for fact in conjuncts(assumptions):
        match fact:
            case Binary(op=BinaryOp.EQ, lhs=Var(name=n, dtype=DType.INDEX), rhs=Const(value=v)):
                out[n] = int(v)
            case Binary(op=BinaryOp.EQ, lhs=Const(value=v), rhs=Var(name=n, dtype=DType.INDEX)):
                out[n] = int(v)
            case _:
                pass
    return out


def sizes_of(kernel: Kernel, assumptions: Sequence[Expr]) -> Sizes:
    """The kernel's scalars under `assumptions`. Fixed scalars become constants, not parameters."""
    fixed = fixed_scalars(assumptions)
    sizes = [s.name for s in kernel.scalars if s.is_size]
    names = tuple(n for n in sizes if n not in fixed)
    bare = Sizes(names, fixed, None)
    frame = Frame.of("", (), bare)
    known = frame.universe()
    for n in names:
        known = known.intersect(frame.env[n].ge_set(frame.constant(1)))
    for n in sizes:
        if n in fixed and fixed[n] < 1:
            known = known.subtract(known)
    opaque: list[str] = []
    for fact in conjuncts(assumptions):
        try:
            known = known.intersect(frame.condition(fact))
        except NonAffineError:
            opaque.append(print_expr(fact))
    return Sizes(names, fixed, known.params(), tuple(opaque))


@dataclass(frozen=True)
class Frame:
    """A named tuple of loop variables over the size parameters, in which expressions are read.

    `env` gives each variable in scope as a piecewise affine function of the tuple. `terms` gives integers
    that are read from memory a dimension of their own, by its name: whatever they are, each has one value.
    """

    name: str
    dims: tuple[str, ...]
    space: IslObject
    env: Mapping[str, IslObject]
    terms: Mapping[Expr, str] = field(default_factory=dict)

    @staticmethod
    def of(name: str, dims: tuple[str, ...], sizes: Sizes, terms: Mapping[Expr, str] | None = None) -> Frame:
        """`terms` maps canonical terms to names among `dims`."""
        ctx = context()
        space = isl.Space.set_alloc(ctx, len(sizes.names), len(dims))
        for i, p in enumerate(sizes.names):
            space = space.set_dim_name(isl.dim_type.param, i, p)
        if name:
            space = space.set_tuple_name(isl.dim_type.set, name)
        local = isl.LocalSpace.from_space(space)
        env: dict[str, IslObject] = {}
        for i, p in enumerate(sizes.names):
            env[p] = isl.PwAff.var_on_domain(local, isl.dim_type.param, i)
        for i, d in enumerate(dims):
            env[d] = isl.PwAff.var_on_domain(local, isl.dim_type.set, i)
        frame = Frame(name, dims, space, env, dict(terms or {}))
        for p, v in sizes.fixed.items():
            env[p] = frame.constant(v)
        return frame

    def universe(self) -> IslObject:
        return isl.Set.universe(self.space)

    def empty(self) -> IslObject:
        return isl.Set.empty(self.space)

    def constant(self, value: int) -> IslObject:
        local = isl.LocalSpace.from_space(self.space)
        # From text: a constant of the source may be wider than 64 bits with a sign.
        val = isl.Val.read_from_str(self.space.get_ctx(), str(value))
        return isl.PwAff.from_aff(isl.Aff.val_on_domain(local, val))

    def affine(self, e: Expr) -> IslObject:
        """The value of an INDEX expression. Raises NonAffineError."""
        match e:
            case Const(value=v) if e.dtype is DType.INDEX:
                return self.constant(int(v))
            case Var(name=n) if e.dtype is DType.INDEX and n in self.env:
                return self.env[n]
            case Binary() if e.dtype is DType.INDEX:
                return self._binary(e)
            case Unary(op=UnaryOp.NEG) if e.dtype is DType.INDEX:
                return self.affine(e.arg).neg()
            case Cast() | Find() if is_term(e):
                known = self.terms.get(canonical_term(e))
                if known is None:
                    raise NonAffineError(print_expr(e))
                return self.env[known]
            case Select() if e.dtype is DType.INDEX:
                cond = self.condition(e.cond)
                then = self.affine(e.then).intersect_domain(cond)
                return then.union_add(self.affine(e.orelse).intersect_domain(cond.complement()))
            case _:
                raise NonAffineError(print_expr(e))

    def _binary(self, e: Binary) -> IslObject:
        a, b = self.affine(e.lhs), self.affine(e.rhs)
        match e.op:
            case BinaryOp.ADD:
                return a.add(b)
            case BinaryOp.SUB:
                return a.sub(b)
            case BinaryOp.MUL:
                if a.is_cst() or b.is_cst():
                    return a.mul(b)
            case BinaryOp.FLOORDIV | BinaryOp.MOD:
                d = _constant(b)
                if d is not None and d > 0:
                    val = isl.Val.read_from_str(self.space.get_ctx(), str(d))
                    return a.mod_val(val) if e.op is BinaryOp.MOD else a.scale_down_val(val).floor()
            case BinaryOp.MIN:
                return a.min(b)
            case BinaryOp.MAX:
                return a.max(b)
            case _:
                pass
        raise NonAffineError(print_expr(e))

    def condition(self, e: Expr) -> IslObject:
        """The points where a BOOL expression over INDEX values holds. Raises NonAffineError."""
        match e:
            case Const(value=v) if e.dtype is DType.BOOL:
                return self.universe() if v else self.empty()
            case Unary(op=UnaryOp.NOT):
                return self.condition(e.arg).complement()
            case Binary(op=BinaryOp.AND):
                return self.condition(e.lhs).intersect(self.condition(e.rhs))
            case Binary(op=BinaryOp.OR):
                return self.condition(e.lhs).union(self.condition(e.rhs))
            case Binary() if e.op.is_comparison and e.lhs.dtype is e.rhs.dtype is DType.INDEX:
                return _compare(e.op, self.affine(e.lhs), self.affine(e.rhs))
            case _:
                raise NonAffineError(print_expr(e))

    def map_to(self, name: str, values: Sequence[IslObject]) -> IslObject:
        """The map from this tuple to the tuple `name` of `values`."""
        ctx = self.space.get_ctx()
        target = isl.Space.set_alloc(ctx, 0, len(values)).align_params(self.space)
        if name:
            target = target.set_tuple_name(isl.dim_type.set, name)
        space = self.space.map_from_domain_and_range(target)
        if all(v.isa_aff() for v in values):
            # Without cases: several times faster than intersecting the domains of each.
            parts = isl.AffList.alloc(ctx, len(values))
            for v in values:
                parts = parts.add(v.as_aff())
            return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(space, parts))
        out = isl.MultiPwAff.zero(space)
        for i, v in enumerate(values):
            out = out.set_pw_aff(i, v)
        return isl.Map.from_multi_pw_aff(out)


def canonical_term(e: Expr) -> Expr:
    """The term with its subscripts in one form, to be found by."""
    return simplify(e)


def path_terms(path: Sequence[For | If]) -> dict[Expr, str]:
    """The integers read from memory that extents and conditions of a path depend on, with a name for each."""
    found: dict[Expr, str] = {}
    for step in path:
        for t in step_terms(step):
            found.setdefault(canonical_term(t), "")
    return {t: print_expr(t) for t in found}


def _constant(a: IslObject) -> int | None:
    if not a.is_cst() or a.n_piece() != 1:
        return None
    value = a.get_pieces()[0][1].get_constant_val()
    return int(value.to_python()) if value.is_int() else None


def _compare(op: BinaryOp, a: IslObject, b: IslObject) -> IslObject:
    table = {
        BinaryOp.LT: a.lt_set,
        BinaryOp.LE: a.le_set,
        BinaryOp.GT: a.gt_set,
        BinaryOp.GE: a.ge_set,
        BinaryOp.EQ: a.eq_set,
        BinaryOp.NE: a.ne_set,
    }
    return table[op](b)


def domain(
    frame: Frame, kernel: Kernel, path: Sequence[For | If], in_else: Sequence[bool], sizes: Sizes
) -> IslObject:
    """The instances that the loops and conditions of `path` let through. Raises NonAffineError.

    With terms in the frame these are the instances for all values that the kernel's premises allow them: more
    than there are in any one run, each with the values at which it would run.
    """
    out = frame.universe().intersect_params(sizes.known)
    for t, name in frame.terms.items():
        out = _within_premises(out, frame, kernel, t, frame.env[name])
    sides = iter(in_else)
    for i, step in enumerate(path):
        if isinstance(step, For):
            v = frame.env[step.var]
            try:
                extent = frame.affine(step.extent)
            except NonAffineError:
                extent = frame.affine(simplify(step.extent, ranges_at(kernel, path[:i])))
            out = out.intersect(v.ge_set(frame.constant(0))).intersect(v.lt_set(extent))
        else:
            holds = frame.condition(step.cond)
            out = out.intersect(holds.complement() if next(sides) else holds)
    return out


def _within_premises(out: IslObject, frame: Frame, kernel: Kernel, t: Expr, value: IslObject) -> IslObject:
    """`out` where a term has a value that the kernel's premises allow."""
    for c in kernel.contents:
        if isinstance(t, Cast) and isinstance(t.arg, Load) and t.arg.buffer == c.buffer:
            out = out.intersect(value.ge_set(frame.affine(c.low)))
            out = out.intersect(value.lt_set(frame.affine(c.high)))
    return out
