"""Symbolic execution of one thread of a kernel.

The result is a block of IR statements over *flat* addresses, with the grid-wide thread indices as
free variables and the guards as `If`s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evolve.frontend import ctree, library
from evolve.frontend.ctree import Array, Pointer, Void
from evolve.frontend.expressions import Place
from evolve.frontend.indices import indexing
from evolve.frontend.loops import Head, assignments, counted, counters, induction
from evolve.frontend.operations import choose, negation
from evolve.frontend.polynomial import Poly, constant, expression, variable
from evolve.frontend.prove import negate
from evolve.frontend.refuse import RefusalError
from evolve.frontend.sweeps import settle_sweeps
from evolve.frontend.values import AXES, Data, Duty, Int, Ptr, Unknown, Value, as_data, convert
from evolve.frontend.variables import MAX_STATEMENTS, NeedsRegisterError, Slot, Sweep, Thread, Variables
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import BinaryOp, Const, Expr, Load, Select, Var, compare
from evolve.ir.kernel import Scalar
from evolve.ir.stmt import Block, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import leaves, loads, local_buffers, walk

_RETURN = -1
"""The environment's key for the value a device function returns."""


def execute(kernel: ctree.Function, path: str, block: Mapping[int, int], exact: bool = False) -> Thread:
    """Execute a kernel's body. `block`: threads of a block by axis, as far as known; `exact`: comparisons of
    floats are no maxima. Raises RefusalError.
    """
    forced: set[int] = set()
    indices = indexing(kernel)
    while True:
        try:
            thread = _Executor(kernel, path, frozenset(forced), indices, exact).run(block)
            if not thread.reread & {leaf.buffer for leaf, _ in leaves(Block(tuple(thread.body)))}:
                return thread
            forced, indices = set(), frozenset()
        except NeedsRegisterError as need:
            if need.key in forced:
                raise RefusalError(kernel.line, "variable", "its value cannot be followed") from need
            forced.add(need.key)


