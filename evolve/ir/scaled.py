"""Sums that are kept relative to a maximum that still grows: what they look like.

A *scaled* buffer b holds `sum of w exp(e - m)` for the m of its time. Two kinds of statements touch it
besides its start at zero: a contribution, with or without a weight w, and a rescaling when m has grown,

    b sum= exp(e - safe(m)) * w      b = b * exp(old - safe(m))          b = b * exp(old - m)

where `exp` may be the approximate one and `safe(m)` is 0 in place of -inf. The last form, without `safe`,
ends the sum: b is then relative to the m that the source uses. A contribution may have its exponential from
a *power*, a variable that several contributions share:

    p = exp(e - safe(m))             b sum= p            c sum= p * w

What is asked of them is checked in `legality.online`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evolve.ir.approximate import FAST
from evolve.ir.expr import Binary, BinaryOp, Call, Const, Expr, Load, Select
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Leaf, Reduce, Store
from evolve.ir.types import SUM, DType
from evolve.ir.visit import children, leaves, loads

OLD, NEW = 1, 2
"""Read slots of a rescaling: the scale that the sum has, and that which it gets. Slot 0 is the sum."""


@dataclass(frozen=True)
class Rescale:
    """`ends`: without `safe`."""

    ends: bool


@dataclass(frozen=True)
class Term:
    """What a contribution adds, `exp(e - m)` or a product of that and a weight.

    `plain` is the value without `safe`; `slot` the read slot of m, the first of its two.
    """

    plain: Expr
    scale: Load
    slot: int

    def slot_of(self, plain: int) -> int:
        """The read slot of the statement for one of `plain`, which reads m once."""
        return plain + (plain > self.slot)


def safe(m: Load) -> Expr:
    """m, and 0 for -inf: then `exp(x - safe(m))` is 0 for x = -inf instead of NaN."""
    infinite = Binary(BinaryOp.EQ, m, Const(-math.inf, m.dtype), DType.BOOL)
    return Select(infinite, Const(0.0, m.dtype), m, m.dtype)


def exp_of_difference(a: Expr, b: Expr, power: Expr | None = None) -> Expr:
    """`exp(a - b)`, by the function that `power`, another such expression, calls."""
    fn = power.fn if isinstance(power, Call) else "exp"
    return Call(fn, (Binary(BinaryOp.SUB, a, b, a.dtype),), a.dtype)


def rescaling(leaf: Leaf) -> Rescale | None:
    """What a statement is as a rescaling; None for all others."""
    if not isinstance(leaf, Store) or leaf.origin is not None or not leaf.value.dtype.is_float:
        return None
    own = Load(leaf.buffer, leaf.indices, leaf.value.dtype)
    value = leaf.value
    if not isinstance(value, Binary) or value.op is not BinaryOp.MUL or value.lhs != own:
        return None
    step = difference(value.rhs)
    if step is None or not isinstance(step.lhs, Load):
        return None
    scale = _unsafe(step.rhs)
    found = [] if scale is None else loads(value)
    if len(found) != 3 + (scale is not step.rhs) or any(
        x.indices and loads(i) for x in found for i in x.indices
    ):
        return None
    return Rescale(ends=scale is step.rhs)


def term(value: Expr) -> Term | None:
    """What a value `exp(e - safe(m))` or `w * exp(e - safe(m))` is as a term; None for all others."""
    power = power_in(value)
    found = None if power is None else difference(power)
    scale = None if found is None else _unsafe(found.rhs)
    if power is None or found is None or scale is None or scale is found.rhs:
        return None
    if any(loads(i) for i in scale.indices):
        return None
    first = value.lhs if isinstance(value, Binary) and value.rhs is power else None
    slot = len(loads(found.lhs)) + (0 if first is None else len(loads(first)))
    return Term(with_power(value, exp_of_difference(found.lhs, scale, power)), scale, slot)


def power_in(value: Expr) -> Expr | None:
    """The one `exp(a - b)` that a value is, or that it multiplies."""
    if difference(value) is not None:
        return value
    if not isinstance(value, Binary) or value.op is not BinaryOp.MUL:
        return None
    found = [x for x in (value.lhs, value.rhs) if difference(x) is not None]
    return found[0] if len(found) == 1 else None


def with_power(value: Expr, power: Expr) -> Expr:
    """The value with another exponential in place of that of `power_in`."""
    old = power_in(value)
    if value is old or not isinstance(value, Binary):
        return power
    return replace(value, lhs=power) if value.lhs is old else replace(value, rhs=power)


@dataclass(frozen=True)
class Scaled:
    """The buffers of a kernel whose contents are relative to a maximum of their time.

    sums    those with a rescaling
    powers  variables with an exponential for them, and copies of these
    """

    sums: frozenset[str] = frozenset()
    powers: frozenset[str] = frozenset()

    @staticmethod
    def of(kernel: Kernel) -> Scaled:
        """Those of a kernel; a kernel without rescalings has none."""
        found = [leaf for leaf, _ in leaves(kernel.body)]
        sums = frozenset(leaf.buffer for leaf in found if rescaling(leaf) is not None)
        if not sums:
            return Scaled()
        powers = frozenset(leaf.buffer for leaf in found if _is_power(leaf))
        while more := {x.buffer for x in found if _copied(x) in powers} - powers:
            powers |= more
        return Scaled(sums, powers)

    def term(self, leaf: Leaf) -> Term | None:
        """The exponential that a statement evaluates, for itself or as a power; None for all others."""
        if leaf.origin is None:
            return None
        if isinstance(leaf, Store):
            return term(leaf.value) if leaf.buffer in self.powers and _is_power(leaf) else None
        return term(leaf.value) if leaf.buffer in self.sums and leaf.monoid == SUM else None

    def power_slot(self, leaf: Leaf) -> int | None:
        """The read slot of the power that a contribution adds, or its product; None for all others."""
        if leaf.origin is None or not isinstance(leaf, Reduce) or self.term(leaf) is not None:
            return None
        if leaf.buffer not in self.sums or leaf.monoid != SUM:
            return None
        value = leaf.value
        product = isinstance(value, Binary) and value.op is BinaryOp.MUL
        factors = children(value) if product else (value,)
        found = [n for n, x in enumerate(loads(value)) if x.buffer in self.powers]
        return found[0] if len(found) == 1 and any(self._is_read(x) for x in factors) else None

    def _is_read(self, e: Expr) -> bool:
        return isinstance(e, Load) and e.buffer in self.powers and not any(loads(i) for i in e.indices)


def _is_power(leaf: Leaf) -> bool:
    if not isinstance(leaf, Store) or leaf.origin is None or term(leaf.value) is None:
        return False
    return difference(leaf.value) is not None


def _copied(leaf: Leaf) -> str | None:
    """What a copy without origin copies."""
    copies = isinstance(leaf, Store) and leaf.origin is None and isinstance(leaf.value, Load)
    return leaf.value.buffer if copies and isinstance(leaf.value, Load) else None


def difference(e: Expr) -> Binary | None:
    """`a - b` where the value is `exp(a - b)`."""
    if not isinstance(e, Call) or e.fn not in ("exp", FAST["exp"]):
        return None
    (arg,) = e.args
    return arg if isinstance(arg, Binary) and arg.op is BinaryOp.SUB else None


def _unsafe(e: Expr) -> Load | None:
    """m where `e` is m or `safe(m)`."""
    if isinstance(e, Load):
        return e
    if isinstance(e, Select) and isinstance(e.orelse, Load) and e == safe(e.orelse):
        return e.orelse
    return None
