"""Judging kernels by running every instance at given small sizes. Shares no code with the prover.

Values are symbolic, so equality means equality for all inputs: ("in", buffer, cell) for initial
contents, ("undefined",), operations as tuples, and accumulations with their contributions as a
multiset. Every thread has its own copy of every register buffer, whole: whoever reads an element
that it did not write itself reads ("undefined",), except in a combine loop, where the element of
thread.x number i is read in iteration i. Threads run in lock step; accesses are kept with the
number of barriers their block has passed, so that unordered conflicts show. Where a launch ends, all that
came before is over, and what only lives in a block is undefined.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Load, Select, Unary, UnaryOp, Var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Barrier, Block, Boundary, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import walk

Value = Any
THREADS = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z)
GRIDS = (LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.GRID_Z)


@dataclass
class Outcome:
    """Final global cells, and what went wrong on the way."""

    cells: dict[tuple[str, tuple[int, ...]], Value]
    faults: set[str] = field(default_factory=set)


_ARITHMETIC = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.FLOORDIV: lambda a, b: a // b,
    BinaryOp.MOD: lambda a, b: a % b,
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
    BinaryOp.LT: lambda a, b: a < b,
    BinaryOp.LE: lambda a, b: a <= b,
    BinaryOp.GT: lambda a, b: a > b,
    BinaryOp.GE: lambda a, b: a >= b,
    BinaryOp.EQ: lambda a, b: a == b,
    BinaryOp.NE: lambda a, b: a != b,
    BinaryOp.AND: lambda a, b: a and b,
    BinaryOp.OR: lambda a, b: a or b,
}


class Run:
    """One execution."""

    def __init__(self, kernel: Kernel, sizes: dict[str, int]) -> None:
        self.kernel = kernel
        self.sizes = sizes
        self.buffers: dict[str, Buffer] = {b.name: b for b in kernel.buffers}
        self.combining: int | None = None
        self.out = Outcome({})
        self.memory: dict[Any, Value] = {}
        self.epoch: Counter[tuple[int, ...]] = Counter()
        self.touched: dict[Any, list[tuple[tuple[int, ...], tuple[int, ...], int, bool]]] = {}
        for site in walk(kernel.body):
            if isinstance(site.stmt, Alloc):
                self.buffers[site.stmt.buffer.name] = site.stmt.buffer
        self.given = {b.name for b in kernel.buffers}
        self.block_extent = dict.fromkeys(THREADS, 1)
        self.launch(0)

    def launch(self, position: int) -> None:
        """Begins the launch whose statements stand at `position` in the body."""
        for seen in self.touched.values():
            self._race(seen)
        self.touched.clear()
        for key in [k for k in self.memory if k[0] == "l"]:
            del self.memory[key]
        self.block_extent = dict.fromkeys(THREADS, 1)
        rest = self.kernel.body.stmts[position:]
        end = next((i for i, s in enumerate(rest) if isinstance(s, Boundary)), len(rest))
        for site in walk(Block(rest[:end])):
            if isinstance(site.stmt, For) and site.stmt.kind.is_thread:
                n = self.index(site.stmt.extent, dict(self.sizes))
                self.block_extent[site.stmt.kind] = max(self.block_extent[site.stmt.kind], n)

    def index(self, e: Expr, env: dict[str, int]) -> Any:
        match e:
            case Const():
                return e.value
            case Var():
                return env[e.name]
            case Binary():
                return _ARITHMETIC[e.op](self.index(e.lhs, env), self.index(e.rhs, env))
            case Unary(op=UnaryOp.NOT):
                return not self.index(e.arg, env)
            case Unary(op=UnaryOp.NEG):
                return -self.index(e.arg, env)
            case _:
                raise AssertionError(e)

    def run(self) -> Outcome:
        for position, s in enumerate(self.kernel.body.stmts):
            if isinstance(s, Boundary):
                self.launch(position + 1)
            else:
                self.statement(s, dict(self.sizes), {})
        for b in self.kernel.buffers:
            for cell in product(*(range(self.index(x, self.sizes)) for x in b.extents)):
                self.out.cells[b.name, cell] = self.memory.get(("g", b.name, cell), ("in", b.name, cell))
        for seen in self.touched.values():
            self._race(seen)
        return self.out

    def _race(self, seen: list[tuple[tuple[int, ...], tuple[int, ...], int, bool]]) -> None:
        for i, (block, thread, epoch, writes) in enumerate(seen):
            for other, thread2, epoch2, writes2 in seen[i + 1 :]:
                if (writes or writes2) and (block != other or (thread != thread2 and epoch == epoch2)):
                    self.out.faults.add("race")
                    return

    def block(self, b: Block, env: dict[str, int], axes: dict[LoopKind, int]) -> None:
        for s in b.stmts:
            self.statement(s, env, axes)

    def statement(self, s: Stmt, env: dict[str, int], axes: dict[LoopKind, int]) -> None:
        match s:
            case Block():
                self.block(s, env, axes)
            case If():
                taken = s.body if self.index(s.cond, env) else s.orelse
                self.block(taken, env, axes)
            case For() if s.kind.is_thread and any(isinstance(x, Barrier) for x in s.body.stmts):
                raise AssertionError("barriers under thread loops are not for this judge")
            case For():
                if s.kind is LoopKind.COMBINE_BLOCK:
                    self.barrier(axes)
                for i in range(self.index(s.extent, env)):
                    inner = {**axes, s.kind: i} if s.kind.is_thread or s.kind.is_grid else axes
                    self.combining = i if s.kind.is_combine else None
                    self.block(s.body, {**env, s.var: i}, inner)
                self.combining = None
            case Alloc():
                self.forget(s.buffer.name, axes)
            case Barrier():
                self.barrier(axes)
            case Store() | Reduce():
                self.leaf(s, env, axes)

    def barrier(self, axes: dict[LoopKind, int]) -> None:
        self.epoch[tuple(axes.get(a, 0) for a in GRIDS)] += 1

    def forget(self, name: str, axes: dict[LoopKind, int]) -> None:
        """Contents are undefined where a declaration is passed: for the threads that pass it."""
        grid = tuple(axes.get(a, 0) for a in GRIDS)
        register = self.buffers[name].space is Space.REGISTER
        fixed = {THREADS.index(a): axes[a] for a in THREADS if a in axes} if register else {}
        for key in [k for k in self.memory if k[1] == name and k[0] == "l"]:
            if key[2] == grid and all(key[3][i] == v for i, v in fixed.items()):
                del self.memory[key]

    def leaf(self, s: Store | Reduce, env: dict[str, int], axes: dict[LoopKind, int]) -> None:
        register = self.buffers[s.buffer].space is Space.REGISTER
        spread = []
        for a in THREADS:
            if a in axes:
                spread.append([axes[a]])
            else:
                spread.append(list(range(self.block_extent[a])) if register else [0])
        threads = list(product(*spread))
        values = [self.value(s.value, env, axes, t) for t in threads]
        for t, v in zip(threads, values, strict=True):
            key = self.cell(s.buffer, s.indices, env, axes, t, writes=True)
            if isinstance(s, Store):
                self.memory[key] = v
            else:
                self.memory[key] = combine(s, self.content(key, s.buffer), v, self.out.faults)

    def cell(
        self,
        buffer: str,
        indices: tuple[Expr, ...],
        env: dict[str, int],
        axes: dict[LoopKind, int],
        thread: tuple[int, ...],
        *,
        writes: bool,
    ) -> Any:
        b = self.buffers[buffer]
        where = tuple(self.index(i, env) for i in indices)
        for i, extent in zip(where, b.extents, strict=True):
            if not 0 <= i < self.index(extent, env):
                self.out.faults.add("bounds")
        grid = tuple(axes.get(a, 0) for a in GRIDS)
        if b.space is Space.REGISTER:
            return ("l", buffer, grid, thread, where)
        key: Any = ("g", buffer, where) if b.space is Space.GLOBAL else ("l", buffer, grid, (), where)
        self.touched.setdefault(key, []).append((grid, thread, self.epoch[grid], writes))
        return key

    def content(self, key: Any, buffer: str) -> Value:
        if key in self.memory:
            return self.memory[key]
        return ("in", buffer, key[2]) if buffer in self.given else ("undefined",)

    def value(
        self, e: Expr, env: dict[str, int], axes: dict[LoopKind, int], thread: tuple[int, ...]
    ) -> Value:
        if e.dtype is DType.INDEX:
            return self.index(e, env)
        match e:
            case Const():
                return ("const", repr(e.value))
            case Var():
                return ("scalar", e.name)
            case Load():
                if self.combining is not None and self.buffers[e.buffer].space is Space.REGISTER:
                    thread = (self.combining, *thread[1:])
                key = self.cell(e.buffer, e.indices, env, axes, thread, writes=False)
                got = self.content(key, e.buffer)
                if got == ("undefined",):
                    self.out.faults.add("undefined")
                return got
            case Binary():
                return (
                    e.op.value,
                    self.value(e.lhs, env, axes, thread),
                    self.value(e.rhs, env, axes, thread),
                )
            case Call():
                return (e.fn, *(self.value(a, env, axes, thread) for a in e.args))
            case Cast():
                return ("cast", e.dtype.value, self.value(e.arg, env, axes, thread))
            case Unary():
                return (e.op.value, self.value(e.arg, env, axes, thread))
            case Select():
                return self.value(e.then if self.index(e.cond, env) else e.orelse, env, axes, thread)


@dataclass(frozen=True)
class Sum:
    """base (+) contributions."""

    monoid: str
    base: Value
    parts: frozenset[tuple[Value, int]]


def combine(s: Reduce, old: Value, new: Value, faults: set[str]) -> Value:
    """Adds `new` to `old`; a partial that starts at the identity is dissolved into its parts."""
    name = s.monoid.name
    identity = ("const", repr(s.monoid.identity(s.value.dtype)))
    parts: Counter[Value] = Counter()
    base = old
    if old == ("undefined",):
        faults.add("undefined")
    if isinstance(old, Sum) and old.monoid == name:
        base = old.base
        parts.update(dict(old.parts))
    if isinstance(new, Sum) and new.monoid == name and new.base == identity and s.origin is None:
        parts.update(dict(new.parts))
    elif new == identity and s.origin is None:
        pass
    else:
        parts[new] += 1
    if not parts:
        return base
    return Sum(name, base, frozenset(parts.items()))


def outcome(kernel: Kernel, sizes: dict[str, int]) -> Outcome:
    """Runs the kernel at these sizes."""
    return Run(kernel, sizes).run()


def holds(kernel: Kernel, sizes: dict[str, int]) -> bool:
    """Whether the sizes satisfy the kernel's assumptions."""
    r = Run(kernel, sizes)
    return all(bool(r.index(a, dict(sizes))) for a in kernel.assumptions)


def same(source: Kernel, target: Kernel, sizes: dict[str, int]) -> bool:
    """Whether the target computes what the source computes, without faults, at these sizes."""
    got = outcome(target, sizes)
    want = outcome(source, sizes)
    return not got.faults and got.cells == want.cells
