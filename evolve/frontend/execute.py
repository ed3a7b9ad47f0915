"""Symbolic execution of one thread of a kernel.

The result is a block of IR statements over *flat* addresses, with the grid-wide thread indices as
free variables and the guards as `If`s. Scalars that keep one value become part of the expressions
that use them; those that a loop changes become rank-0 register buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from evolve.frontend import ctree, library
from evolve.frontend.ctree import Pointer, Void
from evolve.frontend.expressions import Evaluator, size_of
from evolve.frontend.loops import Head, counted, induction
from evolve.frontend.polynomial import Poly, constant, expression, variable
from evolve.frontend.prove import negate
from evolve.frontend.refuse import RefusalError
from evolve.frontend.updates import updates
from evolve.frontend.values import (
    Arr,
    Data,
    Duty,
    Int,
    Ptr,
    Threads,
    Unknown,
    Value,
    as_data,
    choose,
    convert,
)
from evolve.ir.expr import Cast, Const, Expr, Load, Select, Var, index
from evolve.ir.kernel import Scalar
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Span, Stmt, Store
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import loads, subexpressions

_MAX_INLINE = 160
_MAX_STATEMENTS = 4000
_RETURN = -1
"""The environment's key for the value a device function returns."""

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


@dataclass
class Thread:
    """What one thread does.

    body         statements over flat addresses
    elements     element types of the pointer parameters, by buffer
    scalars      by-value parameters; `is_size` is settled later
    obligations  what makes the integer arithmetic exact
    names        integer variables with their values, for naming loops
    threads      block sizes that the source fixes
    notes        what the user should know that was assumed
    """

    body: list[Stmt] = field(default_factory=list)
    elements: dict[str, DType] = field(default_factory=dict)
    params: list[str] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)
    names: list[tuple[str, Poly]] = field(default_factory=list)
    threads: Threads = field(default_factory=Threads)
    notes: set[str] = field(default_factory=set)


class _NeedsRegisterError(Exception):
    def __init__(self, key: int) -> None:
        super().__init__(str(key))
        self.key = key


def execute(kernel: ctree.Function, path: str) -> Thread:
    """Execute a kernel's body. Raises RefusalError."""
    forced: set[int] = set()
    while True:
        try:
            return _Executor(kernel, path, frozenset(forced)).run()
        except _NeedsRegisterError as need:
            if need.key in forced:
                raise RefusalError(kernel.line, "variable", "its value cannot be followed") from need
            forced.add(need.key)


