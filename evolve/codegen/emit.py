"""One scheduled kernel as a `__global__` function.

How loops map: GRID_* loops are blockIdx, THREAD_* loops threadIdx (with a guard where the loop is
shorter than the block), VECTOR loops wide accesses (`emit_vector`), COMBINE_* loops calls of
`collectives`. Statements outside thread loops run in every thread when they write registers, and in
thread 0 of the axes they are not spread over when they write memory. Nothing returns early, so every
thread reaches every barrier that the IR has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evolve.codegen.collectives import Collectives, combined
from evolve.codegen.ctext import ExprText, literal
from evolve.codegen.ctree import Node, branch, line, scope
from evolve.codegen.errors import CodegenError
from evolve.codegen.hoist import hoist_guards
from evolve.codegen.names import Names
from evolve.codegen.rendered import Dims, LineOrigin, Param
from evolve.codegen.sizes import Magnitudes
from evolve.ir.affine import Ranges, simplify
from evolve.ir.expr import Const, Expr, Load, add, index, mul
from evolve.ir.kernel import Kernel
from evolve.ir.layout import LayoutError, register_layouts, slot_of
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Barrier, Block, Buffer, For, If, Leaf, Reduce, Stmt, Store
from evolve.ir.types import DType, LoopKind, Monoid, Space
from evolve.ir.visit import (
    children,
    leaves,
    loads,
    local_buffers,
    substitute,
    substitute_block,
    variables,
    walk,
)

GRID_AXES = (LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.GRID_Z)
THREAD_AXES = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z)
THREAD_NAMES = {LoopKind.THREAD_X: "tx", LoopKind.THREAD_Y: "ty", LoopKind.THREAD_Z: "tz"}
MAX_GRID = {LoopKind.GRID_X: 2**31 - 1, LoopKind.GRID_Y: 65535, LoopKind.GRID_Z: 65535}

LINE = 110

Path = tuple[For | If, ...]


@dataclass(frozen=True)
class Place:
    """Where a statement is emitted: what encloses it, and in which lane of which VECTOR loop."""

    path: Path = ()
    lane: tuple[str, int] | None = None
    wide: Mapping[Load, str] = field(default_factory=dict)
    """Loads that are lanes of a vector already read: the name of that vector."""
    per_lane: frozenset[str] = frozenset()
    """Register buffers that have one copy a lane."""

    @property
    def loops(self) -> tuple[For, ...]:
        return tuple(p for p in self.path if isinstance(p, For))

    def below(self, step: For | If) -> Place:
        return replace(self, path=(*self.path, step))


@dataclass(frozen=True)
class EmittedKernel:
    """The function's lines and what its launch needs."""

    nodes: tuple[Node, ...]
    params: tuple[Param, ...]
    grid: Dims
    block: Dims
    guards: tuple[Expr, ...]


