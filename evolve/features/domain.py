"""The iteration domain of a statement at given sizes: a box of loop ranges, and how much of it is real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral

from evolve.features.enumerate import UncountableError, depends_on_data, longest, points_of
from evolve.features.lattice import Constraint, count_points
from evolve.ir.affine import Linear, linear
from evolve.ir.data import reads
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Unary, UnaryOp, Var, decide, index
from evolve.ir.stmt import For, If
from evolve.ir.types import DType
from evolve.ir.visit import Site, loads, substitute
from evolve.workload.implied import ROW
from evolve.workload.model import Sizes
from evolve.workload.structure import IndexArrays

_MOST_PARTS = 16


@dataclass(frozen=True)
class Domain:
    """Loop ranges (inclusive, outermost first) around a statement.

    points    iterations; an empty domain has 0
    exact     the domain is this box, whole: no triangular loop, no condition that could not be evaluated
    within    what of the box is real, where it is not whole: linear forms that are at least 0
    counted   `points` is the exact number, because box and `within` are all there is to the domain
    input     it was counted on one input, from which loop bounds are read
    """

    ranges: Mapping[str, tuple[int, int]]
    points: float
    exact: bool
    within: tuple[Constraint, ...] = ()
    counted: bool = True
    input: bool = False

    def trips(self, name: str) -> int:
        low, high = self.ranges[name]
        return max(0, high - low + 1)


def at_sizes(e: Expr, scalars: Sizes) -> Expr:
    """`e` with the size scalars replaced by their values."""
    return substitute(e, {n: index(int(v)) for n, v in scalars.items() if isinstance(v, Integral)})


def domain_of(site: Site, scalars: Sizes, contents: IndexArrays | None = None) -> Domain:
    """The domain of the statement at `site`. Raises ValueError when a loop's extent needs an unknown size.

    A loop whose bounds are read from memory is counted on `contents`, and taken for one of usual length
    without them.
    """
    if depends_on_data(site):
        return _enumerated(site, scalars, contents) or _typical(site, scalars)
    ranges: dict[str, tuple[int, int]] = {}
    points = 1.0
    known = True
    within: list[Constraint] = []
    branches = iter(site.in_else)
    for step in site.path:
        if isinstance(step, For):
            parts = _parts(linear(at_sizes(step.extent, scalars)))
            hulls = [_maximum(form, ranges) for form, _ in parts]
            means = [_mean(form, ranges) for form, _ in parts]
            tops = [h // d for h, (_, d) in zip(hulls, parts, strict=True) if h is not None]
            if not parts or len(tops) < len(parts):
                raise ValueError(f"the extent of loop {step.var} is not known at these sizes")
            points *= max(0.0, min((m or 0.0) / d for m, (_, d) in zip(means, parts, strict=True)))
            ranges[step.var] = (0, min(tops) - 1)
            for form, d in parts:
                if not form.is_constant:
                    # v < form // d
                    within.append(_constraint(form + linear(Var(step.var)).scale(-d), -d))
            continue
        before = _volume(ranges)
        rest = _restrict(step, next(branches), ranges, scalars)
        known = known and rest is not None
        within += rest or ()
        points = points * _volume(ranges) / before if before else 0.0
    counted = known
    if within and points > 0:
        number = count_points(ranges, within)
        if number is None:
            counted = False
        else:
            points = float(number)
    return Domain(ranges, points, known and not within, tuple(within), counted)


def _enumerated(site: Site, scalars: Sizes, contents: IndexArrays | None) -> Domain | None:
    """The domain on this input; None where it cannot be counted."""
    if contents is None:
        return None
    try:
        points = points_of(site, scalars, contents)
        ranges = {x.var: (0, longest(site, x.var, scalars, contents) - 1) for x in site.loops}
    except UncountableError:
        return None
    return Domain(ranges, points.total, exact=False, counted=False, input=True)


def _typical(site: Site, scalars: Sizes) -> Domain:
    """The domain if loops whose bounds are read from memory run `ROW` times."""

    def step(s: For | If) -> For | If:
        return replace(s, extent=index(ROW)) if isinstance(s, For) and reads(s.extent) else s

    found = domain_of(Site(site.stmt, tuple(map(step, site.path)), site.in_else), scalars)
    return replace(found, exact=False, counted=False)


def _parts(extent: Linear) -> list[tuple[Linear, int]]:
    """(form, divisor) whose quotients, rounded down, have the extent as their minimum; none if it is none.

    `min(n, i + 4) - max(0, i - 3)` is the least of n, n - i + 3, i + 4 and 7.
    """
    for atom, c in extent.terms:
        if isinstance(atom, Var):
            continue
        rest = extent + linear(atom).scale(-c)
        if isinstance(atom, Binary) and atom.op is (BinaryOp.MIN if c > 0 else BinaryOp.MAX):
            out = [p for side in (atom.lhs, atom.rhs) for p in _parts(rest + linear(side).scale(c))]
            return out if len(out) <= _MOST_PARTS and all(d == 1 for _, d in out) else []
        match atom:
            case Binary(op=BinaryOp.FLOORDIV, rhs=Const(value=d)) if c == 1 and d > 0:
                inner = _parts(linear(atom.lhs) + rest.scale(int(d)))
                return [(form, int(d) * e) for form, e in inner]
        return []
    return [(extent, 1)]


def _constraint(form: Linear, constant: int = 0) -> Constraint:
    """The form plus the constant, which is at least 0."""
    return Constraint(
        tuple((atom.name, c) for atom, c in form.terms if isinstance(atom, Var)), form.constant + constant
    )


def _volume(ranges: Mapping[str, tuple[int, int]]) -> float:
    out = 1.0
    for low, high in ranges.values():
        out *= max(0, high - low + 1)
    return out


def _maximum(form: Linear, ranges: Mapping[str, tuple[int, int]]) -> int | None:
    total = form.constant
    for atom, c in form.terms:
        if not isinstance(atom, Var) or atom.name not in ranges:
            return None
        low, high = ranges[atom.name]
        total += c * (high if c > 0 else low)
    return total


def _mean(form: Linear, ranges: Mapping[str, tuple[int, int]]) -> float | None:
    """The mean over the box, exact because the form is linear (while the extent stays positive)."""
    total = float(form.constant)
    for atom, c in form.terms:
        if not isinstance(atom, Var) or atom.name not in ranges:
            return None
        low, high = ranges[atom.name]
        total += c * (low + high) / 2
    return total


def _restrict(
    step: If, in_else: bool, ranges: dict[str, tuple[int, int]], scalars: Sizes
) -> list[Constraint] | None:
    """Narrows `ranges` by a condition; what of it says more than that, None when some of it could not be
    used."""
    if loads(step.cond):
        return None
    facts = _facts(at_sizes(step.cond, scalars), in_else)
    if facts is None:
        return None
    unused = [fact for fact in facts if not _narrow(fact, ranges)]  # every fact narrows, so no short cut
    out: list[Constraint] = []
    for fact in unused:
        found = _constraints(fact, ranges)
        if found is None:
            return None
        out += found
    return out


def _constraints(fact: Binary | bool, ranges: Mapping[str, tuple[int, int]]) -> list[Constraint] | None:
    """A comparison of loop variables as linear forms that are at least 0; None for other comparisons."""
    if isinstance(fact, bool):
        return None
    form = linear(fact.lhs) + linear(fact.rhs).scale(-1)
    if not all(isinstance(atom, Var) and atom.name in ranges for atom, _ in form.terms):
        return None
    up, down = form, form.scale(-1)
    match fact.op:
        case BinaryOp.GE:
            return [_constraint(up)]
        case BinaryOp.GT:
            return [_constraint(up, -1)]
        case BinaryOp.LE:
            return [_constraint(down)]
        case BinaryOp.LT:
            return [_constraint(down, -1)]
        case BinaryOp.EQ:
            return [_constraint(up), _constraint(down)]
        case _:
            return None


def _facts(cond: Expr, negated: bool) -> list[Binary | bool] | None:
    """The condition (or its negation) as a conjunction of comparisons; None when it is none."""
    match cond:
        case Const():
            return [bool(cond.value) != negated]
        case Unary(op=UnaryOp.NOT):
            return _facts(cond.arg, not negated)
        case Binary(op=BinaryOp.AND | BinaryOp.OR):
            if (cond.op is BinaryOp.AND) == negated:
                return None
            left, right = _facts(cond.lhs, negated), _facts(cond.rhs, negated)
            return None if left is None or right is None else left + right
        case Binary() if cond.op.is_comparison and cond.lhs.dtype is DType.INDEX:
            op = cond.op.negated if negated else cond.op
            return [Binary(op, cond.lhs, cond.rhs, DType.BOOL)]
        case _:
            return None


def _narrow(fact: Binary | bool, ranges: dict[str, tuple[int, int]]) -> bool:
    if isinstance(fact, bool):
        if not fact:
            _make_empty(ranges)
        return True
    form = linear(fact.lhs) + linear(fact.rhs).scale(-1)
    if form.is_constant:
        if not decide(fact.op, form.constant, 0):
            _make_empty(ranges)
        return True
    if len(form.terms) != 1 or not isinstance(form.terms[0][0], Var):
        return False
    atom, c = form.terms[0]
    assert isinstance(atom, Var)
    if atom.name not in ranges:
        return False
    low, high = ranges[atom.name]
    # c * v + k  op  0
    k, op = form.constant, fact.op
    if c < 0:
        c, k = -c, -k
        op = {
            BinaryOp.LT: BinaryOp.GT,
            BinaryOp.LE: BinaryOp.GE,
            BinaryOp.GT: BinaryOp.LT,
            BinaryOp.GE: BinaryOp.LE,
        }.get(op, op)
    if op is BinaryOp.LT:
        high = min(high, -(k // c) - 1)
    elif op is BinaryOp.LE:
        high = min(high, (-k) // c)
    elif op is BinaryOp.GT:
        low = max(low, (-k) // c + 1)
    elif op is BinaryOp.GE:
        low = max(low, -(k // c))
    elif op is BinaryOp.EQ and k % c == 0:
        low, high = max(low, -k // c), min(high, -k // c)
    elif op is BinaryOp.NE and c == 1 and -k in (low, high):
        low, high = (low + 1, high) if -k == low else (low, high - 1)
    else:
        return op is BinaryOp.NE and not low <= -k // c <= high
    ranges[atom.name] = (low, high)
    return True


def _make_empty(ranges: dict[str, tuple[int, int]]) -> None:
    for name in ranges:
        ranges[name] = (0, -1)