class _Executor(Variables):
    def __init__(
        self,
        kernel: ctree.Function,
        path: str,
        forced: frozenset[int],
        indices: frozenset[int],
        exact: bool,
    ) -> None:
        super().__init__(path, forced, indices, exact)
        self._kernel = kernel
        self._in_function = 0
        self._in_loop = 0
        self._whole: ctree.CExpr | None = None
        """The call that is all that the statement at hand does, or all that it assigns."""

    def run(self, block: Mapping[int, int]) -> Thread:
        self.threads.launched.update(block)
        for p in self._kernel.params:
            self._bind_parameter(p)
        self._block(self._kernel.body)
        self._thread.body = self._out
        settle_sweeps(self._thread)
        return self._thread

    def _bind_parameter(self, p: ctree.Name) -> None:
        self._thread.params.append(p.name)
        if isinstance(p.type, Array) and len(p.type.extents) == 1:
            self._thread.lengths[p.name] = p.type.extents[0]
        if isinstance(p.type, Pointer) or p.name in self._thread.lengths:
            assert isinstance(p.type, Pointer | Array)
            self._thread.elements[p.name] = p.type.element
            self._env[p.key] = Slot(p.name, None, Ptr(p.name, Int(constant(0), DType.I64), p.type.element), 0)
            return
        if not isinstance(p.type, DType):
            raise RefusalError(p.line, f"parameter {p.name}", "only pointers and scalars can be passed")
        if p.type is DType.U8:
            raise RefusalError(p.line, f"parameter {p.name}", "of unsigned char, only arrays are supported")
        self._thread.scalars.append(Scalar(p.name, p.type, False))
        value: Value
        if p.type.is_float or p.type is DType.BOOL:
            value = Data(Var(p.name, p.type))
        else:
            value = Int(variable(p.name), p.type)
        self._declare(p.key, p.name, p.type, value)

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
        self._count(s.line)
        self._whole = _whole_call(s)
        match s:
            case ctree.Group():
                self._block(s.body)
            case ctree.Declare():
                self._declaration(s)
            case ctree.Evaluate(expr=ctree.Assign() as assignment):
                self._assign(assignment)
            case ctree.Evaluate(expr=ctree.Invoke(function=None) as call) if call.name in library.UPDATES:
                self._update(call)
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

    def _update(self, call: ctree.Invoke) -> None:
        """`atomicAdd(p, v);` and its like, the old value dropped."""
        what, line = f"call of {call.name}", call.line
        if self._speculative:
            raise RefusalError(line, what, "it happens under a condition that reads memory")
        where, value = (self.value(a) for a in call.args)
        place = self.element(where, Int(constant(0), DType.I32), line) if isinstance(where, Ptr) else None
        if not isinstance(place, Place):
            raise RefusalError(line, what, "it must update an element of an array that the kernel gets")
        data = as_data(convert(value, place.load.dtype, line), line)
        if call.name == "atomicSub":
            data = as_data(negation(data, place.load.dtype, line), line)
        monoid, load = library.UPDATES[call.name], place.load
        if not monoid.has_atomic(load.dtype):
            raise RefusalError(line, what, f"there is none of {load.dtype.c_name}")
        self._written.append(load.buffer)
        made = Reduce(load.buffer, load.indices, monoid, data.expr, span=self._span(line), atomic=True)
        self._emit(made, place.duties | data.duties)
        self._stale(load.buffer)

    def _count(self, line: int) -> None:
        self._made += 1
        if self._made > MAX_STATEMENTS:
            raise RefusalError(line, "kernel", f"more than {MAX_STATEMENTS} statements after inlining")

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
            else:
                ended = Unknown(f"{a.name} ended a loop under a condition")
                self._env[key] = Slot(a.name, a.type, ended, min(a.depth, b.depth))

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
                raise RefusalError(
                    line, "if", "it changes a variable that its own condition reads: change it last"
                )
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
        self._forget(s, {head.key, *(key for key, _, _ in moving)})
        loop = For(name, expression(head.extent), LoopKind.SERIAL, Block(()), span=self._span(s.line))
        with self._inside(loop) as out:
            self._loops = (*self._loops, name)
            self._env[head.key] = Slot(head.name, head.type, head.at(variable(name)), len(self._loops))
            for key, start, step in moving:
                slot = self._env[key]
                value = _advance(start, step, variable(name), s.line)
                self._env[key] = Slot(slot.name, slot.type, value, len(self._loops))
            self._in_loop += 1
            self._block(s.body)
            self._in_loop -= 1
            self._loops = self._loops[:-1]
        for key in outer:
            if self._env[key].depth == -1 and outer[key].depth != -1:
                outer[key] = Slot(outer[key].name, outer[key].type, outer[key].value, -1)
        self._env = outer
        self._forget(s, {head.key, *(key for key, _, _ in moving)})
        for key, _, _ in moving:
            slot = self._env[key]
            self._env[key] = Slot(
                slot.name, slot.type, Unknown(f"{slot.name} was changed by a loop"), slot.depth
            )
        if head.key in self._env:
            self._env[head.key] = Slot(head.name, head.type, Unknown(f"{head.name} ended a loop"), 0)
        self._out.append(For(name, loop.extent, loop.kind, Block(tuple(out)), span=loop.span))
        if head.lane_axis is not None:
            self._thread.lanes[name] = head.lane_axis

    def _forget(self, s: ctree.Loop, known: set[int]) -> None:
        """What loops inside this one do to a variable from outside (counting with it, moving it by a
        step) is not followed from one iteration to the next, nor past the end."""
        counts = counters(s.body)
        for key in {a.target.key for a, _ in assignments(s.body, 0) if isinstance(a.target, ctree.Name)}:
            slot = self._env.get(key)
            if key not in known and slot is not None and (slot.value is not None or key in counts):
                changed = Unknown(f"{slot.name} is changed by a loop")
                self._env[key] = Slot(slot.name, slot.type, changed, slot.depth)

    def _grid_stride(self, s: ctree.Loop, head: Head) -> None:
        """for (i = global index; i < n; i += gridDim*blockDim): each i < n once, by some thread.

        Or by some block: for (i = blockIdx; i < n; i += gridDim). See `sweeps`.
        """
        assert head.stride_axis is not None
        (start,) = head.start.names()
        sweep = Sweep(head.name, head.stride_axis, start, head.extent, s.line)
        if self._loops or self._out:
            raise RefusalError(s.line, "grid-stride loop", "it must be the whole kernel")
        if any(other.axis == sweep.axis for other in self._thread.sweeps):
            what = f"it is not the only one along {AXES[sweep.axis]}"
            raise RefusalError(s.line, "grid-stride loop", what)
        self._thread.sweeps.append(sweep)
        before, count = dict(self._env), variable(sweep.index)
        guard = compare(BinaryOp.LT, expression(count), expression(head.extent))
        with self._inside(If(guard, Block(()), span=self._span(s.line))) as out:
            self._env[head.key] = Slot(head.name, head.type, Int(count, head.type), 0)
            self._thread.names.append((head.name, count))
            self._in_loop += 1
            self._block(s.body)
            self._in_loop -= 1
        changed = [k for k in before if self._env[k] != before[k]]
        if changed:
            raise RefusalError(
                s.line, "grid-stride loop", f"it carries {before[changed[0]].name} from step to step"
            )
        own = local_buffers(Block(tuple(out)))
        for leaf, _ in leaves(Block(tuple(out))):
            if self._is_register(leaf.buffer) and leaf.buffer not in own:
                what = f"it carries {leaf.buffer.split('#')[0]} from step to step"
                raise RefusalError(s.line, "grid-stride loop", what)
        self._env = before
        self._out.append(If(guard, Block(tuple(out)), span=self._span(s.line)))

    def value(self, e: ctree.CExpr) -> Value:
        lazy: tuple[ctree.CExpr, ...] = ()
        if isinstance(e, ctree.Conditional):
            lazy = (e.then, e.orelse)
        elif isinstance(e, ctree.Operation) and e.op in ("&&", "||"):
            lazy = e.operands[1:]
        made = len(self._out)
        value = super().value(e)
        if any(_calls(x) for x in lazy) and any(_reads_memory(s, self._registers) for s in self._out[made:]):
            reason = "it reads memory in loops and happens under a condition; write the condition as an if"
            raise RefusalError(e.line, "call", reason)
        return value

    def inline(self, call: ctree.Invoke, args: tuple[Value, ...]) -> Value:
        function = call.function
        if function is None:
            raise RefusalError(call.line, f"call of {call.name}", "its body is not known")
        self._count(call.line)
        whole, written, local = call is self._whole, len(self._written), set(self._registers)
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
        outside = {b for b in self._written[written:] if b in local or b not in self._registers}
        if outside and not whole:
            raise RefusalError(
                call.line,
                f"call of {call.name}",
                f"it writes {min(outside)} in the middle of an expression; call it in a statement of its own",
            )
        value = self._env[_RETURN].value
        for key in saved:
            if key in self._env and self._env[key].depth == -1:
                saved[key] = Slot(saved[key].name, saved[key].type, saved[key].value, -1)
        self._env = saved
        if result is None or value is None:
            return Unknown("the function returns nothing")
        return convert(value, result, call.line)


