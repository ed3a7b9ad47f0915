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
from dataclasses import dataclass, replace
from math import prod

from evolve.codegen.access import Accesses, fits_int
from evolve.codegen.asynchronous import ASYNCHRONOUS_BYTES, MOST_PENDING
from evolve.codegen.bases import find_bases
from evolve.codegen.collectives import ATOMICS, Collectives, combined
from evolve.codegen.conditions import FITS, Condition
from evolve.codegen.ctext import ExprText
from evolve.codegen.ctree import Node, branch, declares, is_declaration, line, scope, split_invariant, texts
from evolve.codegen.emit_aggregate import aggregated
from evolve.codegen.emit_combine import combine, scan
from evolve.codegen.emit_vector import vector_loop
from evolve.codegen.errors import CodegenError
from evolve.codegen.geometry import GRID_AXES, THREAD_AXES, THREAD_NAMES, block_dims, grid_extents
from evolve.codegen.limits import add_instances, check_askable, check_registers
from evolve.codegen.names import Names, identifiers
from evolve.codegen.place import Place, line_origin
from evolve.codegen.prepare import prepare
from evolve.codegen.remarks import remarks
from evolve.codegen.rendered import Dims, Param
from evolve.codegen.runs import run_update
from evolve.codegen.shared import SharedArray, declarations
from evolve.codegen.signature import opening, params, size_lines
from evolve.codegen.threads import Threads
from evolve.ir.affine import simplify
from evolve.ir.data import reads
from evolve.ir.expr import Const, Find, Load, index, sub
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.stmt import (
    Alloc,
    Barrier,
    Block,
    Boundary,
    Buffer,
    Commit,
    For,
    If,
    Leaf,
    Reduce,
    Stmt,
    Store,
    Wait,
)
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import leaves, loads, loop_sites, variables, walk
from evolve.target.limits import GRID_MOST


@dataclass(frozen=True)
class EmittedKernel:
    """The function's lines and what its launch needs; `shared_bytes` of dynamic shared memory."""

    nodes: tuple[Node, ...]
    params: tuple[Param, ...]
    grid: Dims
    block: Dims
    conditions: tuple[Condition, ...]
    shared_bytes: int = 0


