"""What the device functions of a text do, found by running them for every thread of a block.

A value is the set of threads whose own value went into it, and the operation that combined them. All threads
run in step; what one thread wrote to shared memory another sees after a barrier only, all else is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from evolve.ir.types import DType, Monoid
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
from evolve.validation.verdict import DifferenceError, UnreadError

WARP = 32
_MOST_TRIPS = 64
_EXTREMES = {"fminf": "min", "fmin": "min", "fmaxf": "max", "fmax": "max"}


@dataclass(frozen=True)
class Effect:
    """`combine`: each thread gets what all threads along x have; `scan`: what those before it have, and all.

    elements     of shared memory that it needs for each row of threads
    needs_block  all threads of the block must call it, not only those of the row
    """

    kind: Literal["combine", "scan"]
    monoid: str
    elements: int
    needs_block: bool


_known: dict[tuple[str, tuple[int, int, int]], Effect | str] = {}


def effect_of(f: Function, block: tuple[int, int, int]) -> Effect:
    """The effect of a function in a block of that shape. Raises UnreadError where it is neither."""
    key = (_whole_text(f), block)
    if key not in _known:
        if len(_known) > 256:
            _known.clear()
        try:
            _known[key] = _Run(f, block).effect()
        except (UnreadError, DifferenceError) as e:
            _known[key] = e.reason
    found = _known[key]
    if isinstance(found, str):
        told = f"{f.name}: {found.removeprefix('! ')}"
        raise DifferenceError(told) if found.startswith("!") else UnreadError(told)
    return found


def _whole_text(f: Function) -> str:
    return "\n".join([f.text, *(_whole_text(g) for g in _called(f.body))])


def _called(part: Any) -> Iterator[Function]:
    if isinstance(part, tuple):
        for x in part:
            yield from _called(x)
    elif isinstance(part, Invoke):
        if part.definition is not None:
            yield part.definition
        yield from _called(part.args)
    elif hasattr(part, "__dataclass_fields__") and not isinstance(part, Function):
        for name in part.__dataclass_fields__:
            yield from _called(getattr(part, name))


@dataclass(frozen=True)
class _Mixed:
    """Values of these threads (a bit each) combined by an operation; none: a constant."""

    threads: int
    op: str = ""
    value: float | int | None = None


def _wrong(reason: str) -> DifferenceError:
    return DifferenceError(f"! {reason}")


def _combine(op: str, a: _Mixed, b: _Mixed, dtype: DType) -> _Mixed:
    for x, y in ((a, b), (b, a)):
        if not x.threads:
            neutral = Monoid(op).identity(dtype)
            if x.value is None or str(float(x.value)) != str(float(neutral)):
                raise _wrong(f"{x.value} is not neutral for {op}")
            return y
    for x in (a, b):
        if x.op not in ("", op):
            raise _wrong(f"{x.op} and {op} are mixed")
    if op in ("sum", "prod") and a.threads & b.threads:
        raise _wrong("a value is counted twice")
    return _Mixed(a.threads | b.threads, op)


@dataclass
class _Memory:
    """A row of shared memory for each row of threads; who used an element since the last barrier."""

    cells: dict[tuple[int, int], _Mixed] = field(default_factory=dict)
    writers: dict[tuple[int, int], int] = field(default_factory=dict)
    readers: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def meet(self) -> None:
        self.writers.clear()
        self.readers.clear()


class _Run:
    """One run of a function in all threads of a block."""

    def __init__(self, f: Function, block: tuple[int, int, int]) -> None:
        self.f, self.block = f, block
        self.count = block[0] * block[1] * block[2]
        self.memory = _Memory()
        self.meets = False
        self.beyond_row = False
        self.dtype = DType.F32

    def row(self, t: int) -> int:
        return t // self.block[0]

    def row_mask(self, t: int) -> int:
        x = self.block[0]
        return ((1 << x) - 1) << (self.row(t) * x)

    def effect(self) -> Effect:
        params = self.f.params
        if not params or not isinstance(params[0].type, DType):
            raise UnreadError("a function of another form")
        self.dtype = params[0].type
        names: dict[int, list[Any]] = {params[0].key: [_Mixed(1 << t) for t in range(self.count)]}
        total: int | None = None
        for p in params[1:]:
            if isinstance(p.type, Pointer) and p.type.element is self.dtype:
                names[p.key] = [None] * self.count
            elif p.type is self.dtype and p is params[-1] and p.key in self.f.references:
                total = p.key
                names[p.key] = [_Mixed(0)] * self.count
            else:
                raise UnreadError("a function of another form")
        result = self.call(self.f.body, names)
        if result is None:
            raise UnreadError("a function without a result")
        elements = 1 + max((i for _, i in self.memory.cells), default=-1)
        needs = self.meets or self.beyond_row
        ops = {v.op for v in result if v.op}
        if total is None:
            op = self._all(result)
            return Effect("combine", op or (ops.pop() if ops else ""), elements, needs)
        op = self._all(names[total])
        for t, v in enumerate(result):
            wanted = self.row_mask(t) & ((1 << t) - 1)
            if v.threads != wanted or v.op not in ("", op):
                raise _wrong("a thread does not get what came before it")
            if not v.threads and str(float(v.value)) != str(float(Monoid(op).identity(self.dtype))):
                raise _wrong("the first thread does not get the neutral element")
        return Effect("scan", op, elements, needs)

    def _all(self, values: list[_Mixed]) -> str:
        op = next((v.op for v in values if v.op), "")
        for t, v in enumerate(values):
            if v.threads != self.row_mask(t) or v.op != op:
                raise _wrong("a thread does not get all values of its row")
        if not op:
            raise UnreadError("a collective of one thread")
        return op

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
                    raise _wrong("a barrier under a condition")
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
        for _ in range(_MOST_TRIPS):
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
                raise _wrong("shared memory is written while others use it")
            self.memory.writers[cell] = t
            self.memory.cells[cell] = value[t]

    # ---- expressions

    def value(self, e: Expr, names: dict[int, list[Any]], active: list[bool] | None = None) -> list[Any]:
        match e:
            case Number():
                return [e.value if not e.type.is_float else _Mixed(0, "", e.value)] * self.count
            case Name():
                if e.key not in names:
                    raise UnreadError(f"{e.name} in a function")
                return names[e.key]
            case Builtin():
                return self.builtin(e)
            case Convert():
                return [_converted(v, e.type) for v in self.value(e.arg, names, active)]
            case Conditional():
                # With NaN a comparison of floats is another function than the extreme.
                if _is_extreme(e) and not self.dtype.is_float:
                    a, b = (self.value(x, names, active) for x in (e.then, e.orelse))
                    op = "min" if isinstance(e.cond, Operation) and e.cond.op == "<" else "max"
                    if isinstance(a[0], _Mixed):
                        return [
                            _combine(op, x, y, self.dtype) if active is None or active[t] else None
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

    def builtin(self, e: Builtin) -> list[int]:
        x, y, _ = self.block
        if e.what == "threadIdx":
            coordinates = [(t % x, t // x % y, t // (x * y)) for t in range(self.count)]
            return [c[e.axis] for c in coordinates]
        if e.what == "blockDim":
            return [self.block[e.axis]] * self.count
        raise UnreadError(f"{e.what} in a function")

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
                raise _wrong("shared memory is read before a barrier")
            if cell not in self.memory.cells:
                raise _wrong("shared memory is read before it is written")
            self.memory.readers.setdefault(cell, set()).add(t)
            out.append(self.memory.cells[cell])
        return out

    def operate(self, op: str, a: Any, b: Any, dtype: Type) -> Any:
        if isinstance(a, _Mixed) or isinstance(b, _Mixed):
            names = {"+": "sum", "*": "prod"}
            if op not in names or not isinstance(a, _Mixed) or not isinstance(b, _Mixed):
                raise UnreadError(f"operator {op} in a function")
            return _combine(names[op], a, b, self.dtype)
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
                _combine(_EXTREMES[e.name], x, y, self.dtype) if active is None or active[t] else None
                for t, (x, y) in enumerate(zip(first, second, strict=True))
            ]
        if active is not None:
            raise _wrong("a collective under a condition")
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
            raise _wrong("a lane that the mask does not name")
        if first + source >= self.count:
            raise _wrong("a lane that is not there")
        if (mask << first) & ~self.row_mask(t) & ((1 << self.count) - 1):
            self.beyond_row = True
        return values[first + source]


def _converted(value: Any, dtype: DType) -> Any:
    """An integer in another type, wrapped around as C does. What threads gave must stay what it is."""
    if value is None:
        return None
    if not isinstance(value, int) or dtype.is_float or dtype is DType.BOOL:
        raise UnreadError("a conversion in a function")
    low, high = dtype.limits
    return (value - low) % (high - low + 1) + low


def _is_extreme(e: Conditional) -> bool:
    return isinstance(e.cond, Operation) and e.cond.op in ("<", ">") and e.cond.args == (e.then, e.orelse)


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise UnreadError("a division by zero")
    return int(math.copysign(abs(a) // abs(b), a * b)) if a else 0


INTEGERS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": lambda a, b: a - b * _divided(a, b),
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