def _whole_call(s: ctree.CStmt) -> ctree.CExpr | None:
    match s:
        case ctree.Evaluate(expr=ctree.Assign(op=None, value=e)) | ctree.Evaluate(expr=e):
            found: ctree.CExpr | None = e
        case ctree.Declare(init=e) if not isinstance(e, tuple):
            found = e
        case _:
            found = None
    while isinstance(found, ctree.Convert):
        found = found.arg
    return found if isinstance(found, ctree.Invoke) else None


def _calls(e: ctree.CExpr) -> bool:
    match e:
        case ctree.Invoke():
            return e.function is not None or any(_calls(x) for x in e.args)
        case ctree.Operation():
            return any(_calls(x) for x in e.operands)
        case ctree.Convert():
            return _calls(e.arg)
        case ctree.Conditional():
            return _calls(e.cond) or _calls(e.then) or _calls(e.orelse)
        case ctree.Element():
            return _calls(e.base) or _calls(e.index)
        case _:
            return False


def _reads_memory(s: Stmt, registers: Collection[str]) -> bool:
    """Whether a statement reads a parameter's elements."""
    touched = [a for site in walk(Block((s,))) for a in effects(site.stmt).accesses]
    return any(a.mode is Mode.READ and a.buffer not in registers for a in touched)


def _advance(start: Value, step: Poly, count: Poly, line: int) -> Value:
    if isinstance(start, Ptr):
        offset = start.offset
        return Ptr(start.buffer, Int(offset.poly + step * count, DType.I64, offset.duties), start.element)
    assert isinstance(start, Int)
    p = start.poly + step * count
    low, high = start.type.limits
    wraps = start.type in (DType.U32, DType.U64)
    return Int(p, start.type, start.duties | {Duty(p, low, high, wraps, line, "operator +=")})


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
