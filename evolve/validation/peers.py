"""Updates that lanes of one warp make together for all of them that go to one cell.

Such lanes are an ordered set, of which a function knows the lowest, the others after it, how many there are,
and what each contributes. It is run for sets of each size, which is all that can make a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolve.ir.types import DType
from evolve.validation.contributions import Mixed, wrong
from evolve.validation.integers import WARP, Shape, is_lane, of_threads
from evolve.validation.lockstep import Lockstep
from evolve.validation.parts import subexpressions
from evolve.validation.remembered import remembered
from evolve.validation.text import (
    Address,
    Assign,
    Builtin,
    Convert,
    Element,
    Evaluate,
    Expr,
    Function,
    Invoke,
    Name,
    Number,
    Pointer,
    Stmt,
    Type,
)
from evolve.validation.verdict import UnreadError

ATOMICS = {"atomicAdd": "sum", "atomicMin": "min", "atomicMax": "max"}


@dataclass(frozen=True)
class Together:
    """`f(cells, at, value)` updates `cells[at]` with the values of all lanes that are here.

    alike: only if these are all one value
    """

    monoid: str
    dtype: DType
    alike: bool


@dataclass(frozen=True)
class _Peers:
    """A mask of some of the lanes, by their rank; `less`: 1 where 1 is subtracted from it."""

    ranks: tuple[int, ...]
    less: int = 0


@dataclass(frozen=True)
class _Number:
    """The number of a lane in its warp, and `more`."""

    rank: int
    more: int = 0


@dataclass(frozen=True)
class _Times:
    """A number of lanes as a value, of which one contribution is so many."""

    number: int


@dataclass(frozen=True)
class _Scaled:
    """A lane's contribution so many times."""

    rank: int
    number: int


_ACTIVE = "the active lanes"
_CELL = "the cell"
_CELLS = "the array of cells"


def together_of(f: Function, block: Shape) -> Together:
    """What a function of an array, a subscript and a value does. Raises UnreadError and DifferenceError."""
    return remembered("together", f, block, lambda: _effect(f, block))


def _effect(f: Function, block: Shape) -> Together:
    found = [_Run(f, block, number).effect() for number in range(1, WARP + 1)]
    monoids = {x.monoid for x in found}
    if len(monoids) != 1:
        raise UnreadError("updates of several kinds")
    return Together(monoids.pop(), found[0].dtype, any(x.alike for x in found))