class KernelEmitter:
    """Emits one kernel. Raises CodegenError for a schedule that has no rendering."""

    def __init__(self, kernel: Kernel, name: str, names: Names, collectives: Collectives) -> None:
        fixed = _fixed_sizes(kernel)
        body = hoist_guards(substitute_block(kernel.body, fixed))
        buffers = tuple(
            replace(b, extents=tuple(simplify(substitute(e, fixed)) for e in b.extents))
            for b in kernel.buffers
        )
        self.kernel = replace(kernel, body=body, buffers=buffers)
        self.name = name
        self.names = names
        self.collectives = collectives
        self.sizes = ranges_at(self.kernel)
        ints = [s.name for s in kernel.scalars if s.dtype is DType.I32]
        self.magnitudes = Magnitudes(self.sizes, ints)
        self.buffers: dict[str, Buffer] = {b.name: b for b in buffers} | local_buffers(body)
        try:
            self.layouts = register_layouts(self.kernel)
        except LayoutError as e:
            raise CodegenError(e.message) from e
        self.written = {leaf.buffer for leaf, _ in leaves(body)}
        self.block = self._block_dims()
        self.grid: dict[LoopKind, Expr] = {}
        self.shared: list[Node] = []
        self.grid_lines: list[Node] = []
        self._check_grid(body, ())
        for b in kernel.params:
            names.of(b)
        for loop in (s.stmt for s in walk(body) if isinstance(s.stmt, For)):
            if loop.kind.is_thread:
                names.alias(loop.var, THREAD_NAMES[loop.kind])
            elif loop.kind.is_combine:
                names.alias(loop.var, "tx")

    # ---- the whole function

    def emit(self) -> EmittedKernel:
        body = self.statements(self.kernel.body, Place())
        head = [*self._thread_lines(body), *self.grid_lines]
        inside = [*self._size_lines(), *self.shared, *head]
        if inside and body:
            inside.append(line(""))
        inside += body
        header = f'extern "C" __global__ void {self._bounds()} {self.name}({self._parameters()})'
        before: tuple[str, ...] = ()
        if len(header) > LINE:
            before = (f'extern "C" __global__ void {self._bounds()} {self.name}(',)
            before += tuple(f"    {p}," for p in self._parameters().split(", "))
            before = (*before[:-1], before[-1][:-1])
            header = ")"
        guards = [*self.magnitudes.guards()]
        dims = []
        for axis in GRID_AXES:
            extent = self.grid.get(axis, index(1))
            dims.append(extent)
            limit = self.magnitudes.at_most(extent, MAX_GRID[axis])
            if limit is not None and axis is not LoopKind.GRID_X:
                guards.append(limit)
        x, y, z = (index(self.block[a]) for a in THREAD_AXES)
        return EmittedKernel(
            (scope(header, inside, before=before),),
            self._params(),
            (dims[0], dims[1], dims[2]),
            (x, y, z),
            tuple(guards),
        )

    def _params(self) -> tuple[Param, ...]:
        out = []
        globals_ = {b.name: b for b in self.kernel.buffers}
        for name in self.kernel.params:
            if name in globals_:
                out.append(Param(name, globals_[name].dtype, True, name not in self.written))
            else:
                out.append(Param(name, self.kernel.scalar(name).dtype, False))
        return tuple(out)

    def _parameters(self) -> str:
        parts = []
        for p in self._params():
            if p.is_pointer:
                const = "const " if p.is_const else ""
                parts.append(f"{const}{p.dtype.c_name}* __restrict__ {self.names.of(p.name)}")
            else:
                parts.append(f"{p.dtype.c_name} {self._scalar_parameter(p)}")
        return ", ".join(parts)

    def _scalar_parameter(self, p: Param) -> str:
        """The parameter's own name; a size of another width gets an `int` copy under the short name."""
        s = self.kernel.scalar(p.name)
        if s.is_size and s.dtype is not DType.I32:
            return self.names.of(f"{p.name}_arg")
        return self.names.of(p.name)

    def _size_lines(self) -> list[Node]:
        out = []
        for p in self._params():
            if not p.is_pointer:
                name = self._scalar_parameter(p)
                if name != self.names.of(p.name):
                    # The launch guard says that it fits.
                    out.append(line(f"const int {self.names.of(p.name)} = (int){name};"))
                    self.magnitudes.require(_size(p.name), {})
        return out

    def _bounds(self) -> str:
        threads = 1
        for n in self.block.values():
            threads *= n
        if self.kernel.max_threads and self.kernel.max_threads < threads:
            raise CodegenError(
                f"launch_bounds({self.kernel.max_threads}) is less than the {threads} threads of a block"
            )
        more = f", {self.kernel.min_blocks}" if self.kernel.min_blocks else ""
        return f"__launch_bounds__({threads}{more})"

    def _thread_lines(self, body: list[Node]) -> list[Node]:
        text = "\n".join(_texts(body))
        out = []
        for axis, name in THREAD_NAMES.items():
            if re.search(rf"\b{name}\b", text):
                out.append(line(f"const int {name} = threadIdx.{axis.value[-1]};"))
        return out

    # ---- geometry

    def _block_dims(self) -> dict[LoopKind, int]:
        dims = dict.fromkeys(THREAD_AXES, 1)
        for site in walk(self.kernel.body):
            loop = site.stmt
            if isinstance(loop, For) and loop.kind.is_thread:
                extent = simplify(loop.extent, ranges_at(self.kernel, site.path))
                if not isinstance(extent, Const):
                    raise CodegenError(
                        f"thread loop {loop.var} has extent {print_expr(extent)}, which is not a constant",
                        hint="split it by a constant first",
                    )
                dims[loop.kind] = max(dims[loop.kind], int(extent.value))
        return dims

    def _check_grid(self, block: Block, above: tuple[For | If, ...]) -> None:
        """Grid loops form one chain, above every other loop, with nothing but declarations beside them."""
        holders = [s for s in block.stmts if any(_is_grid(x.stmt) for x in walk(Block((s,))))]
        if not holders:
            return
        others = [s for s in block.stmts if s is not holders[0] and not isinstance(s, Alloc)]
        if others:
            raise CodegenError("a statement stands beside a grid loop, so every block would run it")
        inner = holders[0]
        if isinstance(inner, If):
            if inner.orelse.stmts:
                raise CodegenError("a grid loop stands in one side of a condition that has two")
            self._check_grid(inner.body, (*above, inner))
            return
        if not isinstance(inner, For):
            raise CodegenError("a grid loop is not part of the kernel's outermost loops")
        if not inner.kind.is_grid:
            raise CodegenError(
                f"loop {inner.var} is outside a grid loop", hint="reorder the grid loop outwards"
            )
        if inner.kind in self.grid:
            raise CodegenError(f"two loops are bound to {inner.kind.value}")
        extent = simplify(inner.extent, ranges_at(self.kernel, above))
        scalars = {s.name for s in self.kernel.scalars}
        if not variables(extent) <= scalars:
            raise CodegenError(f"the extent of grid loop {inner.var} depends on another loop")
        self.grid[inner.kind] = extent
        self._check_grid(inner.body, (*above, inner))

    # ---- statements

    def statements(self, block: Block, place: Place) -> list[Node]:
        """The statements of a block, declarations merged with the first value where they meet."""
        out: list[Node] = []
        for s in block.stmts:
            for node in self.statement(s, place):
                before = out[-1] if out else None
                if before is not None and _declares(before, node):
                    decl = before.text[:-1]
                    value = node.text.split(" = ", 1)[1]
                    out[-1] = line(f"{decl} = {value}", node.origin)
                else:
                    out.append(node)
        return out

    def statement(self, s: Stmt, place: Place) -> list[Node]:
        match s:
            case Block():
                return self.statements(s, place)
            case For():
                return self.loop(s, place)
            case If():
                return self.condition(s, place)
            case Alloc():
                return self.declare(s.buffer, place)
            case Barrier():
                return [line("__syncthreads();")]
            case Store() | Reduce():
                return self.owned(s, place, [self.leaf(s, place)])

    def condition(self, s: If, place: Place) -> list[Node]:
        cond = simplify(s.cond, self.ranges(place))
        inner = place.below(s)
        if isinstance(cond, Const):
            return self.statements(s.body if cond.value else s.orelse, inner)
        body = self.statements(s.body, inner)
        orelse = self.statements(s.orelse, inner)
        if not body and not orelse:
            return []
        return [branch(self.conditions(cond, place), body, _origin(s, place), orelse)]

    def loop(self, s: For, place: Place) -> list[Node]:
        inner = place.below(s)
        if s.kind.is_grid:
            extent = simplify(s.extent, self.ranges(place))
            self.require(extent, place)
            note = f"  // {s.note}" if s.note else ""
            name = self.names.of(s.var)
            self.grid_lines.append(
                line(f"const int {name} = blockIdx.{s.kind.value[-1]};{note}", _origin(s, place))
            )
            return self.statements(s.body, inner)
        if s.kind.is_combine:
            return self.combine(s, place)
        if s.kind.is_thread:
            nodes = self.statements(s.body, inner)
            if self.extent(s, place) < self.block[s.kind] and nodes:
                n = self.extent(s, place)
                nodes = [branch((f"{THREAD_NAMES[s.kind]} < {n}",), nodes, _origin(s, place))]
            return self._noted(s, place, nodes)
        if s.kind is LoopKind.VECTOR:
            from evolve.codegen.emit_vector import vector_loop

            return self._noted(s, place, vector_loop(self, s, place))
        return self._noted(s, place, self.sequential(s, place))

    def sequential(self, s: For, place: Place) -> list[Node]:
        """A `for` statement, unrolled where asked for or where it indexes registers."""
        inner = place.below(s)
        extent = simplify(s.extent, self.ranges(place))
        body = self.statements(s.body, inner)
        if not body:
            return []
        if extent == index(1):
            return body if not any(_is_declaration(n) for n in body) else [scope("", body)]
        self.require(extent, place)
        v = self.names.of(s.var)
        bound = self.text(place).text(extent, 8)
        unroll = s.kind in (LoopKind.UNROLL, LoopKind.VECTOR) or self._indexes_registers(s, inner)
        if self._indexes_registers(s, inner) and not isinstance(extent, Const):
            raise CodegenError(f"loop {s.var} indexes registers and its extent is not a constant")
        header = f"for (int {v} = 0; {v} < {bound}; ++{v})"
        before = ("#pragma unroll",) if unroll else ()
        outside, inside = _loop_invariant(body, v)
        node = scope(header, inside, _origin(s, place), before)
        return [branch(outside, [node], _origin(s, place))] if outside else [node]

    def _noted(self, s: For, place: Place, nodes: list[Node]) -> list[Node]:
        """A comment with the transforms that made the nest, above its outermost loop."""
        above = place.path[-1] if place.path else None
        if isinstance(above, For) and not above.kind.is_grid and len(above.body.stmts) == 1:
            return nodes
        notes: list[str] = []
        at: Stmt = s
        while isinstance(at, For):
            if at.note and at.note not in notes:
                notes.append(at.note)
            at = at.body.stmts[0] if len(at.body.stmts) == 1 else Block(())
            while isinstance(at, If) and len(at.body.stmts) == 1:
                at = at.body.stmts[0]
        if notes and nodes:
            return [line(f"// {'; '.join(notes)}", _origin(s, place)), *nodes]
        return nodes

    def _indexes_registers(self, s: For, inner: Place) -> bool:
        for leaf, site in leaves(s.body):
            touched = [(leaf.buffer, leaf.indices)]
            touched += [(x.buffer, x.indices) for e in (leaf.value, *leaf.indices) for x in loads(e)]
            at = replace(inner, path=(*inner.path, *site.path))
            for buffer, indices in touched:
                if buffer in self.layouts and any(
                    s.var in variables(i) for i in self.slots(buffer, indices, at)
                ):
                    return True
        return False

    def owned(self, s: Leaf, place: Place, nodes: list[Node]) -> list[Node]:
        """Writes to memory outside some thread axis are made by its first thread only."""
        if self.buffers[s.buffer].space is Space.REGISTER:
            return nodes
        spread = {x.kind for x in place.loops}
        alone = tuple(f"{THREAD_NAMES[a]} == 0" for a in THREAD_AXES if self.block[a] > 1 and a not in spread)
        return [branch(alone, nodes, _origin(s, place))] if alone else nodes

    def leaf(self, s: Leaf, place: Place) -> Node:
        target = self.access(s.buffer, s.indices, place)
        value = self.value(s.value, place)
        if isinstance(s, Store):
            return line(f"{target} = {value};", _origin(s, place))
        return line(self.accumulate(s.monoid, s.value.dtype, target, value), _origin(s, place))

    def accumulate(self, monoid: Monoid, dtype: DType, target: str, value: str) -> str:
        if monoid.name == "sum":
            return f"{target} += {value};"
        if monoid.name == "prod":
            return f"{target} *= {value};"
        if dtype.is_float:
            return f"{target} = {combined(monoid, dtype, target, value)};"
        sign = "<" if monoid.name == "min" else ">"
        return f"{{ const {dtype.c_name} value = {value}; if (value {sign} {target}) {target} = value; }}"

    def declare(self, b: Buffer, place: Place) -> list[Node]:
        name = self.names.of(b.name)
        if b.space is Space.SHARED:
            dims = "".join(f"[{n}]" for n in self.shared_dims(b))
            self.shared.append(line(f"__shared__ __align__(16) {b.dtype.c_name} {name}{dims or '[1]'};"))
            return []
        dims = "".join(f"[{n}]" for n in self.layouts[b.name].slots if n != 1)
        if b.name in place.per_lane:
            assert place.lane is not None
            dims += f"[{place.lane[1]}]"
        return [line(f"{b.dtype.c_name} {name}{dims};")]

    def shared_dims(self, b: Buffer) -> tuple[int, ...]:
        out = []
        for i, e in enumerate(b.extents):
            n = simplify(e, self.sizes)
            if not isinstance(n, Const):
                raise CodegenError(
                    f"shared buffer {b.name} has extent {print_expr(n)}, which is not a constant",
                    hint="specialize the size or tile the loop first",
                )
            out.append(int(n.value) + (b.padding[i] if b.padding else 0))
        return tuple(out)

    def combine(self, s: For, place: Place) -> list[Node]:
        """All threads combine their partials; see `collectives`."""
        step = s.body.stmts[0] if len(s.body.stmts) == 1 else None
        if not isinstance(step, Reduce):
            raise CodegenError(f"combine loop {s.var} holds more than one reduction")
        dtype, width, extent = step.value.dtype, self.block[LoopKind.THREAD_X], self.extent(s, place)
        inner = place.below(s)
        value = self.value(step.value, inner)
        origin = _origin(step, place)
        if extent < width and s.kind is LoopKind.COMBINE_BLOCK:
            value = f"tx < {extent} ? {value} : {literal(step.monoid.identity(dtype), dtype)}"
        after: list[Node] = []
        if s.kind is LoopKind.COMBINE_WARP:
            if extent != width:
                raise CodegenError(
                    f"warp reduction {s.var} combines {extent} partials in a block {width} wide along x"
                )
            call = f"{self.collectives.warp(step.monoid, dtype, extent)}({value})"
        else:
            function, elements = self.collectives.block(step.monoid, dtype, width)
            rows = self.block[LoopKind.THREAD_Y] * self.block[LoopKind.THREAD_Z]
            scratch = self.names.fresh(f"{self.names.of(step.buffer)}_scratch")
            dims = f"[{rows}][{elements}]" if rows > 1 else f"[{elements}]"
            self.shared.append(line(f"__shared__ {dtype.c_name} {scratch}{dims};"))
            row = "ty" if self.block[LoopKind.THREAD_Z] == 1 else f"ty + {self.block[LoopKind.THREAD_Y]} * tz"
            call = f"{function}({value}, {scratch}{f'[{row}]' if rows > 1 else ''})"
            if any(x.kind.is_sequential or x.kind is LoopKind.PARALLEL for x in place.loops):
                after = [line(f"__syncthreads();  // {scratch} is written again")]
        target = self.access(step.buffer, step.indices, place)
        note = [line(f"// {s.note}", origin)] if s.note else []
        if self.buffers[step.buffer].space is Space.REGISTER:
            text = self.accumulate(step.monoid, dtype, target, call)
            return [*note, line(text, origin), *after]
        total = self.names.fresh("total")
        kept = [line(self.accumulate(step.monoid, dtype, target, total), origin)]
        return [
            *note,
            line(f"const {dtype.c_name} {total} = {call};", origin),
            *self.owned(step, place, kept),
            *after,
        ]

    # ---- expressions

    def ranges(self, place: Place) -> Ranges:
        return ranges_at(self.kernel, place.path)

    def extent(self, s: For, place: Place) -> int:
        e = simplify(s.extent, self.ranges(place))
        if not isinstance(e, Const):
            raise CodegenError(f"loop {s.var} ({s.kind.value}) needs a constant extent, has {print_expr(e)}")
        return int(e.value)

    def text(self, place: Place) -> ExprText:
        def name(n: str) -> str:
            if place.lane is not None and n == place.lane[0]:
                return str(place.lane[1])
            return self.names.of(n)

        def load(x: Load) -> str:
            if x in place.wide and place.lane is not None:
                return f"{place.wide[x]}.{'xyzw'[place.lane[1]]}"
            return self.access(x.buffer, x.indices, place)

        return ExprText(name, load, self.ranges(place))

    def value(self, e: Expr, place: Place) -> str:
        """The text of a value; its index parts are simplified and counted for the launch guard."""
        e = simplify(e, self.ranges(place))
        self._require_parts(e, place)
        return self.text(place).text(e)

    def conditions(self, cond: Expr, place: Place) -> tuple[str, ...]:
        self._require_parts(cond, place)
        return self.text(place).conditions(cond)

    def require(self, e: Expr, place: Place) -> None:
        self.magnitudes.require(e, {x.var: x.extent for x in place.loops})

    def _require_parts(self, e: Expr, place: Place) -> None:
        if e.dtype is DType.INDEX:
            self.require(e, place)
        elif not isinstance(e, Load):
            for part in children(e):
                self._require_parts(part, place)

    def resolve(self, e: Expr, place: Place) -> Expr:
        """Simplified, with the lane and loops of one iteration put in."""
        by: dict[str, Expr] = {}
        for step in place.loops:
            if step.extent == index(1):
                by[step.var] = index(0)
        if place.lane is not None:
            by[place.lane[0]] = index(place.lane[1])
        ranges = self.ranges(place)
        return simplify(substitute(simplify(e, ranges), by), ranges)

    def slots(self, buffer: str, indices: tuple[Expr, ...], place: Place) -> tuple[Expr, ...]:
        try:
            return slot_of(self.layouts[buffer], indices, place.loops, self.ranges(place))
        except LayoutError as e:
            raise CodegenError(e.message) from e

    def offset(self, b: Buffer, indices: tuple[Expr, ...], place: Place) -> Expr:
        """The row-major element offset of a global or shared access, simplified, its lane left in."""
        out: Expr | None = None
        for i, subscript in enumerate(indices):
            if out is not None:
                extent = b.extents[i] if not b.padding else add(b.extents[i], b.padding[i])
                out = add(mul(out, extent), subscript)
            else:
                out = subscript
        return simplify(index(0) if out is None else out, self.ranges(place))

    def access(self, buffer: str, indices: tuple[Expr, ...], place: Place) -> str:
        """The element as an lvalue."""
        b = self.buffers[buffer]
        name = self.names.of(buffer)
        text = self.text(place)
        if b.space is Space.REGISTER:
            slots = self.slots(buffer, indices, place)
            parts = [
                self.resolve(e, place)
                for e, n in zip(slots, self.layouts[buffer].slots, strict=True)
                if n != 1
            ]
            out = name + "".join(f"[{text.text(e)}]" for e in parts)
            if buffer in place.per_lane:
                assert place.lane is not None
                out += f"[{place.lane[1]}]"
            return out
        if b.space is Space.SHARED:
            parts = [self.resolve(e, place) for e in indices]
            for e in parts:
                self._require_parts(e, place)
            return name + ("".join(f"[{text.text(e)}]" for e in parts) or "[0]")
        flat = self.resolve(self.offset(b, indices, place), place)
        self.require(flat, place)
        return f"{name}[{text.text(flat)}]"


