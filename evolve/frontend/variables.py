"""The variables of one thread under symbolic execution, and the statements it has made so far.

A scalar that keeps one value is that value; one that a loop changes is a rank-0 register buffer.
Which are which is found by trying: when a value cannot be followed, `NeedsRegisterError` names the
variable, and the execution starts again with it in a register.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from evolve.frontend import ctree
from evolve.frontend.ctree import Pointer
from evolve.frontend.expressions import Evaluator, size_of
from evolve.frontend.indices import is_stable
from evolve.frontend.polynomial import Poly, constant
from evolve.frontend.refuse import RefusalError
from evolve.frontend.updates import Updates, updates
from evolve.frontend.values import (
    AXES,
    Arr,
    Data,
    Duty,
    Either,
    Int,
    Ptr,
    Threads,
    Unknown,
    Value,
    as_data,
    convert,
)
from evolve.ir.expr import Call, Cast, Const, Expr, Load, Select, Var, index
from evolve.ir.kernel import Scalar
from evolve.ir.stmt import Alloc, Buffer, For, If, Reduce, Span, Stmt, Store
from evolve.ir.types import DType, Space
from evolve.ir.visit import loads, subexpressions

_MAX_INLINE = 160
MAX_STATEMENTS = 4000
"""Of one thread, after inlining; calls count as well."""

Step: TypeAlias = For | If
"""What encloses a statement, as far as guards and ranges go."""


@dataclass(frozen=True)
class Obligation:
    """A duty with the loops and conditions around its use."""

    duty: Duty
    path: tuple[Step, ...]


@dataclass(frozen=True)
class Slot:
    """A variable. `depth`: how many loops surround its declaration. `register`: the buffer that holds it."""

    name: str
    type: DType | None
    value: Value | None
    depth: int
    register: str | None = None


@dataclass(frozen=True)
class Sweep:
    """A grid-stride loop: the source's name of its variable, the grid's axis (0 is x), the index that it
    starts at (`$global.x`, `$blockIdx.x`), its bound and its line.
    """

    name: str
    axis: int
    start: str
    bound: Poly
    line: int

    @property
    def who(self) -> str:
        """What shares out its steps."""
        return "thread" if self.start.startswith("$global") else "block"

    @property
    def index(self) -> str:
        """What its variable is in the body: an index of its own."""
        return f"$sweep.{AXES[self.axis]}"


@dataclass
class Thread:
    """What one thread does.

    body         statements over flat addresses
    elements     element types of the pointer parameters, by buffer
    lengths      elements of those that the signature declares with a length, `int counts[256]`
    scalars      by-value parameters; `is_size` is settled later
    obligations  what makes the integer arithmetic exact
    names        integer variables with their values, for naming loops
    threads      block sizes that the source fixes
    notes        what the user should know that was assumed
    lanes        loops whose iterations the threads of a block share, with the axis (0 is x)
    sweeps       the grid-stride loops
    strided      indices (`$global.x`, `$blockIdx.x`) that stand for their variables: a launch of any size
                 covers them, and none bounds them
    reread       arrays whose elements are read where they are used, not where a variable got them: right only
                 if the kernel writes none of them
    loosened     what is not taken bit for bit
    """

    body: list[Stmt] = field(default_factory=list)
    elements: dict[str, DType] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    params: list[str] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)
    names: list[tuple[str, Poly]] = field(default_factory=list)
    threads: Threads = field(default_factory=Threads)
    notes: set[str] = field(default_factory=set)
    lanes: dict[str, int] = field(default_factory=dict)
    sweeps: list[Sweep] = field(default_factory=list)
    strided: set[str] = field(default_factory=set)
    reread: set[str] = field(default_factory=set)
    loosened: set[str] = field(default_factory=set)


class NeedsRegisterError(Exception):
    """The variable `key` must live in a register."""

    def __init__(self, key: int) -> None:
        super().__init__(str(key))
        self.key = key


class Variables(Evaluator):
    """Declares, reads and assigns variables; records statements and what they owe."""

    def __init__(
        self, path: str, forced: frozenset[int], indexing: frozenset[int] = frozenset(), exact: bool = False
    ) -> None:
        super().__init__()
        self._file = path
        self._exact = exact
        self._forced = forced
        self._indexing = indexing
        self._env: dict[int, Slot] = {}
        self._out: list[Stmt] = []
        self._path: tuple[Step, ...] = ()
        self._loops: tuple[str, ...] = ()
        self._thread = Thread()
        self.threads = self._thread.threads
        self._made = 0
        self._registers: dict[str, int] = {}
        self._speculative = 0
        self._empty: dict[str, tuple[Step, ...]] = {}
        """Registers that have no value yet, with what encloses their declaration."""
        self._written: list[str] = []
        """Buffers of the array elements assigned so far, in order."""

    def _declaration(self, s: ctree.Declare) -> None:
        if isinstance(s.type, ctree.Array):
            name = self._alloc(s.name, s.type.element, s.type.extents, s.line)
            arr = Arr(name, s.type.element, s.type.extents)
            self._env[s.key] = Slot(s.name, None, arr, len(self._loops))
            if isinstance(s.init, tuple):
                self._fill(arr, s.init, s.line)
            return
        init = s.init if not isinstance(s.init, tuple) else None
        value = self.value(init) if init is not None else None
        if isinstance(s.type, Pointer):
            if not isinstance(value, Ptr | Either):
                raise RefusalError(s.line, f"pointer {s.name}", "it must start as a parameter plus an offset")
            self._env[s.key] = Slot(s.name, None, value, len(self._loops))
            return
        if not isinstance(s.type, DType):
            raise RefusalError(s.line, f"variable {s.name}", "this type is not supported")
        self._declare(s.key, s.name, s.type, value, s.line)

    def _fill(self, arr: Arr, init: tuple[ctree.CExpr, ...], line: int) -> None:
        if len(arr.extents) != 1:
            raise RefusalError(line, "array initialiser", "only for arrays of one dimension")
        if arr.extents[0] > MAX_STATEMENTS:
            raise RefusalError(line, "array initialiser", f"of more than {MAX_STATEMENTS} elements")
        for k in range(arr.extents[0]):
            value = self.value(init[k]) if k < len(init) else Int(constant(0), DType.I32)
            data = as_data(convert(value, arr.element, line), line)
            self._emit(Store(arr.buffer, (index(k),), data.expr, span=self._span(line)), data.duties)

    def _declare(self, key: int, name: str, type_: DType, value: Value | None, line: int = 0) -> None:
        if isinstance(value, Int) and type_ is not DType.BOOL:
            self._thread.names.append((name, value.poly))
        if key in self._forced:
            register = self._alloc(name, type_, (), line)
            slot = Slot(name, type_, None, len(self._loops), register)
            self._env[key] = slot
            if value is not None:
                self._store_register(slot, value, line)
            else:
                self._empty[register] = self._path
            return
        start = convert(value, type_, line) if value is not None else Unknown(f"{name} has no value yet")
        self._env[key] = Slot(name, type_, start, len(self._loops))

    def _alloc(self, name: str, type_: DType, extents: tuple[int, ...], line: int) -> str:
        unique = f"{name}#{self._fresh()}"
        self._registers[unique] = len(self._loops)
        buffer = Buffer(
            unique, type_, tuple(index(x) for x in extents), Space.REGISTER, span=self._span(line)
        )
        self._emit(Alloc(buffer))
        return unique

    def _assign(self, a: ctree.Assign) -> None:
        target = a.target
        if isinstance(target, ctree.Name):
            self._assign_name(target, a)
            return
        if not isinstance(target, ctree.Element):
            raise RefusalError(a.line, "assignment", "only variables and array elements can be assigned")
        place = self.place(target)
        self._written.append(place.load.buffer)
        old = Data(place.load, place.duties)
        new = as_data(convert(self._updated(a, old), place.load.dtype, a.line), a.line)
        duties = new.duties | place.duties
        if self._is_register(place.load.buffer):
            self._leaf(place.load, new, duties, a.line)
            return
        if self._speculative:
            raise RefusalError(a.line, "store", "it happens under a condition that reads memory")
        self._leaf(place.load, new, duties, a.line)
        self._stale(place.load.buffer)

    def _updated(self, a: ctree.Assign, old: Value) -> Value:
        value = self.value(a.value)
        if a.op is None:
            return value
        if a.op not in ("<<", ">>"):
            value = convert(value, a.compute, a.line) if isinstance(a.compute, DType) else value
        return self.combine(a.op, convert(old, a.compute, a.line), value, a.compute, a.line)

    def _assign_name(self, target: ctree.Name, a: ctree.Assign) -> None:
        slot = self._slot(target)
        if slot.register is not None:
            nothing: Value = Int(constant(0), DType.I32)
            before = nothing if a.op is None else self._read_register(slot, a.line)
            self._store_register(slot, self._updated(a, before), a.line)
            return
        if slot.depth < len(self._loops):
            if slot.type is None:
                raise RefusalError(
                    a.line, f"pointer {target.name}", "it changes in a loop by something irregular"
                )
            raise NeedsRegisterError(target.key)
        old = slot.value if slot.value is not None and a.op is not None else Int(constant(0), DType.I32)
        value = self._updated(a, old)
        if slot.type is not None:
            value = convert(value, slot.type, a.line)
            if isinstance(value, Int):
                self._thread.names.append((slot.name, value.poly))
        elif not isinstance(value, Ptr | Either):
            raise RefusalError(a.line, f"pointer {target.name}", "it is not followed through this assignment")
        self._env[target.key] = Slot(slot.name, slot.type, value, slot.depth)

    def _store_register(self, slot: Slot, value: Value, line: int) -> None:
        if slot.register is None or slot.type is None:
            raise RefusalError(line, f"variable {slot.name}", "it cannot be assigned")
        self._empty.pop(slot.register, None)
        data = as_data(convert(value, slot.type, line), line)
        self._leaf(Load(slot.register, (), slot.type), data, data.duties, line)

    def _read_register(self, slot: Slot, line: int) -> Data:
        if slot.register is None or slot.type is None:
            raise RefusalError(line, f"variable {slot.name}", "it cannot be read")
        declared = self._empty.get(slot.register)
        if declared is not None and not any(isinstance(s, If) for s in self._path[len(declared) :]):
            raise RefusalError(line, f"variable {slot.name}", "it is read before it has a value")
        return Data(Load(slot.register, (), slot.type))

    def _leaf(self, place: Load, value: Data, duties: frozenset[Duty], line: int) -> None:
        """A store, or reductions where a loop accumulates into a place that does not move with it."""
        parts = updates(place, value.expr) if self._accumulates(place) else None
        if parts is not None and isinstance(value.expr, Select | Call) and value.expr.dtype.is_float:
            # A product and a sum with one rounding are two; what compares with a NaN decides by the order of
            # the operands, which no maximum knows.
            parts = None if self._exact else self._loosely(parts, value.expr, line)
        span = self._span(line)
        if parts is None:
            self._emit(Store(place.buffer, place.indices, value.expr, span=span), duties)
        else:
            for monoid, e in parts:
                self._emit(Reduce(place.buffer, place.indices, monoid, e, span=span), duties)
        if self._is_register(place.buffer):
            self._stale(place.buffer)

    def _loosely(self, parts: Updates, value: Expr, line: int) -> Updates:
        """The parts, on record, with a note where a comparison picks a maximum or minimum."""
        ((monoid, _),) = parts
        if isinstance(value, Select):
            self._thread.loosened.add(f"line {line}: a comparison is a {monoid.name}imum")
            self._thread.notes.add(
                f"line {line}: what the comparison keeps is the {monoid.name}imum: no NaN is compared there, "
                "and a zero may have either sign (numerics exact keeps the comparison)"
            )
        else:
            self._thread.loosened.add(f"line {line}: a fused product and sum is a product and a sum")
        return parts

    def _accumulates(self, place: Load) -> bool:
        if not self._loops or self._speculative:
            return False
        around = self._loops[self._registers.get(place.buffer, 0) :]
        used = {x.name for i in place.indices for x in subexpressions(i) if isinstance(x, Var)}
        return any(loop not in used for loop in around)

    def _is_register(self, buffer: str) -> bool:
        return buffer in self._registers

    def _stale(self, buffer: str) -> None:
        """Values that were to be re-read from `buffer` later are out of date now."""
        for key, slot in self._env.items():
            if isinstance(slot.value, Data) and any(x.buffer == buffer for x in loads(slot.value.expr)):
                self._env[key] = Slot(slot.name, slot.type, slot.value, -1)

    @contextmanager
    def _inside(self, step: Step) -> Iterator[list[Stmt]]:
        out, self._out = self._out, []
        path, self._path = self._path, (*self._path, step)
        made = self._out
        try:
            yield made
        finally:
            self._out, self._path = out, path

    def _emit(self, s: Stmt, duties: frozenset[Duty] = frozenset()) -> None:
        self._oblige(duties)
        self._out.append(s)

    def _oblige(self, duties: frozenset[Duty]) -> None:
        self._thread.obligations.extend(Obligation(d, self._path) for d in duties)

    def _span(self, line: int) -> Span:
        return Span(self._file, line)

    def _fresh(self) -> int:
        self._made += 1
        return self._made

    def _slot(self, n: ctree.Name) -> Slot:
        slot = self._env.get(n.key)
        if slot is None:
            raise RefusalError(n.line, f"variable {n.name}", "it is not known here")
        return slot

    def read(self, n: ctree.Name) -> Value:
        slot = self._slot(n)
        if slot.register is not None:
            return self._read_register(slot, n.line)
        value = slot.value
        if value is None or isinstance(value, Unknown):
            reason = value.reason if isinstance(value, Unknown) else "it has no value"
            if slot.type is not None and n.key not in self._forced:
                raise NeedsRegisterError(n.key)
            raise RefusalError(n.line, f"variable {n.name}", reason)
        if isinstance(value, Data) and not _trivial(value.expr):
            late = slot.depth != len(self._loops)
            if late and slot.depth >= 0 and n.key in self._indexing and is_stable(value.expr):
                self._thread.reread |= {x.buffer for x in loads(value.expr)}
                late = False
            if late or size_of(value.expr) > _MAX_INLINE:
                raise NeedsRegisterError(n.key)
        return value

    def plain(self, key: int) -> Int | Ptr | None:
        """A variable's value if it is an integer or pointer that no register holds."""
        slot = self._env.get(key)
        if slot is None or slot.register is not None or not isinstance(slot.value, Int | Ptr):
            return None
        return slot.value if key not in self._forced else None


def _trivial(e: Expr) -> bool:
    return isinstance(e, Const | Var) or (isinstance(e, Cast) and isinstance(e.arg, Const | Var))
