"""A kernel as the Python generator that one thread of it is: the part of `judge` that knows the IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Find, Load, Select, Unary, Var, add
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Barrier, Block, Buffer, Commit, For, If, Leaf, Reduce, Stmt, Store, Wait
from evolve.ir.types import Cache, DType, LoopKind, Space
from evolve.ir.visit import subexpressions, variables, walk
from evolve.workload.model import FAST_CONTRACTS, Contract

THREADS = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z)
GRIDS = (LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.GRID_Z)
AXES = dict(zip((*GRIDS, *THREADS), ("bx", "by", "bz", "tx", "ty", "tz"), strict=True))
SERIAL = (LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.UNROLL, LoopKind.VECTOR)
HALF = 1 << 63


class UnjudgedError(Exception):
    """There is no meaning here for what the kernel does, or it would take too long."""


def combine(monoid: str, identity: int, old: Any, new: Any) -> Any:
    """Two values combined: contributions that are combinations themselves are taken apart."""
    if monoid in ("sum", "prod"):
        if type(old) is tuple and type(new) is int and old[0] == monoid and new != identity:
            return (monoid, (old[1] + new + HALF) % (2 * HALF) - HALF, old[2] + 1)
        total, count = 0, 0
        for v in (old, new):
            if isinstance(v, tuple) and v[0] == monoid:
                total, count = total + v[1], count + v[2]
            elif v != identity:
                total, count = total + plain(v), count + 1
        total = (total + HALF) % (2 * HALF) - HALF  # as hashes are: one contribution is what it was
        return identity if count == 0 else total if count == 1 else (monoid, total, count)
    parts: frozenset[int] = frozenset()
    for v in (old, new):
        if isinstance(v, tuple) and v[0] == monoid:
            parts |= v[1]
        elif v != identity:
            parts |= {plain(v)}
    return identity if not parts else next(iter(parts)) if len(parts) == 1 else (monoid, parts)


def plain(v: Any) -> int:
    """One number for a value."""
    return v if isinstance(v, int) else hash(v)


class Whole(int):
    """A known integer: an element of an index array."""


def whole(v: Any) -> int:
    """The integer that is read to be an index. Raises UnjudgedError for one that is not known."""
    if not isinstance(v, Whole):
        raise UnjudgedError("an index that is not from an index array")
    return int(v)


def name(prefix: str, n: str) -> str:
    return f"{prefix}_" + "".join(c if c.isalnum() else f"_{ord(c)}_" for c in n)


def index_text(e: Expr, read: Callable[[Load], str] | None = None) -> str:
    """An INDEX expression or a condition over such in Python; `read` gives what loads read."""

    def text(x: Expr) -> str:
        return index_text(x, read)

    match e:
        case Const():
            return f"({e.value!r})"
        case Var():
            return name("v", e.name)
        case Binary(op=BinaryOp.MIN | BinaryOp.MAX):
            return f"{e.op.value}({text(e.lhs)}, {text(e.rhs)})"
        case Binary():
            return f"({text(e.lhs)} {'%' if e.op is BinaryOp.MOD else e.op.value} {text(e.rhs)})"
        case Unary():
            return f"({e.op.value} {text(e.arg)})"
        case Select():
            return f"({text(e.then)} if {text(e.cond)} else {text(e.orelse)})"
        case Cast(arg=Load() as load, dtype=DType.INDEX):
            if read is None:
                raise UnjudgedError("a size that is read from memory")
            return f"whole({read(load)})"
        case Find(buffer=buffer, value=value):
            if read is None:
                raise UnjudgedError("a search of memory")
            r = Var("found")
            ends = (f"whole({read(Load(buffer, (i,), DType.I32))})" for i in (r, add(r, 1)))
            v, inside = name("v", "found"), f" <= {text(value)} < ".join(ends)
            return f"next({v} for {v} in count() if {inside})"
        case _:
            raise UnjudgedError(f"an index made of {type(e).__name__}")


def _is_index(e: Expr) -> bool:
    """Whether a condition is decided by indices alone, or by constants alone."""
    if all(isinstance(x, Const | Binary | Unary) for x in subexpressions(e)):
        return True
    return all(
        x.dtype in (DType.INDEX, DType.BOOL) or isinstance(x, Load) for x in subexpressions(e)
    ) and not any(
        isinstance(x, Load) and x.dtype in (DType.BOOL, DType.F32, DType.F64) for x in subexpressions(e)
    )


class Code:
    """Builds `make(arrays, sizes, now, fine)`, which gives a thread's generator function."""

    def __init__(
        self, kernel: Kernel, *, lockstep: bool, claims: bool = False, contract: Contract = "reassociate"
    ) -> None:
        self.kernel, self.lockstep, self.claims, self.contract = kernel, lockstep, claims, contract
        self.lines: list[str] = []
        self.buffers: dict[str, Buffer] = {b.name: b for b in kernel.buffers}
        self.tags: dict[str, str] = {}
        self.temporaries = 0
        self.sites = 0
        self.impossible = False
        self.writes = {s.stmt.buffer for s in walk(kernel.body) if isinstance(s.stmt, Leaf)}
        self.used = {s.stmt.kind for s in walk(kernel.body) if isinstance(s.stmt, For)}

    def text(self) -> str:
        out = ["def make(A, sizes, now, F):"]
        out += [f" {name('v', s.name)} = sizes.get({s.name!r})" for s in self.kernel.scalars]
        out += [f" {name('g', b.name)} = A[{b.name!r}]" for b in self.kernel.buffers]
        out += [
            " def thread(bx, by, bz, tx, ty, tz, me):",
            "  R, S = now.registers[me], now.shared",
            "  if 0: yield",
        ]
        self.block(self.kernel.body, 2, ())
        if self.impossible:
            out.insert(1, " fail('launch')")
        return "\n".join([*out, *self.lines, " return thread"])

    def block(self, b: Block, depth: int, around: Sequence[For | If]) -> None:
        before = len(self.lines)
        for s in b.stmts:
            self.stmt(s, depth, around)
        if len(self.lines) == before:
            self.put(depth, "pass")

    def refuse(self, depth: int) -> None:
        """No hardware does what stands here, whether a thread comes to it or not."""
        self.impossible = True
        self.put(depth, "pass")

    def put(self, depth: int, line: str) -> None:
        self.lines.append(" " * depth + line)

    def stmt(self, s: Stmt, depth: int, around: Sequence[For | If]) -> None:
        match s:
            case Block():
                self.block(s, depth, around)
            case If():
                if not _is_index(s.cond):
                    raise UnjudgedError("a statement under a condition on data")
                self.put(depth, f"if {self.index(s.cond)}:")
                self.block(s.body, depth + 1, (*around, s))
                self.put(depth, "else:")
                self.block(s.orelse, depth + 1, (*around, s))
            case For():
                self.loop(s, depth, around)
            case Alloc():
                self.alloc(s.buffer, depth, around)
            case Commit():
                self.put(depth, "now.groups[me].append([])")
            case Wait():
                self.put(depth, f"wait(now.groups[me], {s.pending})")
            case Barrier():
                self.put(depth, f"yield ('barrier', {self.site()}, {self.moment(around)})")
            case Store() | Reduce():
                self.leaf(s, depth, around)
            case _:
                raise UnjudgedError(f"the statement {type(s).__name__}")

    def site(self) -> int:
        self.sites += 1
        return self.sites

    @staticmethod
    def moment(around: Sequence[For | If]) -> str:
        """The iterations of the loops that a thread goes through, as a tuple."""
        loops = [x for x in around if isinstance(x, For) and x.kind in SERIAL]
        return "(" + "".join(name("v", x.var) + ", " for x in loops) + ")"

    def loop(self, s: For, depth: int, around: Sequence[For | If]) -> None:
        v, extent = name("v", s.var), self.index(s.extent)
        if s.kind in AXES:
            self.put(depth, f"{v} = {AXES[s.kind]}")
            self.put(depth, f"if {v} < {extent}:")
            self.block(s.body, depth + 1, (*around, s))
        elif s.kind.is_scan:
            self.scan(s, depth, around)
        elif s.kind.is_combine:
            self.combine(s, depth, around)
        elif s.kind is LoopKind.VECTOR and self.lockstep and _flat(s.body):
            self.lanes(s, s.body, depth, around, f"for {v} in range({extent})")
        elif s.kind in SERIAL:
            self.put(depth, f"for {v} in range({extent}):")
            self.block(s.body, depth + 1, (*around, s))
        else:
            raise UnjudgedError(f"the loop kind {s.kind.value}")

    def lanes(self, s: For, b: Block, depth: int, around: Sequence[For | If], lanes: str) -> None:
        """All lanes evaluate a statement before any writes."""
        for x in b.stmts:
            if isinstance(x, Block):
                self.lanes(s, x, depth, around, lanes)
            elif isinstance(x, If):
                if not _is_index(x.cond):
                    raise UnjudgedError("a statement under a condition on data")
                cond = self.index(x.cond)
                self.lanes(s, x.body, depth, around, f"{lanes} if {cond}")
                self.lanes(s, x.orelse, depth, around, f"{lanes} if not {cond}")
            else:
                assert isinstance(x, Store | Reduce)
                here = (*around, s)
                depth_ = self.only(x, depth, here)
                self.put(depth_, f"L = [({self.cell(x.indices)}, {self.stored(x)}) {lanes}]")
                self.claim(x, depth_, lanes)
                self.put(depth_, "for i, w in L:")
                self.write(x, depth_ + 1, "i", "w")

    def combine(self, s: For, depth: int, around: Sequence[For | If]) -> None:
        body = s.body.stmts
        leaf = body[0] if len(body) == 1 else None
        if not isinstance(leaf, Reduce) or not isinstance(leaf.value, Load):
            self.refuse(depth)
            return
        load = leaf.value
        buffer = self.buffers[load.buffer]
        if buffer.space is not Space.REGISTER:
            self.refuse(depth)
            return
        kind = "barrier" if s.kind is LoopKind.COMBINE_BLOCK else "warp"
        after = "block" if kind == "barrier" else "warp"
        n, moment = self.site(), self.moment(around)
        same = not any(isinstance(x, For) and x.kind is LoopKind.THREAD_X for x in around)
        self.put(depth, f"yield ({kind!r}, {n}, {moment})")
        if same and s.var not in frozenset().union(*map(variables, leaf.indices), frozenset()):
            # What is folded is the same for all lanes.
            self.put(depth, f"k = ({n}, {moment}, me - tx)")
            self.put(depth, "if k not in now.folded:")
            self.partials(s, leaf, load, depth + 1)
            identity = self.identity(leaf)
            self.put(depth + 1, f"w = {identity}")
            self.put(depth + 1, f"for i, x in L: w = combine({leaf.monoid.name!r}, {identity}, w, x)")
            self.put(depth + 1, "now.folded[k] = w")
            self.put(depth, f"yield ({after!r}, -{n}, {moment})")
            inner = self.only(leaf, depth, around)
            self.put(inner, f"w = now.folded[{n}, {moment}, me - tx]")
            self.write(leaf, inner, self.cell(leaf.indices), "w")
            return
        self.partials(s, leaf, load, depth)
        self.put(depth, f"yield ({after!r}, -{n}, {moment})")
        inner = self.only(leaf, depth, around)
        self.put(inner, "for i, w in L:")
        self.write(leaf, inner + 1, "i", "w")

    def scan(self, s: For, depth: int, around: Sequence[For | If]) -> None:
        """Each lane in turn keeps the total so far, then adds its partial; every thread has a total."""
        first, leaf = (*s.body.stmts, None, None)[:2]
        if not isinstance(first, Store) or not isinstance(leaf, Reduce) or len(s.body.stmts) != 2:
            self.refuse(depth)
            return
        load = leaf.value
        total = isinstance(first.value, Load) and first.value.buffer == leaf.buffer
        if (
            not total
            or not isinstance(load, Load)
            or not self.private(first.buffer, leaf.buffer, load.buffer)
        ):
            self.refuse(depth)
            return
        block = s.kind.meets_in_block
        n, moment, v = self.site(), self.moment(around), name("v", s.var)
        self.put(depth, f"yield ({'barrier' if block else 'warp'!r}, {n}, {moment})")
        self.put(depth, f"k = ({n}, {moment}, me - tx)")
        self.put(depth, "if k not in now.folded:")
        self.partials(s, leaf, load, depth + 1)
        combined = f"combine({leaf.monoid.name!r}, {self.identity(leaf)}, "
        self.put(depth + 1, f"now.folded[k] = [{self.identity(leaf)}]")
        self.put(depth + 1, f"for i, x in L: now.folded[k].append({combined}now.folded[k][-1], x))")
        self.put(depth, f"yield ({'block' if block else 'warp'!r}, -{n}, {moment})")
        self.put(depth, f"k = now.folded[{n}, {moment}, me - tx]")
        self.put(depth, f"w = R[{leaf.buffer!r}].get({self.cell(leaf.indices)})")
        self.put(depth, "if tx < len(k) - 1:")
        self.put(depth + 1, f"{v} = tx")
        self.put(depth + 1, f"R[{first.buffer!r}].put({self.cell(first.indices)}, {combined}w, k[tx]))")
        self.put(depth, f"R[{leaf.buffer!r}].put({self.cell(leaf.indices)}, {combined}w, k[-1]))")

    def private(self, *buffers: str) -> bool:
        return all(self.buffers[b].space is Space.REGISTER for b in buffers)

    def partials(self, s: For, leaf: Reduce, load: Load, depth: int) -> None:
        """Into L: what each lane holds, and the cell it goes to."""
        v = name("v", s.var)
        self.put(depth, "L = []")
        self.put(depth, f"for {v} in range({self.index(s.extent)}):")
        self.put(depth + 1, f"lane = me - tx + {v}")
        self.put(depth + 1, "if lane >= len(now.registers): raise FaultError('launch')")
        self.put(depth + 1, f"r = now.registers[lane].get({load.buffer!r})")
        self.put(depth + 1, "if r is None: raise FaultError('undefined')")
        self.put(depth + 1, f"L.append(({self.cell(leaf.indices)}, r.get({self.cell(load.indices)})))")

    def identity(self, s: Reduce) -> int:
        dtype = self.buffers[s.buffer].dtype
        return _constant(Const(s.monoid.identity(dtype), dtype))

    def alloc(self, b: Buffer, depth: int, around: Sequence[For | If]) -> None:
        self.buffers[b.name] = b
        shape = "(" + "".join(self.index(e) + ", " for e in b.extents) + ")"
        if b.space is Space.REGISTER:
            self.put(depth, f"R[{b.name!r}] = Local({b.name!r}, {shape}, None)")
            return
        self.tags[b.name] = self.moment(around)
        self.put(depth, f"if {b.name!r} not in S: S[{b.name!r}] = Local({b.name!r}, {shape}, now)")

    def only(self, s: Leaf, depth: int, around: Sequence[For | If]) -> int:
        """Who executes what stands outside thread loops: every thread on its registers, else the first."""
        if self.buffers[s.buffer].space is Space.REGISTER:
            return depth
        bound = {x.kind for x in around if isinstance(x, For)}
        free = [AXES[k] for k in THREADS if k in self.used and k not in bound]
        if not free:
            return depth
        self.put(depth, "if " + " == ".join((*free, "0")) + ":")
        return depth + 1

    def leaf(self, s: Leaf, depth: int, around: Sequence[For | If]) -> None:
        depth = self.only(s, depth, around)
        self.put(depth, f"w = {self.stored(s)}")
        self.claim(s, depth)
        self.write(s, depth, self.cell(s.indices), "w")
        self.put(depth, "if F: yield 'step'")

    def claim(self, s: Leaf, depth: int, lanes: str = "") -> None:
        """What instance of the source a statement claims to be, and the value it computes for that."""
        if not self.claims or s.origin is None:
            return
        shared = self.buffers[s.buffer].space is Space.GLOBAL
        effect = f"{name('g', s.buffer)}.given" if shared else "False"
        said = f"({s.origin.stmt!r}, {self.cell(s.origin.instance)}, {effect}, "
        if lanes:
            self.put(depth, f"now.claims += [{said}plain({self.stored(s)})) {lanes}]")
        else:
            self.put(depth, f"now.claims.append({said}plain(w)))")

    def stored(self, s: Leaf) -> str:
        value, dtype = s.value, self.buffers[s.buffer].dtype
        if value.dtype is not dtype:
            return f"H(('cast', {dtype.value!r}, {self.plain(value)}))"
        value = self.unrounded(value)
        return self.load(value) if isinstance(value, Load) else self.data(value)

    def unrounded(self, e: Expr) -> Expr:
        """An element of an array that may be rounded to bfloat16, and one read from where it was kept so,
        without these conversions."""
        match e:
            case Cast(dtype=DType.BF16, arg=Load() as load) if self.contract == "mixed" and self.is_input(
                load
            ):
                return load
            case Cast(dtype=DType.F32, arg=Load(dtype=DType.BF16) as load):
                return load
            case _:
                return e

    def write(self, s: Leaf, depth: int, cell: str, value: str) -> None:
        where, tag = self.place(s.buffer)
        if isinstance(s, Store) and s.prefetch and not self.is_request(s):
            self.refuse(depth)
        if isinstance(s, Reduce):
            if s.atomic:
                update = f"{cell}, {s.monoid.name!r}, {self.identity(s)}, {value}{tag}"
                self.put(depth, f"{where}.update({update})")
                return
            value = self.added(s, f"{where}.get({cell}{tag})", value)
        elif isinstance(s, Store) and s.asynchronous:
            if self.buffers[s.buffer].space is not Space.SHARED or not self.from_arrays(s.value):
                self.refuse(depth)
                return
            self.put(depth, f"{where}.start({cell}, {value}{tag}, now.groups[me][-1])")
            return
        self.put(depth, f"{where}.put({cell}, {value}{tag})")

    def is_request(self, s: Store) -> bool:
        """Whether an array is asked for, and nobody misses what does not come."""
        read = {
            x.buffer
            for site in walk(self.kernel.body)
            if isinstance(site.stmt, Leaf)
            for e in (site.stmt.value, *site.stmt.indices)
            for x in subexpressions(e)
            if isinstance(x, Load)
        }
        private = self.buffers[s.buffer].space is Space.REGISTER and s.buffer not in read
        return private and self.from_arrays(s.value)

    def is_input(self, e: Load) -> bool:
        """Whether it is an element of an array that the kernel does not write."""
        return self.from_arrays(e) and e.buffer not in self.writes

    def from_arrays(self, e: Expr) -> bool:
        """Whether it is an element of an array that all blocks share."""
        return isinstance(e, Load) and self.buffers[e.buffer].space is Space.GLOBAL

    def added(self, s: Reduce, old: str, new: str) -> str:
        """A cell and one more contribution: where roundings count, a step of a chain."""
        if self.contract == "exact" and s.monoid.name in ("sum", "prod") and s.value.dtype.is_float:
            return f"H(({s.monoid.name!r}, {old}, {new}))"
        return f"combine({s.monoid.name!r}, {self.identity(s)}, {old}, {new})"

    def place(self, buffer: str) -> tuple[str, str]:
        """The array, and the tag under which it is accessed."""
        space = self.buffers[buffer].space
        if space is Space.GLOBAL:
            return name("g", buffer), ""
        if space is Space.REGISTER:
            return f"R[{buffer!r}]", ""
        return f"S[{buffer!r}]", f", {self.tags[buffer]}"

    def cell(self, indices: tuple[Expr, ...]) -> str:
        return "(" + "".join(self.index(i) + ", " for i in indices) + ")"

    def load(self, e: Load) -> str:
        where, tag = self.place(e.buffer)
        if self.buffers[e.buffer].cache is Cache.READ_ONLY and e.buffer in self.writes:
            return "fail('stale')"
        got = f"{where}.get({self.cell(e.indices)}{tag})"
        actual = self.buffers[e.buffer].dtype
        return got if actual is e.dtype else f"H(('cast', {e.dtype.value!r}, {got}))"

    def plain(self, e: Expr) -> str:
        """A data expression as one number: what is loaded may be a reduction's contributions."""
        return f"plain({self.load(e)})" if isinstance(e, Load) else self.data(e)

    def data(self, e: Expr) -> str:
        if e.dtype is DType.INDEX:
            return self.index(e)
        if e.dtype is DType.BOOL and not isinstance(e, Select) and _is_index(e):
            return self.index(e)
        return self.made_of(e)

    def made_of(self, e: Expr) -> str:
        """A data expression that indices alone do not decide."""
        match e:
            case Const():
                return str(_constant(e))
            case Var():
                return str(hash(("scalar", e.name)))
            case Load():
                return self.plain(e)
            case Binary(op=BinaryOp.AND | BinaryOp.OR):
                t = self.temporary()
                decided = "False" if e.op is BinaryOp.AND else "True"
                other = "True" if e.op is BinaryOp.AND else "False"
                rest = self.data(e.rhs)
                return (
                    f"({decided} if ({t} := {self.data(e.lhs)}) is {decided} else {rest} if {t} is {other} "
                    f"else H(({e.op.value!r}, {t}, {rest})))"
                )
            case Binary():
                return f"H(({e.op.value!r}, {self.data(e.lhs)}, {self.data(e.rhs)}))"
            case Unary():
                return f"H(({e.op.value!r}, 'unary', {self.data(e.arg)}))"
            case Call(fn="fast_div") if self.contract in FAST_CONTRACTS:
                return f"H(({BinaryOp.DIV.value!r}, {', '.join(self.data(a) for a in e.args)}))"
            case Call():
                fn = e.fn.removeprefix("fast_") if self.contract in FAST_CONTRACTS else e.fn
                return f"H(({fn!r}, {', '.join(self.data(a) for a in e.args)}))"
            case Cast(dtype=DType.BF16, arg=Load() as load) if self.contract == "mixed" and self.is_input(
                load
            ):
                return self.load(load)
            case Cast(dtype=DType.F32) if e.arg.dtype is DType.BF16:
                return self.data(e.arg)
            case Cast():
                return f"H(('cast', {e.dtype.value!r}, {self.data(e.arg)}))"
            case Select():
                t = self.temporary()
                then, orelse = self.data(e.then), self.data(e.orelse)
                return (
                    f"({then} if ({t} := {self.data(e.cond)}) is True else {orelse} if {t} is False "
                    f"else H(('select', {t}, {then}, {orelse})))"
                )
            case _:
                raise UnjudgedError(f"the expression {type(e).__name__}")

    def index(self, e: Expr) -> str:
        return index_text(e, self.load)

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t_{self.temporaries}"


def _constant(e: Const) -> int:
    return hash(("const", repr(e.value), e.dtype.value))


def _flat(b: Block) -> bool:
    """Only statements and conditions."""
    return all(
        isinstance(s, Store | Reduce)
        or (isinstance(s, Block) and _flat(s))
        or (isinstance(s, If) and _flat(s.body) and _flat(s.orelse))
        for s in b.stmts
    )
