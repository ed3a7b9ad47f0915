"""How much arithmetic a kernel's meaning needs: distinct values, each computed where it first varies.

Every floating-point operation gets a value number: its operator and the numbers of its operands, with loop
variables named by depth and range, so that equal work in sibling loops counts once (softmax needs each
exponential once, though the source may compute it twice). It counts once per combination of the loops that
its value depends on; work that does not depend on a loop is taken to be hoisted out of it. A product that
feeds an addition counts as one fma.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evolve.features.domain import Domain, at_sizes, domain_of
from evolve.ir.affine import linear
from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Find, Load, Select, Unary, Var
from evolve.ir.kernel import Kernel
from evolve.ir.math import FUNCTIONS
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Leaf, Reduce, Store
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import Site, leaves, local_buffers, substitute
from evolve.workload.model import Sizes
from evolve.workload.structure import IndexArrays

_CLASSES = {
    BinaryOp.ADD: "add",
    BinaryOp.SUB: "add",
    BinaryOp.MUL: "mul",
    BinaryOp.DIV: "div",
    BinaryOp.MIN: "minmax",
    BinaryOp.MAX: "minmax",
    BinaryOp.REM: "div",
}
_REDUCTIONS = {"sum": "add", "prod": "mul", "min": "minmax", "max": "minmax"}


@dataclass(frozen=True)
class _Value:
    """A value number, and the loops its value depends on. `product`: it is a multiplication."""

    number: str
    loops: frozenset[str]
    product: bool = False
    constant: bool = False


@dataclass
class _Numbering:
    kernel: Kernel
    scalars: Sizes
    found: list[tuple[Leaf, Site]]
    counts: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Value number to (class, executions)."""
    taken: set[str] = field(default_factory=set)
    """Products that became part of an fma."""
    known: dict[str, _Value] = field(default_factory=dict)
    """Rank-0 register buffers that are assigned once: the value they hold."""


def operations(kernel: Kernel, scalars: Sizes, contents: IndexArrays | None = None) -> Mapping[str, float]:
    """Distinct operations by `<type>.<class>` at these sizes (see `model.Features.operations`)."""
    state = _Numbering(kernel, scalars, list(leaves(kernel.body)))
    once = _assigned_once(state)
    for position, (leaf, site) in enumerate(state.found):
        domain = domain_of(site, scalars, contents)
        if domain.points <= 0:
            continue
        scope = _Scope(state, site, domain, position)
        value = scope.number(leaf.value)
        for i in leaf.indices:
            scope.number(i)
        if isinstance(leaf, Reduce):
            scope.reduce(leaf, value)
        elif leaf.buffer in once:
            state.known[leaf.buffer] = value
    out: dict[str, float] = {}
    for name, times in state.counts.values():
        out[name] = out.get(name, 0.0) + times
    return dict(sorted(out.items()))


def _assigned_once(state: _Numbering) -> frozenset[str]:
    """Register scalars with one unconditional store and no reduction: names for a value."""
    local = local_buffers(state.kernel.body)
    writers: dict[str, list[Leaf]] = {}
    for leaf, _ in state.found:
        writers.setdefault(leaf.buffer, []).append(leaf)
    return frozenset(
        name
        for name, by in writers.items()
        if len(by) == 1
        and isinstance(by[0], Store)
        and name in local
        and local[name].space is Space.REGISTER
        and not local[name].extents
    )