def _size(name: str) -> Expr:
    from evolve.ir.expr import var

    return var(name)


def _fixed_sizes(kernel: Kernel) -> dict[str, Expr]:
    ranges = ranges_at(kernel)
    out: dict[str, Expr] = {}
    for s in kernel.scalars:
        low, high = ranges.of(s.name)
        if s.is_size and low is not None and low == high:
            out[s.name] = index(low)
    return out


def _is_grid(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind.is_grid


def _origin(s: Stmt, place: Place) -> LineOrigin:
    loops = place.loops
    stmt = s.origin.stmt if isinstance(s, Store | Reduce) and s.origin is not None else None
    span = s.span if isinstance(s, For | If | Store | Reduce) else None
    loop = s.var if isinstance(s, For) else loops[-1].var if loops else None
    note = s.note if isinstance(s, For) else loops[-1].note if loops else ""
    return LineOrigin(stmt, loop, note, span.line if span is not None else None)


_DECLARATION = re.compile(r"(?:\w+ )+(\w+);$")


def _is_declaration(n: Node) -> bool:
    return (
        n.body is None
        and re.match(r"(?:const )?\w+(?: \w+)? \w+(?:\[\d+\])*(?: = .*)?;$", n.text) is not None
    )


def _declares(before: Node, node: Node) -> bool:
    """Whether `before` declares the scalar that `node` gives its first value."""
    if before.body is not None or node.body is not None:
        return False
    m = _DECLARATION.match(before.text)
    return m is not None and node.text.startswith(f"{m[1]} = ") and before.text.count(" ") <= 2


def _loop_invariant(body: list[Node], variable: str) -> tuple[tuple[str, ...], list[Node]]:
    """Conditions to test before the loop, and its body without them.

    Holds for a body that is one `if` without an else side. A condition that reads memory stays.
    """
    only = body[0] if len(body) == 1 else None
    if only is None or not only.cond or only.orelse or only.body is None:
        return (), body
    out = tuple(c for c in only.cond if "[" not in c and not re.search(rf"\b{variable}\b", c))
    kept = tuple(c for c in only.cond if c not in out)
    if not out:
        return (), body
    return out, [replace(only, cond=kept)] if kept else only.body


def _texts(nodes: list[Node]) -> list[str]:
    out: list[str] = []
    for n in nodes:
        out += [n.text, *n.cond]
        out += _texts(n.body or []) + _texts(n.orelse)
    return out