class _Executor(Evaluator):
    def __init__(self, kernel: ctree.Function, path: str, forced: frozenset[int]) -> None:
        super().__init__()
        self._kernel = kernel
        self._file = path
        self._forced = forced
        self._env: dict[int, Slot] = {}
        self._out: list[Stmt] = []
        self._path: tuple[Step, ...] = ()
        self._loops: tuple[str, ...] = ()
        self._thread = Thread()
        self.threads = self._thread.threads
        self._made = 0
        self._registers: dict[str, int] = {}
        self._speculative = 0
        self._in_function = 0
        self._in_loop = 0

    def run(self) -> Thread:
        for p in self._kernel.params:
            self._bind_parameter(p)
        self._block(self._kernel.body)
        self._thread.body = self._out
        return self._thread

    def _bind_parameter(self, p: ctree.Name) -> None:
        self._thread.params.append(p.name)
        if isinstance(p.type, Pointer):
            self._thread.elements[p.name] = p.type.element
            self._env[p.key] = Slot(p.name, None, Ptr(p.name, Int(constant(0), DType.I64), p.type.element), 0)
            return
        if not isinstance(p.type, DType):
            raise RefusalError(p.line, f"parameter {p.name}", "only pointers and scalars can be passed")
        self._thread.scalars.append(Scalar(p.name, p.type, False))
        value: Value
        if p.type.is_float or p.type is DType.BOOL:
            value = Data(Var(p.name, p.type))
        else:
            value = Int(variable(p.name), p.type)
        self._declare(p.key, p.name, p.type, value)

    # ------------------------------------------------------------------ statements

    def _block(self, stmts: tuple[ctree.CStmt, ...]) -> None:
        """Run statements in order; what follows a branch that may jump goes into its other side."""
        for at, s in enumerate(stmts):
            if isinstance(s, ctree.Group) and any(ctree.jumps(x) for x in s.body):
                self._block((*s.body, *stmts[at + 1 :]))
                return
            if isinstance(s, ctree.Branch) and ctree.jumps(s):
                rest = stmts[at + 1 :]
                then = s.then if _ends(s.then) else (*s.then, *rest)
                orelse = s.orelse if _ends(s.orelse) else (*s.orelse, *rest)
                if rest and not (_ends(s.then) or _ends(s.orelse)):
                    raise RefusalError(
                        s.line, "jump", "a return or continue deep inside a condition is not supported"
                    )
                self._branch(ctree.Branch(s.cond, then, orelse, s.line))
                return
            if isinstance(s, ctree.Return):
                self._return(s)
                return
            if isinstance(s, ctree.Continue):
                return
            self._statement(s)

    def _return(self, s: ctree.Return) -> None:
        if self._in_loop:
            raise RefusalError(s.line, "return", "it is inside a loop")
        if s.value is None:
            return
        slot = self._env[_RETURN]
        if slot.register is not None:
            self._store_register(slot, self.value(s.value), s.line)
        else:
            self._env[_RETURN] = Slot(slot.name, slot.type, self.value(s.value), slot.depth)

    def _statement(self, s: ctree.CStmt) -> None:
        self._made += 1
        if self._made > _MAX_STATEMENTS:
            raise RefusalError(s.line, "kernel", f"more than {_MAX_STATEMENTS} statements after inlining")
        match s:
            case ctree.Group():
                self._block(s.body)
            case ctree.Declare():
                self._declaration(s)
            case ctree.Evaluate(expr=ctree.Assign() as assignment):
                self._assign(assignment)
            case ctree.Evaluate(expr=ctree.Invoke(function=None, type=Void()) as call):
                library.call(call.name, (), DType.I32, s.line)
            case ctree.Evaluate():
                self.value(s.expr)
            case ctree.Branch():
                self._branch(s)
            case ctree.Loop():
                if s.also and any(ctree.jumps(x) for x in s.body):
                    raise RefusalError(s.line, "for loop", "it has several steps and a continue")
                whole = ctree.Loop(s.init, s.cond, s.step, (*s.body, *s.also), (), s.line)
                self._loop(whole)
            case _:
                raise RefusalError(s.line, "statement", "it is not supported here")

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
            if not isinstance(value, Ptr):
                raise RefusalError(s.line, f"pointer {s.name}", "it must start as a parameter plus an offset")
            self._env[s.key] = Slot(s.name, None, value, len(self._loops))
            return
        if not isinstance(s.type, DType):
            raise RefusalError(s.line, f"variable {s.name}", "this type is not supported")
        self._declare(s.key, s.name, s.type, value, s.line)

    def _fill(self, arr: Arr, init: tuple[ctree.CExpr, ...], line: int) -> None:
        if len(arr.extents) != 1:
            raise RefusalError(line, "array initialiser", "only for arrays of one dimension")
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
            self._store_register(slot, self._updated(a, self._read_register(slot)), a.line)
            return
        if slot.depth < len(self._loops):
            if slot.type is None:
                raise RefusalError(
                    a.line, f"pointer {target.name}", "it changes in a loop by something irregular"
                )
            raise _NeedsRegisterError(target.key)
        old = slot.value if slot.value is not None and a.op is not None else Int(constant(0), DType.I32)
        value = self._updated(a, old)
        if slot.type is not None:
            value = convert(value, slot.type, a.line)
            if isinstance(value, Int):
                self._thread.names.append((slot.name, value.poly))
        elif not isinstance(value, Ptr):
            raise RefusalError(a.line, f"pointer {target.name}", "it is not followed through this assignment")
        self._env[target.key] = Slot(slot.name, slot.type, value, slot.depth)

    def _store_register(self, slot: Slot, value: Value, line: int) -> None:
        if slot.register is None or slot.type is None:
            raise RefusalError(line, f"variable {slot.name}", "it cannot be assigned")
        data = as_data(convert(value, slot.type, line), line)
        self._leaf(Load(slot.register, (), slot.type), data, data.duties, line)

    def _read_register(self, slot: Slot) -> Data:
        if slot.register is None or slot.type is None:
            raise RefusalError(0, f"variable {slot.name}", "it cannot be read")
        return Data(Load(slot.register, (), slot.type))

    def _leaf(self, place: Load, value: Data, duties: frozenset[Duty], line: int) -> None:
        """A store, or reductions where a loop accumulates into a place that does not move with it."""
        parts = updates(place, value.expr) if self._accumulates(place) else None
        if parts is not None and isinstance(value.expr, Select):
            self._thread.notes.add(f"line {line}: the maximum or minimum is that of numbers, not of NaNs")
        span = self._span(line)
        if parts is None:
            self._emit(Store(place.buffer, place.indices, value.expr, span=span), duties)
        else:
            for monoid, e in parts:
                self._emit(Reduce(place.buffer, place.indices, monoid, e, span=span), duties)
        if self._is_register(place.buffer):
            self._stale(place.buffer)

    def _accumulates(self, place: Load) -> bool:
        if not self._loops or self._speculative:
            return False
        if self._is_register(place.buffer) and self._registers[place.buffer] >= len(self._loops):
            return False
        used = {x.name for i in place.indices for x in subexpressions(i) if isinstance(x, Var)}
        return self._loops[-1] not in used

    def _is_register(self, buffer: str) -> bool:
        return buffer in self._registers

    def _stale(self, buffer: str) -> None:
        """Values that were to be re-read from `buffer` later are out of date now."""
        for key, slot in self._env.items():
            if isinstance(slot.value, Data) and any(x.buffer == buffer for x in loads(slot.value.expr)):
                self._env[key] = Slot(slot.name, slot.type, slot.value, -1)

    # ------------------------------------------------------------------ control flow

    def _branch(self, s: ctree.Branch) -> None:
        cond = as_data(convert(self.value(s.cond), DType.BOOL, s.line), s.line)
        if isinstance(cond.expr, Const):
            self._block(s.then if cond.expr.value else s.orelse)
            return
        opaque = bool(loads(cond.expr))
        if opaque and any(isinstance(x, ctree.Loop) for x in (*s.then, *s.orelse)):
            raise RefusalError(s.line, "if", "its condition reads memory and it contains a loop")
        if opaque and not self._in_function and any(ctree.jumps(x) for x in (*s.then, *s.orelse)):
            raise RefusalError(s.line, "return", "its condition reads memory")
        self._oblige(cond.duties)
        before = dict(self._env)
        then = self._side(s.then, cond.expr, opaque, s.line)
        after_then, self._env = self._env, dict(before)
        orelse = self._side(s.orelse, negate(cond.expr), opaque, s.line)
        after_else, self._env = self._env, before
        self._merge(cond, after_then, after_else, s.line)
        if opaque:
            self._predicate(cond.expr, then, orelse, s.line)
        elif then or orelse:
            self._out.append(If(cond.expr, Block(tuple(then)), Block(tuple(orelse)), self._span(s.line)))

    def _side(self, stmts: tuple[ctree.CStmt, ...], cond: Expr, opaque: bool, line: int) -> list[Stmt]:
        with self._inside(If(cond, Block(()), span=self._span(line))) as out:
            self._speculative += opaque
            self._block(stmts)
            self._speculative -= opaque
        return out

    def _merge(self, cond: Data, then: dict[int, Slot], orelse: dict[int, Slot], line: int) -> None:
        for key in self._env:
            a, b = then[key], orelse[key]
            if a == b:
                self._env[key] = a
            elif a.value is not None and b.value is not None:
                depth = min(a.depth, b.depth)
                self._env[key] = Slot(a.name, a.type, choose(cond, a.value, b.value, line), depth)

    def _predicate(self, cond: Expr, then: list[Stmt], orelse: list[Stmt], line: int) -> None:
        """Register stores under a condition that reads memory become selects."""
        read = {x.buffer for x in loads(cond)}
        stores = [(s, True) for s in then] + [(s, False) for s in orelse]
        for at, (s, side) in enumerate(stores):
            if not isinstance(s, Store) or not self._is_register(s.buffer):
                raise RefusalError(
                    line, "if", "its condition reads memory and it does more than assign variables"
                )
            if s.buffer in read and at + 1 < len(stores):
                raise RefusalError(line, "if", "it changes a variable that its own condition reads")
            old = Load(s.buffer, s.indices, s.value.dtype)
            value = Select(cond, s.value, old, old.dtype) if side else Select(cond, old, s.value, old.dtype)
            self._leaf(old, Data(value), frozenset(), line)

    def _loop(self, s: ctree.Loop) -> None:
        head = counted(self, s)
        self._oblige(head.duties)
        if head.stride_axis is not None:
            self._grid_stride(s, head)
            return
        name = f"{head.name}#{self._fresh()}"
        outer = self._env
        self._env = dict(outer)
        moving = induction(self, s, head)
        loop = For(name, expression(head.extent), LoopKind.SERIAL, Block(()), span=self._span(s.line))
        with self._inside(loop) as out:
            self._loops = (*self._loops, name)
            self._env[head.key] = Slot(head.name, head.type, head.at(variable(name)), len(self._loops))
            for key, start, step in moving:
                slot = self._env[key]
                value = _advance(start, step, variable(name))
                self._env[key] = Slot(slot.name, slot.type, value, len(self._loops))
            self._in_loop += 1
            self._block(s.body)
            self._in_loop -= 1
            self._loops = self._loops[:-1]
        for key in outer:
            if self._env[key].depth == -1 and outer[key].depth != -1:
                outer[key] = Slot(outer[key].name, outer[key].type, outer[key].value, -1)
        self._env = outer
        for key, _, _ in moving:
            slot = self._env[key]
            self._env[key] = Slot(
                slot.name, slot.type, Unknown(f"{slot.name} was changed by a loop"), slot.depth
            )
        if head.key in self._env:
            self._env[head.key] = Slot(head.name, head.type, Unknown(f"{head.name} ended a loop"), 0)
        self._out.append(For(name, loop.extent, loop.kind, Block(tuple(out)), span=loop.span))

    def _grid_stride(self, s: ctree.Loop, head: Head) -> None:
        """for (i = global index; i < n; i += gridDim*blockDim): each i < n once, by some thread."""
        if self._loops or self._out:
            raise RefusalError(s.line, "grid-stride loop", "it must be the whole kernel")
        before = dict(self._env)
        with self._inside(If(head.guard, Block(()), span=self._span(s.line))) as out:
            self._env[head.key] = Slot(head.name, head.type, head.at(Poly(())), 0)
            self._thread.names.append((head.name, head.start))
            self._in_loop += 1
            self._block(s.body)
            self._in_loop -= 1
        changed = [k for k in before if self._env[k] != before[k]]
        if changed:
            raise RefusalError(
                s.line, "grid-stride loop", f"it carries {before[changed[0]].name} from step to step"
            )
        self._env = before
        self._out.append(If(head.guard, Block(tuple(out)), span=self._span(s.line)))

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

    # ------------------------------------------------------------------ what the evaluator asks for

    def _slot(self, n: ctree.Name) -> Slot:
        slot = self._env.get(n.key)
        if slot is None:
            raise RefusalError(n.line, f"variable {n.name}", "it is not known here")
        return slot

    def read(self, n: ctree.Name) -> Value:
        slot = self._slot(n)
        if slot.register is not None:
            return self._read_register(slot)
        value = slot.value
        if value is None or isinstance(value, Unknown):
            reason = value.reason if isinstance(value, Unknown) else "it has no value"
            if slot.type is not None and n.key not in self._forced:
                raise _NeedsRegisterError(n.key)
            raise RefusalError(n.line, f"variable {n.name}", reason)
        if isinstance(value, Data) and not _trivial(value.expr):
            late = slot.depth != len(self._loops)
            if late or size_of(value.expr) > _MAX_INLINE:
                raise _NeedsRegisterError(n.key)
        return value

    def plain(self, key: int) -> Int | Ptr | None:
        """A variable's value if it is an integer or pointer that no register holds."""
        slot = self._env.get(key)
        if slot is None or slot.register is not None or not isinstance(slot.value, Int | Ptr):
            return None
        return slot.value if key not in self._forced else None

    def inline(self, call: ctree.Invoke, args: tuple[Value, ...]) -> Value:
        function = call.function
        if function is None:
            raise RefusalError(call.line, f"call of {call.name}", "its body is not known")
        saved = dict(self._env)
        for p, v in zip(function.params, args, strict=True):
            if isinstance(p.type, Pointer):
                self._env[p.key] = Slot(p.name, None, v, len(self._loops))
            elif isinstance(p.type, DType):
                self._declare(p.key, p.name, p.type, v, call.line)
        result = function.result if isinstance(function.result, DType) else None
        self._env[_RETURN] = Slot("result", result, Unknown("no value is returned"), len(self._loops))
        in_loop, self._in_loop = self._in_loop, 0
        self._in_function += 1
        self._block(function.body)
        self._in_function -= 1
        self._in_loop = in_loop
        value = self._env[_RETURN].value
        for key in saved:
            if key in self._env and self._env[key].depth == -1:
                saved[key] = Slot(saved[key].name, saved[key].type, saved[key].value, -1)
        self._env = saved
        if result is None or value is None:
            return Unknown("the function returns nothing")
        return convert(value, result, call.line)


def _advance(start: Value, step: Poly, count: Poly) -> Value:
    if isinstance(start, Ptr):
        offset = start.offset
        return Ptr(start.buffer, Int(offset.poly + step * count, DType.I64, offset.duties), start.element)
    assert isinstance(start, Int)
    p = start.poly + step * count
    return Int(p, start.type, start.duties | {Duty(p, None, 2**31 - 1, False, 0, "operator +=")})


def _trivial(e: Expr) -> bool:
    return isinstance(e, Const | Var) or (isinstance(e, Cast) and isinstance(e.arg, Const | Var))


def _ends(stmts: tuple[ctree.CStmt, ...]) -> bool:
    """Whether control never falls off the end."""
    if not stmts:
        return False
    last = stmts[-1]
    match last:
        case ctree.Return() | ctree.Continue():
            return True
        case ctree.Group():
            return _ends(last.body)
        case ctree.Branch():
            return _ends(last.then) and _ends(last.orelse)
        case _:
            return False
