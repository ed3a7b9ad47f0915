"""A device function that updates memory with consecutive entries, once for those of a segment together.

`f(value, starts, segments, first, target)` updates `target[r]` with `value[i]` for each i, r being the
segment that `first + i` is in, if it is in one. What is combined in a register and not yet in memory belongs
to one segment: that of each entry is shown when it is combined, and the register is empty when the segment
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from evolve.ir.types import DType, Monoid
from evolve.validation.finding import ROOM, check_call, search_context
from evolve.validation.formula import Formula, at_least, below, equal
from evolve.validation.integers import Shape
from evolve.validation.neighbours import neighbours_of
from evolve.validation.ordered import Ordered
from evolve.validation.peers import ATOMICS
from evolve.validation.polynomial import Poly, Ranges, constant, extreme, variable
from evolve.validation.remembered import remembered
from evolve.validation.searching import INTEGER_TYPES, Candidate, Numbers, Path, Searching, assigned
from evolve.validation.text import (
    Address,
    Array,
    Assign,
    Declare,
    Element,
    Evaluate,
    Expr,
    Function,
    Invoke,
    Loop,
    Name,
    Number,
    Operation,
    Pointer,
    Stmt,
)
from evolve.validation.values import combines, is_identity
from evolve.validation.verdict import DifferenceError, UnreadError


@dataclass(frozen=True)
class Gathered:
    """What such a function does, for so many entries. It needs `first` to be in a segment or behind all."""

    monoid: str
    dtype: DType
    starts: DType
    number: int


@dataclass(frozen=True)
class _Held:
    """What the register has: nothing yet, entries of the segment, entries that memory has too, nothing again.

    entry    the one that is at hand
    counted  whether it is in the register, or was
    """

    state: Literal["unset", "entries", "stored", "neutral"]
    entry: Poly
    counted: bool


def gathered_of(f: Function, block: Shape) -> Gathered:
    """What a function does. Raises UnreadError and DifferenceError."""
    return remembered("gathered", f, block, lambda: _check(f, block))


def _check(f: Function, block: Shape) -> Gathered:
    if len(f.params) != 5:
        raise UnreadError("a function of another form")
    value, starts, segments, first, target = f.params
    element = starts.type.element if isinstance(starts.type, Pointer) else None
    right = isinstance(value.type, Array) and len(value.type.extents) == 1 and f.references == {value.key}
    if (
        not right
        or element not in INTEGER_TYPES
        or segments.type is not DType.I32
        or first.type is not DType.I64
    ):
        raise UnreadError("a function of another form")
    assert isinstance(value.type, Array) and isinstance(element, DType)
    dtype, number = value.type.element, value.type.extents[0]
    if not isinstance(target.type, Pointer) or target.type.element is not dtype:
        raise UnreadError("a function of another form")
    order, ctx = search_context(element, ROOM)
    begin = variable("first")
    machine = _Gathering(f, block, order, starts.key)
    numbers = {segments.key: order.segments, first.key: begin}
    held = _Held("unset", constant(0), False)
    # Behind all segments nothing is to be done, before them nothing is asked for.
    path = Path(ctx.given(at_least(begin, order.element(constant(0)))), numbers, apart=True, ghost=held)
    ends = machine.run(f.body, path)
    for p, result in machine.returned:
        if result is not None or p.ghost.state not in ("unset", "stored"):
            raise UnreadError("a function that returns early")
        machine.check_left_out(p)
    for p in ends:
        if p.ghost.state != "stored":
            raise DifferenceError("what is combined last does not reach memory")
    if machine.counter is None or machine.monoid is None:
        raise UnreadError("a function of another form")
    return Gathered(machine.monoid, dtype, element, number)


class _Gathering(Searching):
    """One run, the entries after the first being one of which only the number is not known."""

    def __init__(self, f: Function, block: Shape, order: Ordered, starts: int) -> None:
        super().__init__(f, block, order, starts, ROOM)
        value, _, _, _, target = f.params
        assert isinstance(value.type, Array)
        self.value, self.target, self.begin = value, target, variable("first")
        self.dtype = value.type.element
        self.monoid: str | None = None
        self.total: Name | None = None
        self.row: int | None = None
        self.counter: int | None = None

    # ---- the register

    def statement(self, s: Stmt, path: Path) -> list[Path]:
        match s:
            case Declare(init=Invoke() as call) if call.definition is not None and s.type is DType.I32:
                return [self.searched(s.key, call, path)]
            case Declare(init=Element() as e) if e.base.key == self.value.key and s.type is self.dtype:
                if self.total is not None or path.ghost.state != "unset":
                    raise UnreadError("a second register in a function")
                self.total = Name(s.key, s.name, s.type)
                return [self.count(e, path)]
            case Assign(target=Name() as name) if self.total is not None and name.key == self.total.key:
                return [self.combine(s, path)]
            case Evaluate(expr=Invoke() as call):
                return [self.store(call, path)]
            case Declare() | Assign() if self._row_of(s) and path.ghost.state == "entries":
                raise DifferenceError("the segment changes while entries of it wait")
            case _:
                return super().statement(s, path)

    def _row_of(self, s: Declare | Assign) -> bool:
        key = s.key if isinstance(s, Declare) else s.target.key if isinstance(s.target, Name) else None
        return key is not None and key == self.row

    def searched(self, key: int, call: Invoke, path: Path) -> Path:
        """`int r = find(...)`."""
        if self.row is not None or path.ghost.state != "unset":
            raise UnreadError("a second search in a function")
        found = check_call(call, self, path)
        self.row = key
        self.serial += 1
        r = variable(f"r{self.serial}")
        return path.given(self.order.holds_at(found, r)).having(key, r)

    def count(self, e: Element, path: Path) -> Path:
        """The entry at hand comes into the register."""
        held, (at,) = path.ghost, e.indices
        if self.number(at, path) != held.entry or held.counted or self.row is None:
            raise DifferenceError("an entry is counted twice, or another than that at hand")
        here = self.order.holds_at(self.begin + held.entry, path.numbers[self.row])
        if not self.order.follows(path.ctx, here):
            raise UnreadError("an entry is not shown to be in the segment")
        return replace(path, ghost=replace(held, state="entries", counted=True))

    def combine(self, s: Assign, path: Path) -> Path:
        held, total = path.ghost, self.total
        assert total is not None
        neutral = self.monoid is not None and is_identity(s.value, Monoid(self.monoid), self.dtype)
        if neutral and not s.op:
            if held.state != "stored":
                raise DifferenceError("entries are dropped before they reach memory")
            return replace(path, ghost=replace(held, state="neutral"))
        monoid, entry = _combined(s, total, self.dtype)
        if not isinstance(entry, Element) or entry.base.key != self.value.key:
            raise UnreadError("a register that is set to something else")
        if held.state not in ("entries", "neutral"):
            raise DifferenceError("entries are counted twice")
        self._is(monoid)
        return self.count(entry, path)

    def store(self, call: Invoke, path: Path) -> Path:
        """The register reaches memory."""
        held = path.ghost
        if held.state != "entries" or self.total is None or self.row is None:
            raise DifferenceError("memory is updated with what it has, or with nothing")
        if call.definition is not None:
            effect = neighbours_of(call.definition, self.block)
            to, row, value = call.args
            right = isinstance(to, Name) and to.key == self.target.key and effect.dtype is self.dtype
            self._is(effect.monoid)
        else:
            if call.name not in ATOMICS or len(call.args) != 2:
                raise UnreadError(f"{call.name} in a function")
            at, value = call.args
            cell = at.of if isinstance(at, Address) else None
            if not isinstance(cell, Element) or len(cell.indices) != 1:
                raise UnreadError("an update of another form")
            right, row = cell.base.key == self.target.key, cell.indices[0]
            self._is(ATOMICS[call.name])
        if not right or not isinstance(row, Name) or row.key != self.row or value != self.total:
            raise DifferenceError("memory is updated elsewhere, or with something else")
        return replace(path, ghost=replace(held, state="stored"))

    def _is(self, monoid: str) -> None:
        if self.monoid not in (None, monoid):
            raise DifferenceError(f"{self.monoid} and {monoid} are mixed")
        self.monoid = monoid

    def check_left_out(self, path: Path) -> None:
        """Raises UnreadError where the entry at hand may be in a segment and was not counted."""
        held = path.ghost
        behind = at_least(self.begin + held.entry, self.order.element(self.order.segments))
        if not held.counted and not self.order.follows(path.ctx, behind):
            raise UnreadError("an entry may be left out")

    # ---- the entries

    def counted(self, s: Loop, path: Path) -> list[Path]:
        """`for (int i = 1; i < number; ++i)`: what holds for any i of what holds before the first."""
        assert isinstance(self.value.type, Array)
        i, number = Name(s.var.key, s.var.name, s.var.type), self.value.type.extents[0]
        whole = (
            s.var.init == Number(1, DType.I32)
            and s.cond == Operation("<", (i, Number(number, DType.I32)), DType.BOOL)
            and s.step.op == "+"
            and s.step.target == i
            and s.step.value == Number(1, DType.I32)
            and s.var.key not in assigned(s.body)
        )
        if not whole or self.counter is not None or path.ghost.state != "entries":
            raise UnreadError("a loop over entries of another form")
        self.counter = s.var.key
        self.check_left_out(path)
        keys = [k for k in sorted(assigned(s.body)) if k in path.numbers]
        fresh = dict(path.numbers)
        for k in keys:
            self.serial += 1
            fresh[k] = variable(f"v{self.serial}")
        entry = variable("entry")
        ctx = path.ctx.ranging("entry", 1, max(1, number - 1))
        begin = {**path.numbers, s.var.key: constant(1)}
        kept = self.inductive(list(self.candidates(keys, path)), [replace(path, numbers=begin)])
        head = replace(path, ctx=ctx, numbers={**fresh, s.var.key: entry})
        head = replace(head, ghost=_Held("entries", entry, False))
        while True:
            ends = self.run(s.body, head.given(*(c(head.numbers) for c in kept)))
            still = self.inductive(kept, [self._next(e) for e in ends])
            if len(still) == len(kept):
                break
            kept = still
        for e in ends:
            self.check_left_out(e)
            if e.ghost.state != "entries":
                raise DifferenceError("entries that do not wait in the register")
        # Behind the loop nothing need be known of where it ended.
        return [replace(path, numbers=fresh, ghost=_Held("entries", entry, True))]

    def _next(self, end: Path) -> Path:
        """With the counter one further."""
        assert self.counter is not None
        return replace(end, numbers={**end.numbers, self.counter: end.numbers[self.counter].plus(1)})

    def candidates(self, keys: Sequence[int], path: Path) -> Iterator[Candidate]:
        order, row, counter = self.order, self.row, self.counter
        if row is None or counter is None:
            return
        yield lambda n: at_least(n[row], constant(0))
        yield lambda n: below(n[row], order.segments)
        yield lambda n: at_least(self.begin + n[counter], order.element(n[row]))
        for k in keys:
            if k != row:
                yield partial(self._ends, k, row)
                yield partial(self._next_ends, k, row, path.ctx.ranges)

    def _ends(self, k: int, row: int, n: Numbers) -> Formula:
        """That a variable is where the segment ends, counted from the first entry."""
        return equal(n[k], self.order.element(n[row].plus(1)) - self.begin)

    def _next_ends(self, k: int, row: int, ranges: Ranges, n: Numbers) -> Formula:
        """The same of the segment behind it, or of all."""
        after = extreme("min", n[row].plus(2), self.order.segments, ranges)
        return equal(n[k], self.order.element(after) - self.begin)


def _combined(s: Assign, total: Name, dtype: DType) -> tuple[str, Expr | None]:
    """The operation by which a register takes something in, and what that is."""
    value = s.value
    for name, sign in (("sum", "+"), ("prod", "*")):
        if s.op == sign:
            return name, value
        if not s.op and isinstance(value, Operation) and value.op == sign and value.args[0] == total:
            return name, value.args[1]
    for name in ("min", "max"):
        other = combines(s.op, total, value, Monoid(name), dtype)
        if other is not None:
            return name, other
    return "", None
