"""Updates that neighbouring lanes of a whole warp make together where they go to one cell.

Lanes of one cell follow one another if the cells are in order, which the function must ask. What becomes of
them then depends on nothing but which is the first and how many there are: for each such run of lanes the
function is followed with what is known of it, that its cells are one and those of all others are not. What
other lanes have among themselves is unknown, and so is all that is computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evolve.ir.types import DType
from evolve.validation.integers import INTEGERS, MOST_TRIPS, WARP, Shape, is_full, is_lane, of_threads
from evolve.validation.lockstep import is_extreme
from evolve.validation.parts import subexpressions
from evolve.validation.peers import ATOMICS
from evolve.validation.remembered import remembered
from evolve.validation.text import (
    Address,
    Assign,
    Branch,
    Builtin,
    Conditional,
    Convert,
    Declare,
    Element,
    Evaluate,
    Expr,
    Function,
    Group,
    Invoke,
    Loop,
    Name,
    Number,
    Operation,
    Pointer,
    Return,
    Stmt,
)
from evolve.validation.verdict import DifferenceError, UnreadError

_EXTREMES = {"fminf": "min", "fmin": "min", "fmaxf": "max", "fmax": "max"}
_LANES = np.arange(WARP)
_OWN = np.left_shift(np.uint64(1), _LANES.astype(np.uint64))
NO, YES, UNKNOWN = 0, 1, 2


@dataclass(frozen=True)
class _Cells:
    """The cell of these lanes."""

    of: Any


@dataclass(frozen=True)
class _InOrder:
    """Whether the cell of one lane does not come after that of another."""

    first: Any
    second: Any


@dataclass(frozen=True)
class _Truth:
    """NO, YES or UNKNOWN by scenario and lane."""

    of: Any


@dataclass(frozen=True)
class _Mix:
    """Lanes, a bit each, whose values were combined; `bad` where that is not known or one counts twice."""

    lanes: Any
    bad: Any


Value: TypeAlias = Any


@dataclass(frozen=True)
class Neighbours:
    """`f(target, r, value)` updates `target[r]` with the value of each lane that calls it."""

    monoid: str
    dtype: DType


def neighbours_of(f: Function, block: Shape) -> Neighbours:
    """What a function does. Raises UnreadError and DifferenceError."""
    return remembered("neighbours", f, block, lambda: _effect(f, block))


def _effect(f: Function, block: Shape) -> Neighbours:
    if len(f.params) != 3 or f.references:
        raise UnreadError("a function of another form")
    target, r, value = f.params
    element = target.type.element if isinstance(target.type, Pointer) else None
    if not isinstance(element, DType) or value.type is not element or r.type is not DType.I32:
        raise UnreadError("a function of another form")
    runs = [(first, n) for n in range(1, WARP + 1) for first in range(WARP - n + 1)]
    inside = np.array([(first <= _LANES) & (first + n > _LANES) for first, n in runs])
    monoids = {_Run(f, block, None).effect(), _Run(f, block, inside).effect()}
    if len(monoids) != 1:
        raise UnreadError("updates of several kinds")
    return Neighbours(monoids.pop(), element)


class _Run:
    """`inside`: for each scenario the lanes of one cell, whose cells are in order; None: in any order."""

    def __init__(self, f: Function, block: Shape, inside: Any) -> None:
        self.f, self.block, self.inside = f, block, inside
        self.scenarios = 1 if inside is None else len(inside)
        self.op = ""
        self.asked = False
        self.updates: list[tuple[str, Any, _Mix]] = []
        target, r, value = f.params
        self.target = target.key
        fine = np.zeros((self.scenarios, WARP), dtype=bool)
        self.names: dict[int, Value] = {
            r.key: _Cells(_LANES),
            value.key: _Mix(np.broadcast_to(_OWN, (self.scenarios, WARP)), fine),
        }

    def effect(self) -> str:
        """The monoid of the updates, of which each lane's value is in one."""
        first, *rest = self.f.body
        self.alone(first)
        for s in rest:
            self.statement(s, None)
        if len(self.updates) != 2:
            raise UnreadError("updates in several places")
        (monoid, _, _), (other, when, made) = self.updates
        if monoid != other or self.op not in ("", monoid):
            raise DifferenceError(f"{monoid}, {other} and {self.op} are mixed")
        if self.inside is None:
            right = (when == YES) & (made.lanes == _OWN) & ~made.bad
            if not right.all():
                raise DifferenceError("a lane's value is lost or counted twice")
            return monoid
        if not self.asked:
            raise UnreadError("nothing asks whether cells are in order")
        whole = np.where(self.inside, _OWN, np.uint64(0)).sum(axis=1, dtype=np.uint64)[:, None]
        there = np.where(self.inside, when, NO)
        right = (there != YES) | ((made.lanes == whole) & ~made.bad)
        once = (there == YES).sum(axis=1) == 1
        if (there == UNKNOWN).any() or not right.all() or not once.all():
            raise DifferenceError("a lane's value is lost or counted twice")
        return monoid

    def alone(self, s: Stmt) -> None:
        """`if (__activemask() != all) { update; return; }`: what follows is for whole warps."""
        if not isinstance(s, Branch) or s.orelse or not isinstance(s.cond, Operation) or s.cond.op != "!=":
            raise UnreadError("a function of another form")
        mask, full = s.cond.args
        if (
            not isinstance(mask, Invoke)
            or mask.name != "__activemask"
            or mask.definition
            or not is_full(full)
        ):
            raise UnreadError("a function of another form")
        if len(s.then) != 2 or not isinstance(s.then[1], Return) or s.then[1].value is not None:
            raise UnreadError("a function of another form")
        self.statement(s.then[0], None)
        (_, _, made) = self.updates[-1] if self.updates else ("", None, None)
        if made is None or not (made.lanes == _OWN).all() or made.bad.any():
            raise DifferenceError("a lane alone does not update with its value")

    # ---- statements

    def statement(self, s: Stmt, when: Any) -> None:
        match s:
            case Declare() if s.init is not None and isinstance(s.type, DType) and not s.shared:
                self.names[s.key] = self.value(s.init, when)
            case Assign(target=Name() as name):
                self.assign(s, name, when)
            case Group():
                for x in s.body:
                    self.statement(x, when)
            case Branch() if not s.orelse and when is None:
                cond = self.truth(s.cond, when)
                for x in s.then:
                    self.statement(x, cond)
            case Loop() if when is None:
                self.loop(s)
            case Evaluate(expr=Invoke() as call) if call.name in ATOMICS and call.definition is None:
                self.update(call, when)
            case _:
                raise UnreadError(f"a {type(s).__name__.lower()} in a function")

    def assign(self, s: Assign, name: Name, when: Any) -> None:
        value = self.value(Operation(s.op, (name, s.value), name.type) if s.op else s.value, when)
        if when is not None:
            before = self.names.get(name.key)
            if not isinstance(value, _Mix) or not isinstance(before, _Mix):
                raise UnreadError("an assignment under a condition in a function")
            lanes = np.where(when == YES, value.lanes, before.lanes)
            bad = np.where(when == YES, value.bad, before.bad) | (when == UNKNOWN)
            value = _Mix(lanes, bad)
        self.names[name.key] = value

    def loop(self, s: Loop) -> None:
        self.statement(s.var, None)
        for _ in range(MOST_TRIPS):
            goes_on = self.truth(s.cond, None)
            if (goes_on == NO).all():
                return
            if not (goes_on == YES).all():
                break
            for x in s.body:
                self.statement(x, None)
            self.statement(s.step, None)
        raise UnreadError("a loop that lanes leave apart")

    def update(self, call: Invoke, when: Any) -> None:
        at, value = call.args
        cell = at.of if isinstance(at, Address) else None
        if not isinstance(cell, Element) or cell.base.key != self.target or len(cell.indices) != 1:
            raise DifferenceError("an update of another cell")
        where, made = self.value(cell.indices[0], when), self.value(value, when)
        if not isinstance(where, _Cells) or not (where.of == _LANES).all() or not isinstance(made, _Mix):
            raise DifferenceError("an update of another cell")
        happens = np.full((self.scenarios, WARP), YES) if when is None else when
        self.updates.append((ATOMICS[call.name], happens, made))

    # ---- expressions

    def truth(self, e: Expr, when: Any) -> Any:
        value = self.value(e, when)
        if not isinstance(value, _Truth):
            raise UnreadError("a condition of another form in a function")
        return np.broadcast_to(value.of, (self.scenarios, WARP))

    def value(self, e: Expr, when: Any) -> Value:
        if any(isinstance(x, Builtin) for x in subexpressions(e)) and of_threads(e, self.block) is not None:
            if not is_lane(e, self.block):
                raise UnreadError("a coordinate that is not the lane's number")
            return _LANES
        match e:
            case Number(value=int() as number):
                return np.full(WARP, number)
            case Name() if e.key in self.names:
                return self.names[e.key]
            case Convert(arg=arg):
                value = self.value(arg, when)
                if isinstance(value, _Truth | _InOrder) or (
                    isinstance(value, np.ndarray) and e.type in (DType.I32, DType.U32)
                ):
                    return value
            case Conditional() if is_extreme(e) and not _is_float(e) and isinstance(e.cond, Operation):
                a, b = self.value(e.then, when), self.value(e.orelse, when)
                return self.mixed("min" if e.cond.op == "<" else "max", a, b)
            case Operation():
                return self.operation(e, [self.value(x, when) for x in e.args])
            case Invoke(definition=None):
                return self.invoke(e, when)
            case _:
                pass
        raise UnreadError(f"a {type(e).__name__.lower()} in a function")

    def operation(self, e: Operation, args: list[Value]) -> Value:
        match e.op, args:
            case "not", [_Truth(a)]:
                return _Truth(np.where(a == UNKNOWN, UNKNOWN, YES - a))
            case "&&", [_Truth(a), _Truth(b)]:
                no = (a == NO) | (b == NO)
                return _Truth(np.where(no, NO, np.where((a == YES) & (b == YES), YES, UNKNOWN)))
            case "||", [_Truth(a), _Truth(b)]:
                yes = (a == YES) | (b == YES)
                return _Truth(np.where(yes, YES, np.where((a == NO) & (b == NO), NO, UNKNOWN)))
            case "||", [_Truth(a), _InOrder(first, second)] if (
                a.shape == (WARP,) and not (a == UNKNOWN).any()
            ):
                # Where it holds by itself nothing is asked.
                return _InOrder(np.where(a == YES, second, first), second)
            case "<=", [_Cells(a), _Cells(b)]:
                return _InOrder(a, b)
            case "==" | "!=", [_Cells(a), _Cells(b)]:
                same = self.same(a, b)
                return _Truth(same if e.op == "==" else np.where(same == UNKNOWN, UNKNOWN, YES - same))
            case "+" | "*", [_Mix() as x, _Mix() as y]:
                return self.mixed("sum" if e.op == "+" else "prod", x, y)
            case _, [np.ndarray() as x, np.ndarray() as y] if e.op in INTEGERS:
                out = np.array([INTEGERS[e.op](int(p), int(q)) for p, q in zip(x, y, strict=True)])
                return _Truth(out.astype(int)) if e.type is DType.BOOL else out
        raise UnreadError(f"operator {e.op} in a function")

    def same(self, a: Any, b: Any) -> Any:
        """Whether cells of lanes are one."""
        if self.inside is None:
            return np.where(a == b, YES, UNKNOWN)
        if not self.asked:
            raise UnreadError("cells are compared before it is asked whether they are in order")
        x, y = self.inside[:, a], self.inside[:, b]
        return np.where((a == b) | (x & y), YES, np.where(x | y, NO, UNKNOWN))

    def mixed(self, op: str, a: Value, b: Value) -> _Mix:
        if not isinstance(a, _Mix) or not isinstance(b, _Mix):
            raise UnreadError(f"a {op} in a function")
        if self.op not in ("", op):
            raise DifferenceError(f"{self.op} and {op} are mixed")
        self.op = op
        twice = (a.lanes & b.lanes) != 0 if op in ("sum", "prod") else np.zeros_like(a.bad)
        return _Mix(a.lanes | b.lanes, a.bad | b.bad | twice)

    def invoke(self, e: Invoke, when: Any) -> Value:
        if e.name in _EXTREMES:
            a, b = (self.value(x, when) for x in e.args)
            return self.mixed(_EXTREMES[e.name], a, b)
        if when is not None or not e.args or not is_full(e.args[0]):
            raise DifferenceError("lanes meet where not all of the warp are")
        if e.name == "__all_sync":
            return self.voted(self.value(e.args[1], when))
        if len(e.args) != 3:
            raise UnreadError(f"{e.name} of parts of a warp")
        value, by = (self.value(x, when) for x in e.args[1:])
        if not isinstance(by, np.ndarray) or isinstance(value, _Truth | _InOrder):
            raise UnreadError(f"{e.name} in a function")
        source = {
            "__shfl_up_sync": _LANES - by,
            "__shfl_down_sync": _LANES + by,
            "__shfl_xor_sync": _LANES ^ by,
            "__shfl_sync": by,
        }.get(e.name)
        if source is None or (by < 0).any() or (by >= WARP).any():
            raise UnreadError(f"{e.name} in a function")
        source = np.where((source >= 0) & (source < WARP), source, _LANES)
        if isinstance(value, _Mix):
            return _Mix(value.lanes[:, source], value.bad[:, source])
        return _Cells(value.of[source]) if isinstance(value, _Cells) else value[source]

    def voted(self, asked: Value) -> _Truth:
        """Whether all cells are in order."""
        if not isinstance(asked, _InOrder):
            raise UnreadError("a vote on something else than order")
        if not (asked.second == _LANES).all() or not (asked.first[1:] == _LANES[:-1]).all():
            raise DifferenceError("a vote that does not ask whether cells are in order")
        if asked.first[0] != 0:
            raise DifferenceError("a vote that does not ask whether cells are in order")
        self.asked = True
        return _Truth(np.full(WARP, NO if self.inside is None else YES))


def _is_float(e: Conditional) -> bool:
    return isinstance(e.type, DType) and e.type.is_float