class _Run(Lockstep):
    """One run in so many lanes of a warp, lowest first, that go to one cell."""

    def __init__(self, f: Function, block: Shape, number: int) -> None:
        super().__init__(f, block)
        self.count = number
        self.everyone = _Peers(tuple(range(number)))
        self.updates: list[tuple[str, Any]] = []

    def effect(self) -> Together:
        params = self.f.params
        if len(params) != 3 or self.f.references:
            raise UnreadError("a function of another form")
        cells, at, value = params
        if (
            not isinstance(cells.type, Pointer)
            or at.type is not DType.I32
            or value.type is not cells.type.element
        ):
            raise UnreadError("a function of another form")
        assert isinstance(value.type, DType)
        self.dtype = value.type
        names: dict[int, list[Any]] = {
            cells.key: [_CELLS] * self.count,
            at.key: [_CELL] * self.count,
            value.key: [Mixed(1 << t) for t in range(self.count)],
        }
        if self.call(self.f.body, names) is not None:
            raise UnreadError("a function with a result")
        if self.meets:
            raise wrong("a barrier that not all threads reach")
        if len(self.updates) != 1:
            raise wrong(f"{self.count} lanes update their cell {len(self.updates)} times")
        ((monoid, made),) = self.updates
        full = (1 << self.count) - 1
        if isinstance(made, Mixed) and made.threads == full and made.op in ("", monoid):
            return Together(monoid, self.dtype, False)
        if isinstance(made, _Scaled) and monoid == "sum" and made.number == self.count:
            return Together(monoid, self.dtype, True)
        if isinstance(made, Mixed) and made.threads and made.op in ("", monoid) and monoid in ("min", "max"):
            return Together(monoid, self.dtype, True)
        raise wrong("a lane's value is lost")

    def statement(self, s: Stmt, names: dict[int, list[Any]], active: list[bool] | None) -> None:
        if not isinstance(s, Evaluate) or not isinstance(s.expr, Invoke) or s.expr.name not in ATOMICS:
            super().statement(s, names, active)
            return
        at, value = s.expr.args
        if s.expr.definition is not None or not isinstance(at, Address) or not isinstance(at.of, Element):
            raise UnreadError("an update of another form")
        where = [self.value(x, names, active) for x in (at.of.base, *at.of.indices)]
        if len(where) != 2 or {*where[0], *where[1]} != {_CELLS, _CELL} or where[0][0] != _CELLS:
            raise wrong("an update of another cell")
        values = self.value(value, names, active)
        self.updates += [
            (ATOMICS[s.expr.name], v) for t, v in enumerate(values) if active is None or active[t]
        ]

    def value(self, e: Expr, names: dict[int, list[Any]], active: list[bool] | None = None) -> list[Any]:
        if of_threads(e, self.block) is not None and any(isinstance(x, Builtin) for x in subexpressions(e)):
            if not is_lane(e, self.block):
                raise UnreadError("a coordinate that is not the lane's number")
            return [_Number(t) for t in range(self.count)]
        if isinstance(e, Builtin):
            raise UnreadError(f"{e.what} in a function")
        if isinstance(e, Convert):
            return [self._as(v, e.type) for v in self.value(e.arg, names, active)]
        if isinstance(e, Number) and isinstance(e.value, int):
            return [e.value] * self.count
        if isinstance(e, Name) and e.key not in names:
            raise UnreadError(f"{e.name} in a function")
        return super().value(e, names, active)

    def assign(self, s: Assign, names: dict[int, list[Any]], active: list[bool] | None) -> None:
        if not isinstance(s.target, Name):
            raise UnreadError("a target in a function")
        super().assign(s, names, active)

    def loaded(self, e: Element, names: dict[int, list[Any]], active: list[bool] | None) -> list[Any]:
        raise UnreadError(f"{e.base.name} in a function")

    @staticmethod
    def _as(v: Any, dtype: DType) -> Any:
        if isinstance(v, _Peers | _Number) and dtype in (DType.I32, DType.U32):
            return v
        if isinstance(v, int) and not isinstance(v, bool) and dtype is not DType.BOOL:
            return _Times(v) if dtype.is_float else v
        raise UnreadError("a conversion in a function")

    def operate(self, op: str, a: Any, b: Any, dtype: Type) -> Any:
        match op, a, b:
            case "-", _Number(rank, 1), 1:
                return _Number(rank)
            case "-", _Peers(ranks, 0), 1:
                return _Peers(ranks, 1)
            case "&", _Peers(ranks, 0), _Peers(others, 1) if ranks == others:
                return _Peers(ranks[1:])
            case "!=", _Peers(ranks, 0), 0:
                return bool(ranks)
            case "==", _Number(i, 0), _Number(j, 0):
                return i == j
            case "*", _Times(number), Mixed(threads, "", None) if threads.bit_count() == 1:
                return _Scaled(threads.bit_length() - 1, number)
            case "*", int(), Mixed(threads, "", None) if threads.bit_count() == 1 and not self.dtype.is_float:
                return _Scaled(threads.bit_length() - 1, a)
            case _ if isinstance(a, Mixed) and isinstance(b, Mixed):
                return super().operate(op, a, b, dtype)
        raise UnreadError(f"operator {op} in a function")

    def invoke(self, e: Invoke, names: dict[int, list[Any]], active: list[bool] | None) -> list[Any]:
        if e.definition is not None:
            raise UnreadError(f"{e.name} in a function")
        if not e.name.startswith("__"):
            return super().invoke(e, names, active)
        if active is not None:
            raise wrong("lanes meet under a condition")
        args = [self.value(a, names) for a in e.args]
        match e.name, args:
            case "__activemask", []:
                return [_ACTIVE] * self.count
            case "__match_any_sync", [masks, cells] if {*masks} == {_ACTIVE} and {*cells} == {_CELL}:
                return [self.everyone] * self.count
            case "__ffs", [masks] if all(isinstance(m, _Peers) and m.ranks and not m.less for m in masks):
                return [_Number(m.ranks[0], 1) for m in masks]
            case "__popc", [masks] if all(isinstance(m, _Peers) and not m.less for m in masks):
                return [len(m.ranks) for m in masks]
            case "__shfl_sync", [masks, values, lanes]:
                if {*masks} != {self.everyone}:
                    raise wrong("lanes meet with others than those of their cell")
                if all(isinstance(x, _Number) and not x.more for x in lanes):
                    return [values[x.rank] for x in lanes]
        raise UnreadError(f"{e.name} in a function")
