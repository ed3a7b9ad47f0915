"""A statement's expression beside its origin's, node by node: which loads of the two stand for each other.

Index values are compared as functions on the instances; everything else must be the same tree, but for
approximate functions (`ir.approximate`) in place of the source's. Loads are paired slot by slot. Where the
source loads what it has put into a buffer of its own, the target may compute that again (`producers`): then
the expression is the one that was stored, at the instance that stored it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from evolve.ir.approximate import stands_for
from evolve.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from evolve.ir.narrow import widens
from evolve.ir.poly import Frame, IslObject, NonAffineError
from evolve.ir.stmt import Leaf, Reduce
from evolve.ir.types import DType, Monoid
from evolve.ir.visit import children, loads
from evolve.legality.instances import Statement
from evolve.legality.producers import Performed, holds, producers
from evolve.legality.proof import Proof


class MismatchError(Exception):
    """Where the trees part: subtrees of source and target, and the instances that differ if known."""

    def __init__(self, source: Expr, target: Expr, where: IslObject | None = None) -> None:
        super().__init__()
        self.source = source
        self.target = target
        self.where = where


@dataclass(frozen=True)
class Pair:
    """A load of the target and the load of the source that it stands for: read slots of both.

    `performed` is the source statement that loads, and at which of its instances.
    """

    performed: Performed
    source: int
    target: int


@dataclass
class Slots:
    """Pairs of loads, counters of the loads passed on each side, and what the target computes approximately
    that the source does not."""

    pairs: list[Pair] = field(default_factory=list)
    source: int = 0
    target: int = 0
    approximate: list[str] = field(default_factory=list)


def pair_loads(p: Proof, st: Statement, src: Statement) -> list[Pair]:
    """The loads of a statement and what they stand for, those of what it computes again among them.

    Raises MismatchError.
    """
    return compared(p, st, src).pairs


def compared(p: Proof, st: Statement, src: Statement) -> Slots:
    """What comparing a statement with its origin shows. Raises MismatchError."""
    a, b = src.leaf, st.leaf
    if monoid_of(a) != monoid_of(b):
        raise MismatchError(a.value, b.value)
    if p.source.model.buffers[a.buffer].dtype is not p.target.buffers[b.buffer].dtype:
        raise MismatchError(a.value, b.value)
    slots = Slots()
    added = p.scaled.term(b)
    comparison = _Comparison(p, st, Performed.by_origin(p, st, src), slots)
    comparison.compare(a.value, b.value if added is None else added.plain, st.instances)
    if added is not None:
        slots.pairs = [replace(x, target=added.slot_of(x.target)) for x in slots.pairs]
    return slots


@dataclass(frozen=True)
class _Comparison:
    """`performed` says what the source's expression is part of, and where its values are asked for. It is not
    put into the tree that is walked: what it puts in may read memory, and those loads are no slots of the
    source.
    """

    p: Proof
    st: Statement
    performed: Performed
    slots: Slots

    def compare(self, s: Expr, t: Expr, where: IslObject) -> None:
        """Raises MismatchError unless `s` of the source and `t` of the target are the same on `where`."""
        if s.dtype is not t.dtype:
            raise MismatchError(s, t)
        if widens(t) and isinstance(s, Load):
            t = t.arg  # rounded by a copy: whether it may be is for `equality` to say
        if isinstance(s, Load) and self._is_computed_again(s, t):
            return self._stored(s, t)
        if s.dtype is DType.INDEX and self._index(s, t, where):
            return None
        if s.dtype is DType.BOOL and self._condition(s, t, where):
            return None
        if isinstance(s, Select) != isinstance(t, Select):
            return self._decided(s, t, where)
        if isinstance(s, Load) and isinstance(t, Load):
            return self._load(s, t, where)
        approximate = stands_for(s, t)
        if approximate is not None:
            self.slots.approximate.append(approximate)
        elif not _same_node(s, t):
            raise MismatchError(s, t)
        for x, y in zip(children(s), children(t), strict=True):
            self.compare(x, y, where)
        return None

    def _is_computed_again(self, s: Load, t: Expr) -> bool:
        """Whether the target has no load here of what holds the values that the source keeps in a buffer."""
        if s.buffer not in self.p.source.model.declared:
            return False
        return not isinstance(t, Load) or not holds(self.p, t.buffer, s.buffer)

    def _stored(self, s: Load, t: Expr) -> None:
        """The target computes what the source has stored and loads here."""
        for i in s.indices:
            self._skip(True, i)
        found = producers(self.performed, self.slots.source)
        if found is None:
            raise MismatchError(s, t)
        self.slots.source += 1
        first = self.slots.target
        for performed in found:
            inner = Slots(self.slots.pairs, 0, first, self.slots.approximate)
            again = _Comparison(self.p, self.st, performed, inner)
            again.compare(performed.st.leaf.value, t, performed.reach.domain())
        self._skip(False, t)

    def _index(self, s: Expr, t: Expr, where: IslObject) -> bool:
        """Whether both are functions of the instance, which then are equal. Others, such as a remainder by a
        size, have to be the same operation on the same operands. Raises MismatchError.
        """
        try:
            differ = where.subtract(self.performed.affine(s).eq_set(self.st.frame.affine(t)))
        except NonAffineError:
            return False
        if not differ.is_empty():
            raise MismatchError(s, t, differ)
        self._skip(True, s)
        self._skip(False, t)
        return True

    def _condition(self, s: Expr, t: Expr, where: IslObject) -> bool:
        try:
            a, b = self.performed.condition(s).intersect(where), self.st.frame.condition(t).intersect(where)
        except NonAffineError:
            return False
        if not a.is_equal(b):
            return False
        self._skip(True, s)
        self._skip(False, t)
        return True

    def _decided(self, s: Expr, t: Expr, where: IslObject) -> None:
        """One side has dropped a Select whose condition is settled on these instances."""
        select = s if isinstance(s, Select) else t
        assert isinstance(select, Select)
        of_source = select is s
        try:
            side = self.performed if of_source else self.st.frame
            holds = side.condition(select.cond)
        except NonAffineError:
            raise MismatchError(s, t) from None
        if where.is_subset(holds):
            kept, dropped, first = select.then, select.orelse, True
        elif where.intersect(holds).is_empty():
            kept, dropped, first = select.orelse, select.then, False
        else:
            raise MismatchError(s, t)
        self._skip(of_source, select.cond)
        if not first:
            self._skip(of_source, dropped)
        if of_source:
            self.compare(kept, t, where)
        else:
            self.compare(s, kept, where)
        if first:
            self._skip(of_source, dropped)

    def _skip(self, of_source: bool, dropped: Expr) -> None:
        n = len(loads(dropped))
        if of_source:
            self.slots.source += n
        else:
            self.slots.target += n

    def _load(self, s: Load, t: Load, where: IslObject) -> None:
        if _opaque(self.performed, s.indices) or _opaque(self.st.frame, t.indices):
            if s.buffer != t.buffer or t.buffer not in self.p.target.inputs:
                raise MismatchError(s, t)
            for x, y in zip(s.indices, t.indices, strict=True):
                self.compare(x, y, where)
        else:
            for i in s.indices:
                self._skip(True, i)
            for i in t.indices:
                self._skip(False, i)
            self.slots.pairs.append(Pair(self.performed, self.slots.source, self.slots.target))
        self.slots.source += 1
        self.slots.target += 1


def monoid_of(leaf: Leaf) -> Monoid | None:
    """With what it updates its cell; None for a store."""
    return leaf.monoid if isinstance(leaf, Reduce) else None


def _opaque(side: Performed | Frame, indices: Iterable[Expr]) -> bool:
    try:
        for i in indices:
            side.affine(i)
    except NonAffineError:
        return True
    return False


def _same_node(s: Expr, t: Expr) -> bool:
    match s, t:
        case (Const(), Const()) | (Var(), Var()):
            return s == t
        case (Binary(op=a), Binary(op=b)):
            return a is b
        case (Unary(op=c), Unary(op=d)):
            return c is d
        case (Call(), Call()):
            return s.fn == t.fn
        case (Cast(), Cast()) | (Select(), Select()):
            return True
        case _:
            return False