class _Scope:
    """Numbers the expressions of one statement."""

    def __init__(self, state: _Numbering, site: Site, domain: Domain, position: int) -> None:
        self._state = state
        self._domain = domain
        self._position = position
        self._loops = {loop.var: depth for depth, loop in enumerate(site.loops)}
        self._names = {
            loop.var: Var(f"L{depth}[{domain.ranges[loop.var][0]}..{domain.ranges[loop.var][1]}]")
            for depth, loop in enumerate(site.loops)
        }
        full = 1.0
        for name in self._loops:
            full *= max(1, domain.trips(name))
        self._density = domain.points / full

    def number(self, e: Expr) -> _Value:
        """The value number of `e`; its new operations are counted."""
        if e.dtype is DType.INDEX and not isinstance(e, Load):
            return self._index(e)
        match e:
            case Const():
                return _Value(f"{e.value!r}:{e.dtype.value}", frozenset(), constant=True)
            case Var():
                return _Value(e.name, frozenset())
            case Load():
                return self._load(e)
            case Binary():
                return self._binary(e)
            case Unary():
                arg = self.number(e.arg)
                return _Value(f"({e.op.value} {arg.number})", arg.loops, arg.product, arg.constant)
            case Call():
                return self._call(e)
            case Select():
                parts = [self.number(x) for x in (e.cond, e.then, e.orelse)]
                return self._count("select", f"{e.dtype.value}.compare", parts)
            case Cast():
                arg = self.number(e.arg)
                if e.dtype is DType.INDEX or e.arg.dtype is e.dtype:
                    return arg
                kind = "convert" if e.dtype.is_float or e.arg.dtype.is_float else "int"
                return self._count(f"to {e.dtype.value}", f"{e.dtype.value}.{kind}", [arg])
            case Find():
                return self._index(e)

    def reduce(self, leaf: Reduce, value: _Value) -> None:
        """One combination per contribution; a product summed up is an fma."""
        dtype = leaf.value.dtype.value
        cell = [self._index(i) for i in leaf.indices]
        loops = value.loops.union(*(c.loops for c in cell))
        if not loops:
            # The same value again and again (a count): it still takes the loops that it runs over.
            loops = frozenset(self._loops)
        kind = _REDUCTIONS.get(leaf.monoid.name, "int")
        if not leaf.value.dtype.is_float:
            kind = "int"
        elif leaf.monoid.name == "sum" and self._take_product(value):
            kind = "fma"
        where = ",".join(c.number for c in cell)
        tag = f"{leaf.buffer}[{where}]" if leaf.buffer in self._state.kernel.params else "accumulator"
        number = f"{tag} {leaf.monoid.name}= {value.number}"
        self._state.counts.setdefault(number, (f"{dtype}.{kind}", self._times(loops)))

    def _times(self, loops: frozenset[str]) -> float:
        out = self._density
        for name in loops:
            out *= max(1, self._domain.trips(name))
        return out

    def _count(self, op: str, name: str, parts: list[_Value]) -> _Value:
        loops = frozenset[str]().union(*(p.loops for p in parts))
        number = f"{op}({', '.join(p.number for p in parts)})"
        if all(p.constant for p in parts):
            return _Value(number, loops, constant=True)
        if number not in self._state.taken:
            self._state.counts.setdefault(number, (name, self._times(loops)))
        return _Value(number, loops, product=name.endswith(".mul"))

    def _index(self, e: Expr) -> _Value:
        form = linear(at_sizes(e, self._state.scalars))
        text = [f"{c}*{print_expr(substitute(a, self._names))}" for a, c in form.terms]
        used = frozenset(a.name for a, _ in form.terms if isinstance(a, Var) and a.name in self._loops)
        if any(not isinstance(a, Var) for a, _ in form.terms):
            used = frozenset(self._loops)
        return _Value("+".join([*sorted(text), str(form.constant)]), used)

    def _load(self, e: Load) -> _Value:
        known = self._state.known.get(e.buffer)
        if known is not None and known.loops <= set(self._loops):
            return known
        cell = [self._index(i) for i in e.indices]
        loops = frozenset[str]().union(*(c.loops for c in cell))
        before = 0
        for position, (leaf, site) in enumerate(self._state.found):
            if leaf.buffer != e.buffer:
                continue
            before += position < self._position
            loops |= self._loops_behind(leaf, site)
        text = ",".join(c.number for c in cell)
        contents = f"{e.buffer}#{before}" if before else e.buffer
        return _Value(f"{contents}[{text}]", loops)

    def _loops_behind(self, leaf: Leaf, site: Site) -> frozenset[str]:
        """Loops around both a writer and this reader on which what was written may depend."""
        shared = {loop.var for loop in site.loops if loop.var in self._loops}
        if all(k.kind is LoopKind.PARALLEL for k in site.loops if k.var in shared) and not leaf.indices:
            # A thread's own scalar: it varies with a parallel loop only if a contribution does.
            names: set[str] = set()
            for e in (leaf.value, *leaf.indices):
                names |= _mentioned(e, self._state)
            return frozenset(shared & names)
        return frozenset(shared)

    def _binary(self, e: Binary) -> _Value:
        left, right = self.number(e.lhs), self.number(e.rhs)
        if e.op.is_comparison:
            return self._count(e.op.value, f"{_kind_of(e.lhs.dtype)}.compare", [left, right])
        if not e.dtype.is_float:
            return self._count(e.op.value, f"{_kind_of(e.dtype)}.int", [left, right])
        kind = _CLASSES.get(e.op, "int")
        if kind == "add":
            here = left.loops | right.loops
            for side in (left, right):
                if side.loops == here and self._take_product(side):
                    kind = "fma"
                    break
        if kind == "div" and right.loops < left.loops:
            kind = "div_invariant"
        parts = [left, right]
        if e.op in (BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX):
            parts.sort(key=lambda v: v.number)
        return self._count(e.op.value, f"{e.dtype.value}.{kind}", parts)

    def _take_product(self, value: _Value) -> bool:
        """Takes a multiplication into the addition that uses it: it counts no more on its own."""
        if not value.product:
            return False
        number = value.number
        while number.startswith("(- "):
            number = number[3:-1]
        if self._state.counts.pop(number, None) is None:
            return False
        self._state.taken.add(number)
        return True

    def _call(self, e: Call) -> _Value:
        parts = [self.number(a) for a in e.args]
        fn = FUNCTIONS[e.fn]
        if e.fn == "fabs":
            return _Value(f"{e.fn}({parts[0].number})", parts[0].loops, constant=parts[0].constant)
        if e.fn == "fma":
            return self._count(e.fn, f"{e.dtype.value}.fma", parts)
        if e.fn == "copysign":
            return self._count(e.fn, f"{e.dtype.value}.int", parts)
        steps = ("floor", "ceil", "trunc", "round", "rint")
        kind = "convert" if e.fn in steps else f"special.{fn.name}"
        return self._count(e.fn, f"{e.dtype.value}.{kind}", parts)


def _kind_of(dtype: DType) -> str:
    return "i32" if dtype in (DType.BOOL, DType.U8, DType.INDEX) else dtype.value


def _mentioned(e: Expr, state: _Numbering, seen: frozenset[str] = frozenset()) -> set[str]:
    """Loop variables on which an expression depends, through register scalars too."""
    match e:
        case Var():
            return {e.name}
        case Load():
            names: set[str] = set()
            for i in e.indices:
                names |= _mentioned(i, state, seen)
            if e.buffer not in seen:
                for leaf, _ in state.found:
                    if leaf.buffer == e.buffer and e.buffer not in state.kernel.params:
                        names |= _mentioned(leaf.value, state, seen | {e.buffer})
            return names
        case Const():
            return set()
        case Binary():
            return _mentioned(e.lhs, state, seen) | _mentioned(e.rhs, state, seen)
        case Unary() | Cast():
            return _mentioned(e.arg, state, seen)
        case Call():
            return set[str]().union(*(_mentioned(a, state, seen) for a in e.args))
        case Select():
            return set[str]().union(*(_mentioned(a, state, seen) for a in (e.cond, e.then, e.orelse)))
        case Find():
            return _mentioned(e.value, state, seen)