class KernelEmitter(Accesses):
    """Emits one kernel. Raises CodegenError for a schedule that has no rendering."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        names: Names,
        collectives: Collectives,
        source: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(prepare(kernel), names, collectives)
        self.name = name
        self.block = block_dims(self.kernel)
        self.threads = Threads(self.block, kernel.lanes)
        self.grid = grid_extents(self.kernel)
        self.shared: dict[str, SharedArray] = {}
        self.grid_lines: list[Node] = []
        self.source = source or {}
        self.said: tuple[str, ...] = ()
        self.unrolled: set[str] = set()
        self.instances = 0
        stores = [x for x, _ in leaves(self.kernel.body) if isinstance(x, Store)]
        self.asked_for = {x.buffer for x in stores if x.prefetch}
        held = {name: layout for name, layout in self.layouts.items() if name not in self.asked_for}
        check_registers(held, self.buffers)
        check_askable(self.kernel)
        for b in kernel.params:
            names.of(b)
        for loop in (s.stmt for s in walk(self.kernel.body) if isinstance(s.stmt, For)):
            if loop.kind.is_thread:
                names.alias(loop.var, THREAD_NAMES[loop.kind])
            elif loop.kind.is_combine:
                names.alias(loop.var, "tx")
        self.bases = find_bases(self.kernel, names)

    # ---- the whole function

    def emit(self) -> EmittedKernel:
        body = self.statements(self.kernel.body, Place())
        bases = self._base_lines(body)
        head = [*self._thread_lines([*bases, *body]), *self.grid_lines, *bases]
        shared, shared_bytes = declarations(tuple(self.shared.values()), self.collectives.names)
        inside = [*shared, *head]
        inside = [*size_lines(self, identifiers("\n".join(texts([*inside, *body])))), *inside]
        if inside and body:
            inside.append(line(""))
        inside += body
        before, header = opening(self, self.name, prod(self.block.values()))
        asked = [Condition(g, FITS) for g in self.magnitudes.guards()]
        dims = []
        for axis in GRID_AXES:
            extent = self.grid.get(axis, index(1))
            dims.append(extent)
            limit = self.magnitudes.at_most(extent, GRID_MOST[axis])
            if limit is not None and axis is not LoopKind.GRID_X:
                most = f"{axis.value} has at most {GRID_MOST[axis]} blocks"
                asked.append(Condition(limit, most))
        x, y, z = (index(n) for n in self.threads.block)
        return EmittedKernel(
            (scope(header, inside, before=before),),
            params(self),
            (dims[0], dims[1], dims[2]),
            (x, y, z),
            tuple(asked),
            shared_bytes,
        )

    def _thread_lines(self, body: list[Node]) -> list[Node]:
        text = "\n".join(texts(body))
        out = []
        for axis, name in THREAD_NAMES.items():
            if not re.search(rf"\b{name}\b", text):
                continue
            out.append(line(f"const int {name} = {self.threads.coordinate(axis)};"))
        return out

    def _base_lines(self, body: list[Node]) -> list[Node]:
        """Declarations of the sums of coordinates that the body uses."""
        used = identifiers("\n".join(texts(body)))
        loops = {x.var: x for x in (s.stmt for s in walk(self.kernel.body) if isinstance(s.stmt, For))}
        out = []
        for form, name in self.bases.names.items():
            if name not in used:
                continue
            total = self.bases.sums[form]
            coordinates = [loops[v] for v in variables(total)]
            # All threads compute it, also those that a shorter loop leaves out.
            threads = {x.var: index(self.block[x.kind]) for x in coordinates if x.kind.is_thread}
            self.magnitudes.require(total, {x.var: x.extent for x in coordinates} | threads)
            plain = ExprText(self.names.of, print_expr, self.ranges(Place(tuple(coordinates))))
            out.append(line(f"const int {name} = {plain.text(total)};"))
        return out

    def find(self, x: Find, place: Place) -> str:
        starts = self.buffers[x.buffer]
        segments, value = self.value(sub(starts.extents[0], 1), place), self.value(x.value, place)
        return f"{self.collectives.find(starts.dtype)}({self.names.of(x.buffer)}, {segments}, {value})"

    # ---- statements

    def statements(self, block: Block, place: Place) -> list[Node]:
        """The statements of a block, declarations merged with the first value where they meet."""
        out: list[Node] = []
        for s in block.stmts:
            for node in self.statement(s, place):
                # A comment may stand between the two.
                last = len(out) - 1
                while last >= 0 and out[last].text.startswith("//"):
                    last -= 1
                if last >= 0 and declares(out[last], node):
                    value = node.text.split(" = ", 1)[1]
                    node = line(f"{out[last].text[:-1]} = {value}", node.origin)
                    del out[last]
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
            case Boundary() | Alloc(buffer=Buffer(space=Space.GLOBAL)):
                raise CodegenError("a kernel of several launches is emitted one launch at a time")
            case Alloc() if s.buffer.name in self.asked_for:
                return []
            case Alloc():
                return self.declare(s.buffer, place)
            case Barrier():
                return [line("__syncthreads();")]
            case Commit():
                self.collectives.asynchronous()
                return [line("__pipeline_commit();")]
            case Wait(pending=n) if n > MOST_PENDING:
                raise CodegenError(f"a wait that leaves {n} groups; at most {MOST_PENDING} can be left")
            case Wait():
                self.collectives.asynchronous()
                return [line(f"__pipeline_wait_prior({s.pending});")]
            case Store() | Reduce():
                return self.owned(s, place, [self.leaf(s, place)])

    def condition(self, s: If, place: Place) -> list[Node]:
        cond = self.simplified(s.cond, place)
        inner = place.below(s)
        if isinstance(cond, Const):
            return self.statements(s.body if cond.value else s.orelse, inner)
        body = self.statements(s.body, inner)
        orelse = self.statements(s.orelse, inner)
        if not body and not orelse:
            return []
        # Only `tiles` puts the same loops into both sides.
        split = loop_sites(s.body).keys() & loop_sites(s.orelse).keys()
        other = "a partial tile" if split else ""
        return [branch(self.conditions(cond, place), body, line_origin(s, place), orelse, other)]

    def loop(self, s: For, place: Place) -> list[Node]:
        inner = place.below(s)
        if s.kind.is_grid:
            extent = self.simplified(s.extent, place)
            self.require(extent, place)
            declaration = f"const int {self.names.of(s.var)} = blockIdx.{s.kind.value[-1]};"
            self.grid_lines.append(line(declaration, line_origin(s, place)))
            return self.statements(s.body, inner)
        if s.kind.is_combine:
            return (scan if s.kind.is_scan else combine)(self, s, place)
        if s.kind.is_thread:
            nodes = self.statements(s.body, inner)
            if self.extent(s, place) < self.block[s.kind] and nodes:
                n = self.extent(s, place)
                nodes = [branch((f"{THREAD_NAMES[s.kind]} < {n}",), nodes, line_origin(s, place))]
            return self._noted(s, place, nodes)
        run = run_update(self, s, place)
        if run is not None:
            return self._noted(s, place, run)
        if s.kind is LoopKind.VECTOR:
            return self._noted(s, place, vector_loop(self, s, place))
        return self._noted(s, place, self.sequential(s, place))

    def sequential(self, s: For, place: Place) -> list[Node]:
        """A `for` statement, unrolled where asked for or where it indexes registers."""
        extent = self.simplified(s.extent, place)
        # Below, what is simplified knows that a loop is one iteration where those around it say so.
        inner = place.below(replace(s, extent=extent))
        indexes = self._indexes_registers(s, inner)
        unroll = indexes or s.kind in (LoopKind.UNROLL, LoopKind.VECTOR)
        if unroll:
            self.unrolled.add(s.var)
        body = self.statements(s.body, inner)
        if not body:
            return []
        if extent == index(1):
            return body if not any(is_declaration(n) for n in body) else [scope("", body)]
        self.require(extent, place)
        v = self.names.of(s.var)
        if reads(extent) and fits_int(extent, self.sizes):
            bound = self.narrow(place).text(extent, 8)
        else:
            bound = (self.count(place) if reads(extent) else self.text(place)).text(extent, 8)
        if indexes and not isinstance(extent, Const):
            raise CodegenError(f"loop {s.var} indexes registers and its extent is not a constant")
        kind = "long long" if s.var in self.wide else "int"
        header = f"for ({kind} {v} = 0; {v} < {bound}; ++{v})"
        before = ("#pragma unroll",) if unroll else ()
        outside, inside = split_invariant(body, v, self._stable())
        node = scope(header, inside, line_origin(s, place), before)
        return [branch(outside, [node], line_origin(s, place))] if outside else [node]

    def _stable(self) -> frozenset[str]:
        """Identifiers that keep their value while they are in scope: loop variables and parameters."""
        loops = {self.names.of(x.stmt.var) for x in walk(self.kernel.body) if isinstance(x.stmt, For)}
        scalars = {self.names.of(s.name) for s in self.kernel.scalars}
        return frozenset(loops | scalars | set(self.bases.names.values()))

    def _noted(self, s: For, place: Place, nodes: list[Node]) -> list[Node]:
        """Comments on a nest above its outermost loop."""
        above = next((p for p in reversed(place.path) if isinstance(p, For)), None)
        if above is not None and not above.kind.is_grid and _leads_only_to(above, s):
            return nodes
        spaces = {b.name: b.space for b in self.buffers.values()}
        said = remarks(s, self.source, spaces) if nodes else []
        around = {x for p in place.loops if not p.kind.is_grid for x in remarks(p, self.source, spaces)}
        fresh = [x for x in said if x not in self.said and x not in around]
        self.said = tuple(said) or self.said
        return [*(line(f"// {x}", line_origin(s, place)) for x in fresh), *nodes]

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
        return [branch(alone, nodes, line_origin(s, place))] if alone else nodes

    def leaf(self, s: Leaf, place: Place) -> Node:
        self.instances = add_instances(self.instances, place, self.unrolled, self.ranges(place))
        if isinstance(s, Store) and s.prefetch:
            return line(self.prefetch(s, place), line_origin(s, place))
        value = self.value(s.value, place)
        if isinstance(s, Store) and s.asynchronous:
            return line(self.copy(s, place, s.value.dtype.size), line_origin(s, place))
        if isinstance(s, Store):
            return line(self.store(s, value, place), line_origin(s, place))
        if s.aggregated:
            return line(aggregated(self, s, value, place), line_origin(s, place))
        target = self.access(s.buffer, s.indices, place)
        return line(self.accumulate(s, target, value), line_origin(s, place))

    def copy(self, s: Store, place: Place, size: int) -> str:
        """An asynchronous copy of `size` bytes, from the element at `place` on. Raises CodegenError."""
        if not isinstance(s.value, Load) or size not in ASYNCHRONOUS_BYTES:
            raise CodegenError(f"an asynchronous copy takes 4, 8 or 16 bytes, not {size}")
        self.collectives.asynchronous()
        self._aligned(s.value.buffer, size // s.value.dtype.size)
        target = self.access(s.buffer, s.indices, place)
        source = self.access(s.value.buffer, s.value.indices, place)
        return f"__pipeline_memcpy_async(&{target}, &{source}, {size});"

    def prefetch(self, s: Store, place: Place) -> str:
        """L2 asked for the line of the element that `s` would copy. Raises CodegenError."""
        if not isinstance(s.value, Load) or self.buffers[s.value.buffer].space is not Space.GLOBAL:
            raise CodegenError("only elements of arrays can be prefetched")
        return f"{self.collectives.prefetch()}(&{self.access(s.value.buffer, s.value.indices, place)});"

    def accumulate(self, s: Reduce, target: str, value: str) -> str:
        """What a reduction does, given the texts of its cell and its value."""
        monoid, dtype = s.monoid, s.value.dtype
        if s.atomic:
            return f"{ATOMICS[monoid.name]}(&{target}, {value});"
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
            self.shared[b.name] = SharedArray(name, b.dtype, self.shared_dims(b) or (1,))
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


def _leads_only_to(outer: For, inner: For) -> bool:
    """Whether `inner` is all that `outer` does, conditions aside."""
    at: Stmt | None = outer
    while isinstance(at, For | If | Block):
        if at is inner:
            return True
        stmts = at.stmts if isinstance(at, Block) else at.body.stmts
        at = stmts[0] if len(stmts) == 1 else None
    return False
