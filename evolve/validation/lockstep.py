"""A device function run by all threads of a block in step, on what they contribute.

What one thread wrote to shared memory another sees after a barrier only, all else is an error.
"""

from __future__ import annotations

from typing import Any

from evolve.ir.types import DType
from evolve.validation.contributions import Mixed, combine, wrong
from evolve.validation.integers import INTEGERS, MOST_TRIPS, WARP, converted, coordinate_of
from evolve.validation.scratch import Memory
from evolve.validation.text import (
    Array,
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
    Type,
    type_of,
)
from evolve.validation.verdict import UnreadError

_EXTREMES = {"fminf": "min", "fmin": "min", "fmaxf": "max", "fmax": "max"}


class Lockstep:
    """One run of a function in all threads of a block."""

    def __init__(self, f: Function, block: tuple[int, int, int]) -> None:
        self.f, self.block = f, block
        self.count = block[0] * block[1] * block[2]
        self.memory = Memory()
        self.meets = False
        self.beyond_row = False
        self.dtype = DType.F32

    def row(self, t: int) -> int:
        return t // self.block[0]

    def row_mask(self, t: int) -> int:
        x = self.block[0]
        return ((1 << x) - 1) << (self.row(t) * x)

    # ---- statements; `active` says which threads run, None for all

    def call(self, body: tuple[Stmt, ...], names: dict[int, list[Any]]) -> list[Any] | None:
        for i, s in enumerate(body):
            if isinstance(s, Return):
                if i != len(body) - 1 or s.value is None:
                    raise UnreadError("an early return")
                return self.value(s.value, names)
            self.statement(s, names, None)
        return None

    def statement(self, s: Stmt, names: dict[int, list[Any]], active: list[bool] | None) -> None:
        match s:
            case Declare():
                if s.shared or isinstance(s.type, Array) or s.type is None:
                    raise UnreadError("an array in a function")
                start: list[Any] = [None] * self.count
                names[s.key] = start if s.init is None else list(self.value(s.init, names, active))
            case Assign():
                self.assign(s, names, active)
            case Evaluate(expr=Invoke(name="__syncthreads")):
                if active is not None:
                    raise wrong("a barrier under a condition")
                self.meets = True
                self.memory.meet()
            case Branch() if active is None and not s.orelse:
                cond = self.value(s.cond, names)
                for x in s.then:
                    self.statement(x, names, [bool(c) for c in cond])
            case Loop() if active is None:
                self.loop(s, names)
            case Group():
                for x in s.body:
                    self.statement(x, names, active)
            case _:
                raise UnreadError(f"a {type(s).__name__.lower()} in a function")

    def loop(self, s: Loop, names: dict[int, list[Any]]) -> None:
        self.statement(s.var, names, None)
        for _ in range(MOST_TRIPS):
            goes_on = {bool(c) for c in self.value(s.cond, names)}
            if len(goes_on) != 1:
                raise UnreadError("a loop that threads leave apart")
            if not goes_on.pop():
                return
            for x in s.body:
                self.statement(x, names, None)
            self.assign(s.step, names, None)
        raise UnreadError("a long loop in a function")

    def assign(self, s: Assign, names: dict[int, list[Any]], active: list[bool] | None) -> None:
        value = self.value(s.value, names, active)
        if s.op:
            before = self.value(s.target, names, active)
            value = [
                self.operate(s.op, a, b, type_of(s.value)) if active is None or active[t] else None
                for t, (a, b) in enumerate(zip(before, value, strict=True))
            ]
        if isinstance(s.target, Name):
            old = names[s.target.key]
            names[s.target.key][:] = [
                v if active is None or active[t] else old[t] for t, v in enumerate(value)
            ]
            return
        if not isinstance(s.target, Element) or not isinstance(s.target.base.type, Pointer):
            raise UnreadError("a target in a function")
        (where,) = (self.value(i, names) for i in s.target.indices)
        for t in range(self.count):
            if active is not None and not active[t]:
                continue
            cell = (self.row(t), int(where[t]))
            if self.memory.writers.get(cell, t) != t or self.memory.readers.get(cell, set()) - {t}:
                raise wrong("shared memory is written while others use it")
            self.memory.writers[cell] = t
            self.memory.cells[cell] = value[t]

    # ---- expressions

    def value(self, e: Expr, names: dict[int, list[Any]], active: list[bool] | None = None) -> list[Any]:
        match e:
            case Number():
                return [e.value if not e.type.is_float else Mixed(0, "", e.value)] * self.count
            case Name():
                if e.key not in names:
                    raise UnreadError(f"{e.name} in a function")
                return names[e.key]
            case Builtin():
                return coordinate_of(e, self.block)
            case Convert():
                return [converted(v, e.type) for v in self.value(e.arg, names, active)]
            case Conditional():
                # With NaN a comparison of floats is another function than the extreme.
                if is_extreme(e) and not self.dtype.is_float:
                    a, b = (self.value(x, names, active) for x in (e.then, e.orelse))
                    op = "min" if isinstance(e.cond, Operation) and e.cond.op == "<" else "max"
                    if isinstance(a[0], Mixed):
                        return [
                            combine(op, x, y, self.dtype) if active is None or active[t] else None
                            for t, (x, y) in enumerate(zip(a, b, strict=True))
                        ]
                chosen = [bool(c) for c in self.value(e.cond, names, active)]
                a = self.value(e.then, names, chosen)
                b = self.value(e.orelse, names, [not c for c in chosen])
                return [x if c else y for c, x, y in zip(chosen, a, b, strict=True)]
            case Element():
                return self.loaded(e, names, active)
            case Operation():
                parts = [self.value(a, names, active) for a in e.args]
                first, second = parts[0], parts[1] if len(parts) > 1 else [None] * self.count
                return [
                    self.operate(e.op, a, b, e.type) if active is None or active[t] else None
                    for t, (a, b) in enumerate(zip(first, second, strict=True))
                ]
            case Invoke():
                return self.invoke(e, names, active)
            case _:
                raise UnreadError(f"a {type(e).__name__.lower()} in a function")

    def loaded(self, e: Element, names: dict[int, list[Any]], active: list[bool] | None) -> list[Any]:
        if e.base.key not in names or not isinstance(e.base.type, Pointer):
            raise UnreadError(f"{e.base.name} in a function")
        (where,) = (self.value(i, names, active) for i in e.indices)
        out: list[Any] = []
        for t in range(self.count):
            if active is not None and not active[t]:
                out.append(None)
                continue
            cell = (self.row(t), int(where[t]))
            if self.memory.writers.get(cell, t) != t:
                raise wrong("shared memory is read before a barrier")
            if cell not in self.memory.cells:
                raise wrong("shared memory is read before it is written")
            self.memory.readers.setdefault(cell, set()).add(t)
            out.append(self.memory.cells[cell])
        return out

    def operate(self, op: str, a: Any, b: Any, dtype: Type) -> Any:
        if isinstance(a, Mixed) or isinstance(b, Mixed):
            names = {"+": "sum", "*": "prod"}
            if op not in names or not isinstance(a, Mixed) or not isinstance(b, Mixed):
                raise UnreadError(f"operator {op} in a function")
            return combine(names[op], a, b, self.dtype)
        if a is None or (b is None and op not in ("neg", "not")):
            return None
        value = INTEGERS[op](a, b) if op in INTEGERS else None
        if value is None:
            raise UnreadError(f"operator {op} in a function")
        return value & 0xFFFFFFFF if dtype is DType.U32 else value

    def invoke(self, e: Invoke, names: dict[int, list[Any]], active: list[bool] | None) -> list[Any]:
        if e.name in _EXTREMES:
            first, second = (self.value(x, names, active) for x in e.args)
            return [
                combine(_EXTREMES[e.name], x, y, self.dtype) if active is None or active[t] else None
                for t, (x, y) in enumerate(zip(first, second, strict=True))
            ]
        if active is not None:
            raise wrong("a collective under a condition")
        if e.definition is not None:
            inner: dict[int, list[Any]] = {}
            for p, a in zip(e.definition.params, e.args, strict=True):
                given = self.value(a, names)
                inner[p.key] = given if p.key in e.definition.references else list(given)
            result = self.call(e.definition.body, inner)
            if result is None:
                raise UnreadError(f"{e.name} in a function")
            return result
        if not e.name.startswith("__shfl"):
            raise UnreadError(f"{e.name} in a function")
        mask, value, by, *width = (self.value(a, names) for a in e.args)
        return [
            self.shuffled(e.name, t, mask[t], value, int(by[t]), int(width[0][t]) if width else WARP)
            for t in range(self.count)
        ]

    def shuffled(self, name: str, t: int, mask: int, values: list[Any], by: int, width: int) -> Any:
        lane, first = t % WARP, t // WARP * WARP
        begin = lane // width * width
        match name:
            case "__shfl_xor_sync":
                source = lane ^ by
                source = source if source < begin + width else lane
            case "__shfl_up_sync":
                source = lane - by if lane - by >= begin else lane
            case "__shfl_down_sync":
                source = lane + by if lane + by < begin + width else lane
            case "__shfl_sync":
                source = begin + by % width
            case _:
                raise UnreadError(f"{name} in a function")
        if not mask >> lane & 1 or not mask >> source & 1:
            raise wrong("a lane that the mask does not name")
        if first + source >= self.count:
            raise wrong("a lane that is not there")
        if (mask << first) & ~self.row_mask(t) & ((1 << self.count) - 1):
            self.beyond_row = True
        return values[first + source]


def is_extreme(e: Conditional) -> bool:
    return isinstance(e.cond, Operation) and e.cond.op in ("<", ">") and e.cond.args == (e.then, e.orelse)
