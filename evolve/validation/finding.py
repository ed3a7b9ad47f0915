"""Device functions that find the segment which a number is in, alone or with all lanes of the warp.

`f(starts, segments, value)` is the r with `starts[r] <= value < starts[r + 1]`, for a value that is in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from evolve.ir.types import DType
from evolve.validation.context import Context
from evolve.validation.formula import (
    Compare,
    Every,
    Formula,
    Some,
    at_least,
    atoms,
    below,
    negation,
)
from evolve.validation.integers import WARP, Shape, is_full, is_lane
from evolve.validation.ordered import ELEMENT, Ordered
from evolve.validation.polynomial import Poly, constant, substituted, variable
from evolve.validation.remembered import remembered
from evolve.validation.searching import INTEGER_TYPES, Candidate, Numbers, Path, Searching, of, sides
from evolve.validation.text import (
    Branch,
    Convert,
    Declare,
    Expr,
    Function,
    Invoke,
    Name,
    Operation,
    Pointer,
    Stmt,
    type_of,
)
from evolve.validation.verdict import DifferenceError, UnreadError

ROOM = WARP + 1
"""What a search by all lanes may add to the number of segments."""
LANE = "lane"
_OPERATIONS = 200_000


def search_context(element: DType, room: int) -> tuple[Ordered, Context]:
    """An array of elements of a type, and what holds of it: `room` is as of `room_to_find`."""
    most = 2**31 if element is DType.I32 else 2**63
    ranges = {"segments": (1, 2**31 - 1 - room), LANE: (0, WARP - 1)}
    reads = {ELEMENT: (constant(0), constant(most))}
    return Ordered(variable("segments")), Context(ranges, reads=reads, operations=_OPERATIONS)


def room_to_find(f: Function, block: Shape) -> int:
    """How much less than 2**31 - 1 the number of segments must be for a function to find that of a value.

    Raises UnreadError and DifferenceError where it does not.
    """
    return remembered("find", f, block, lambda: _room(f, block))


def _room(f: Function, block: Shape) -> int:
    try:
        _check(f, block, 0)
        return 0
    except UnreadError:
        _check(f, block, ROOM)
        return ROOM


def _check(f: Function, block: Shape, room: int) -> None:
    if len(f.params) != 3 or f.references:
        raise UnreadError("a function of another form")
    starts, segments, value = f.params
    element = starts.type.element if isinstance(starts.type, Pointer) else None
    if element not in INTEGER_TYPES or segments.type is not DType.I32 or value.type is not element:
        raise UnreadError("a function of another form")
    assert isinstance(element, DType)
    order, ctx = search_context(element, room)
    sought = order.sought(variable(LANE))
    machine = SegmentSearch(f, block, order, starts.key, room)
    numbers = {segments.key: order.segments, value.key: sought}
    ends = machine.run(f.body, Path(ctx.given(order.covers(sought)), numbers))
    if ends or not machine.returned:
        raise UnreadError("a function without a result")
    for path, result in machine.returned:
        for side, e in sides(result, path, machine):
            machine.check_found(e, sought, side)


def check_call(e: Invoke, machine: Searching, path: Path) -> Poly:
    """What is searched for in a call, which must be in a segment. Raises UnreadError."""
    if e.definition is None or len(e.args) != 3:
        raise UnreadError(f"{e.name} in a function")
    if room_to_find(e.definition, machine.block) > machine.room:
        raise UnreadError(f"{e.name} needs fewer segments")
    starts, segments, value = e.args
    if not isinstance(starts, Name) or starts.key != machine.starts:
        raise DifferenceError(f"{e.name} searches another array")
    if machine.number(segments, path) != machine.order.segments:
        raise DifferenceError(f"{e.name} searches another number of segments")
    found = machine.number(value, path)
    if not machine.order.follows(path.ctx, machine.order.covers(found)):
        raise UnreadError(f"{e.name} searches for what may be in no segment")
    return found


class SegmentSearch(Searching):
    """One search for a segment, executed symbolically: by one lane or by those of a whole warp."""

    def check_found(self, e: Expr, sought: Poly, path: Path) -> None:
        """Raises DifferenceError or UnreadError unless a result is the segment of what is sought."""
        if isinstance(e, Invoke):
            if check_call(e, self, path) != sought:
                raise DifferenceError("another value is searched for")
            return
        if not self.order.follows(path.ctx, self.order.holds_at(sought, self.number(e, path))):
            raise UnreadError("the result is not shown to be the segment of the value")

    def candidates(self, keys: Sequence[int], path: Path) -> Iterator[Candidate]:
        order = self.order
        sought = [order.sought(variable(LANE)), order.sought(constant(0))]
        for k in keys:
            yield of(k, lambda v: at_least(v, constant(0)))
            yield of(k, lambda v: at_least(order.segments, v))
            for x in sought:
                yield of(k, partial(_not_before, order, x))
                yield of(k, partial(_before, order, x))
            for other in keys:
                if other != k:
                    yield partial(_less, k, other)

    # ---- lanes

    def statement(self, s: Stmt, path: Path) -> list[Path]:
        if isinstance(s, Declare) and s.init is not None and s.const and s.type in INTEGER_TYPES:
            plain = s.init.arg if isinstance(s.init, Convert) else s.init
            if is_lane(s.init, self.block):
                return [path.having(s.key, variable(LANE))]
            if isinstance(plain, Invoke) and plain.name == "__popc" and s.type is DType.I32:
                return self._voted(s.key, plain, path)
        return super().statement(s, path)

    def branch(self, s: Branch, path: Path) -> list[Path]:
        """`if (__activemask() != all)`: either side knows who is here."""
        match s.cond:
            case Operation(op="!=", args=(Invoke(name="__activemask", args=(), definition=None), mask)):
                if path.apart or not is_full(mask):
                    raise UnreadError("active lanes in a function")
                some = self.run(s.then, replace(path, apart=True))
                all_ = self.run(s.orelse, replace(path, whole=True))
                if some:
                    raise UnreadError("a warp that parts and goes on")
                return all_
            case _:
                return super().branch(s, path)

    def differs(self, e: Expr, f: Formula, path: Path) -> bool:
        return self.varies(e, path) or any(a.name == LANE for a in atoms(f))

    def is_shared(self, p: Poly) -> bool:
        return all(a.name != LANE for a in p.atoms())

    def _meet(self, mask: Expr, path: Path) -> None:
        if not path.whole or path.apart or not is_full(mask):
            raise DifferenceError("lanes meet where not all of the warp are")

    def _voted(self, key: int, e: Invoke, path: Path) -> list[Path]:
        """The number of lanes for which a condition holds that holds for each before them."""
        (vote,) = e.args
        if not isinstance(vote, Invoke) or vote.name != "__ballot_sync" or vote.definition or e.definition:
            raise UnreadError("a number of lanes in a function")
        mask, cond = vote.args
        self._meet(mask, path)
        if self.varies(cond, path):
            raise UnreadError("a vote on what lanes do not share")
        f = self.formula(_as_condition(cond), path)
        self.serial += 1
        name = f"l{self.serial}"
        later = _at(f, variable(name))
        ctx = path.ctx.ranging(name, 1, WARP - 1).given(later)
        if not self.order.follows(ctx, _at(f, variable(name).plus(-1))):
            raise UnreadError("a vote that the first lanes need not win")
        name = f"n{self.serial}"
        some = replace(path, ctx=path.ctx.ranging(name, 1, WARP - 1))
        count = variable(name)
        return [
            path.given(negation(_at(f, constant(0)))).having(key, constant(0)),
            some.given(_at(f, count.plus(-1)), negation(_at(f, count))).having(key, count),
            path.given(_at(f, constant(WARP - 1))).having(key, constant(WARP)),
        ]

    def call(self, e: Invoke, path: Path) -> Poly:
        if e.name != "__shfl_sync" or e.definition is not None or len(e.args) != 3:
            raise UnreadError(f"{e.name} in a function")
        mask, value, lane = e.args
        self._meet(mask, path)
        if self.varies(value, path):
            raise UnreadError("what lanes have left each other for goes from one to another")
        source = self.number(lane, path)
        within = Every((at_least(source, constant(0)), below(source, constant(WARP))))
        if not self.order.follows(path.ctx, within):
            raise DifferenceError("a lane that is not there")
        return substituted(self.number(value, path), LANE, source)


def _not_before(order: Ordered, x: Poly, row: Poly) -> Formula:
    return at_least(x, order.element(row))


def _before(order: Ordered, x: Poly, row: Poly) -> Formula:
    return below(x, order.element(row))


def _less(first: int, second: int, numbers: Numbers) -> Formula:
    return below(numbers[first], numbers[second])


def _as_condition(e: Expr) -> Expr:
    """What a vote makes an int of."""
    return e.arg if isinstance(e, Convert) and type_of(e.arg) is DType.BOOL else e


def _at(f: Formula, lane: Poly) -> Formula:
    """The condition of another lane."""
    match f:
        case Compare():
            return Compare(substituted(f.poly, LANE, lane), f.op)
        case Every():
            return Every(tuple(_at(x, lane) for x in f.of))
        case Some():
            return Some(tuple(_at(x, lane) for x in f.of))
        case _:
            return f
