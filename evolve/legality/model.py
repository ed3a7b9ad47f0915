"""Who executes which statement instance, at what time, on which memory cells.

The execution model of a transformed kernel, as code generation renders it:

* grid loops are block coordinates, thread loops thread coordinates, by loop kind; every other loop
  is executed in order by each thread.
* A statement below no loop of some thread axis is executed by all threads along that axis when it
  writes registers (each thread its own copy), and by thread 0 of that axis when it writes shared
  or global memory. A register store in a scan loop is executed by the thread that its iteration counts.
* Registers are private: a cell carries block and thread. A *distributed* register buffer is
  addressed by its logical index instead of the thread axes that its layout turns into owners;
  `evolve.ir.layout.slot_of` has checked that only owners touch it, and owner and slot are a
  bijection of the logical index, so logical cells stand for physical ones.
* An asynchronous copy lasts from where it stands to a later wait (`asynchronous`).
* Launches follow each other: what stands before a `Boundary` has happened for all blocks. Each has a grid and
  blocks of its own.
* A local buffer is undefined whenever its declaration is passed, so for value flow a cell carries
  the sequential loops around the declaration; for races a shared cell does not, because the bytes
  are the same. Scratch memory is declared once, for all launches and all blocks.
* Where loop bounds, conditions or the cells of contributions read memory that nobody writes, an instance
  carries what they read:
  there are instances for all values allowed, and a run has those with the values that memory holds.
  Source and target instances correspond only with the same values (`Proof.origin_map`), so what holds
  for all of them holds for those of any run.

Time is the position in the text: [position, loop variable, position, ...] over the sequential
loops only. Why leaving out block and thread coordinates is right: in a race-free program two
accesses of one cell, one of them a write, are by the same thread or separated by a barrier. For one
thread, text order is program order. A barrier is a statement of the text passed by all threads of
the block, so before and after it is text order too. Hence text order (all threads in lock step)
extends happens-before, and the last writer in it is the value every execution reads. Races within each launch
are therefore checked first; different launches are ordered. PARALLEL loops of a lifted kernel are taken in
order too: once they are shown independent (`source_race`), their order is one of many that all mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evolve.ir.data import index_arrays, segment, step_terms, with_known_ends
from evolve.ir.data import terms as terms_of
from evolve.ir.expr import Expr, Find, Load, Select
from evolve.ir.kernel import Kernel
from evolve.ir.launches import phases
from evolve.ir.layout import Layout, LayoutError, register_layouts
from evolve.ir.poly import Frame, IslObject, NonAffineError, Sizes, canonical_term, domain, path_terms
from evolve.ir.printer import print_expr, print_stmt
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
    Store,
    Wait,
)
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, children, leaves, walk
from evolve.legality.asynchronous import Point, by_wait, extended, landing_at, landings
from evolve.legality.cells import Cells
from evolve.legality.finding import where_found
from evolve.legality.geometry import THREAD_AXES, geometry
from evolve.legality.instances import (
    BarrierPoint,
    Declared,
    ModelError,
    Moment,
    Read,
    Statement,
    times_of,
    value_at,
)


class Model:
    """A kernel under `sizes`. Raises ModelError or NonAffineError when it cannot be modelled.

    `kernel` is what is reasoned about, with elements that premises give as they give them; `rendered` is the
    kernel as it was handed over.
    `like` is the model of the same kernel with other barriers, under the same sizes: barriers change
    when statements run, not which instances there are, so these are taken over.
    """

    def __init__(
        self,
        kernel: Kernel,
        sizes: Sizes,
        *,
        source: bool = False,
        prefix: str = "#T",
        like: Model | None = None,
    ) -> None:
        self.rendered = kernel
        self.kernel = kernel = with_known_ends(kernel)
        self.sizes = sizes
        self.source = source
        self.buffers: dict[str, Buffer] = {b.name: b for b in kernel.buffers}
        self.kernel_writes = frozenset(leaf.buffer for leaf, _ in leaves(kernel.body))
        self.declared: dict[str, Declared] = {}
        for site in walk(kernel.body):
            if isinstance(site.stmt, Alloc):
                self.declared[site.stmt.buffer.name] = Declared(site.stmt.buffer, site)
                self.buffers[site.stmt.buffer.name] = site.stmt.buffer
        self.geometries = tuple(geometry(kernel, body) for body in phases(kernel.body))
        self.layouts: dict[str, Layout] = {}
        if like is not None:
            self.layouts = like.layouts
        elif not source:
            try:
                self.layouts = register_layouts(kernel)
            except LayoutError as e:
                raise ModelError(e.code, e.message, witness=e.witness) from e
        self.statements: list[Statement] = []
        self.barriers: list[BarrierPoint] = []
        self.points: list[Point] = []
        self._prefix = prefix
        self._like = like
        self._cells = Cells(kernel, self.declared, self.geometries, self.layouts)
        self._launch = 0
        self._collect(kernel.body, (), (), _Clock((), [0]))
        lengths = [len(s.time) for s in self.statements] + [len(b.time) for b in self.barriers]
        self.depth = max([*lengths, *(len(x.time) for x in self.points), 1])
        self._landings = landings(self, self.points)

    @property
    def thread_extent(self) -> Mapping[LoopKind, int]:
        """Threads of a block by axis, of the model of a single launch."""
        (only,) = self.geometries
        return only.threads

    @property
    def grid_axes(self) -> tuple[LoopKind, ...]:
        """Grid axes in use, of the model of a single launch."""
        (only,) = self.geometries
        return only.grid

    def _collect(
        self, block: Block, path: tuple[For | If, ...], sides: tuple[bool, ...], clock: _Clock
    ) -> None:
        for s in block.stmts:
            match s:
                case Block():
                    self._collect(s, path, sides, clock)
                case If():
                    self._collect(s.body, (*path, s), (*sides, False), clock)
                    self._collect(s.orelse, (*path, s), (*sides, True), clock)
                case For():
                    site = Site(s, path, sides)
                    if s.kind.meets_in_block:
                        # Its lowering synchronises the block before anything is exchanged.
                        self._barrier(site, (*clock.prefix, clock.between()))
                    if self._is_timed(s):
                        inner = _Clock((*clock.prefix, clock.next(), s.var), [0])
                        self._collect(s.body, (*path, s), sides, inner)
                    else:
                        self._collect(s.body, (*path, s), sides, clock)
                case Alloc():
                    pass
                case Boundary():
                    self._launch += 1
                case Barrier():
                    self._barrier(Site(s, path, sides), (*clock.prefix, clock.between()))
                case Commit() | Wait():
                    self.points.append(Point(s, (*clock.prefix, clock.next()), Site(s, path, sides)))
                case Store() | Reduce():
                    self._statement(s, Site(s, path, sides), (*clock.prefix, clock.next()))

    def _is_timed(self, loop: For) -> bool:
        return not (loop.kind.is_grid or loop.kind.is_thread)

    def _barrier(self, site: Site, time: Moment) -> None:
        frame = Frame.of("", tuple(x.var for x in site.loops), self.sizes)
        inst = domain(frame, self.kernel, site.path, site.in_else, self.sizes)
        self.barriers.append(BarrierPoint(frame, inst, time, site))

    def _statement(self, leaf: Leaf, site: Site, time: Moment) -> None:
        if self._like is not None:
            known = self._like.statements[len(self.statements)]
            assert known.leaf == leaf
            self.statements.append(replace(known, site=site, time=time))
            return
        loops = site.loops
        by_kind: dict[LoopKind, str] = {}
        for loop in loops:
            if loop.kind.is_grid or loop.kind.is_thread:
                if loop.kind in by_kind:
                    raise ModelError(
                        "E-BIND", f"{loop.kind.value} is bound twice around one statement: {loop.var}"
                    )
                by_kind[loop.kind] = loop.var
        launch = self.geometries[self._launch]
        for axis in launch.grid:
            if axis not in by_kind:
                raise ModelError("E-GRID", f"a statement stands outside the {axis.value} loop")
        private = self.buffers[leaf.buffer].space is Space.REGISTER
        dims = [x.var for x in loops]
        threads: list[str | int] = []
        extra: list[tuple[str, int]] = []
        if isinstance(leaf, Store):
            # Iteration t of a scan leaves its result, in a register (`uniform`), with thread t.
            by_kind.update((LoopKind.THREAD_X, x.var) for x in loops if x.kind.is_scan)
        for axis in THREAD_AXES:
            n = launch.threads[axis]
            if axis in by_kind:
                threads.append(by_kind[axis])
            elif private and n > 1:
                name = f"@{axis.value}"
                extra.append((name, n))
                threads.append(name)
            else:
                threads.append(0)
        terms = path_terms(site.path)
        self._check_terms(leaf, site, terms)
        terms |= self._target_terms(leaf)
        dims += [name for name, _ in extra]
        dims += terms.values()
        name = f"{self._prefix}{len(self.statements)}"
        frame = Frame.of(name, tuple(dims), self.sizes, terms)
        inst = domain(frame, self.kernel, site.path, site.in_else, self.sizes)
        inst = where_found(self.kernel, frame, inst)
        for d, n in extra:
            v = frame.env[d]
            inst = inst.intersect(v.ge_set(frame.constant(0))).intersect(v.lt_set(frame.constant(n)))
        reads = tuple(_reads(frame, leaf.value, inst))
        blocks = tuple(by_kind[a] for a in launch.grid)
        self.statements.append(
            Statement(
                name, leaf, site, frame, inst.coalesce(), blocks, tuple(threads), time, reads, self._launch
            )
        )

    def _check_terms(self, leaf: Leaf, site: Site, terms: Mapping[Expr, str]) -> None:
        """Raises ModelError E-DATA-LOOP (unknown) where a statement runs as often as data says and more than
        that would have to be known.

        The instances of such a statement are those for all values that data may have. That is as good as the
        real ones for the source's contributions to a reduction, which are compared as sets, together with the
        values. A store, or a combination of partials, must not be taken for one that surely happens: what it
        writes has to be declared inside, where it happens or nothing does.
        """
        if not terms:
            return
        self._check_unchanging(leaf, terms, "how often it runs")
        if isinstance(leaf, Reduce) and leaf.origin is not None:
            return
        last = max(i for i, step in enumerate(site.path) if step_terms(step))
        declared = self.declared.get(leaf.buffer)
        # What is in scope here and declared as deep is declared inside.
        if declared is None or len(declared.site.path) <= last:
            raise ModelError(
                "E-DATA-LOOP",
                f"`{print_stmt(leaf)}` happens as often as data says, and is seen outside of that",
                refuted=False,
            )

    def _target_terms(self, leaf: Leaf) -> dict[Expr, str]:
        """The integers read from memory that say where a contribution of the source goes, with their names.

        They are dimensions of its instances: a contribution goes to the same cell as in the source if it has
        read the same element. A store must be known to happen in its cell: with such a subscript, as with any
        other that is not affine, nothing is proved of it.
        """
        if not isinstance(leaf, Reduce) or leaf.origin is None:
            return {}
        found = {canonical_term(t) for i in leaf.indices for t in terms_of(i)}
        found |= {canonical_term(t) for f in found if isinstance(f, Find) for t in segment(self.kernel, f)}
        self._check_unchanging(leaf, found, "where it goes")
        return {t: print_expr(t) for t in sorted(found, key=print_expr)}

    def _check_unchanging(self, leaf: Leaf, terms: Iterable[Expr], what: str) -> None:
        """Raises ModelError E-DATA-LOOP (unknown) if the kernel writes what the terms read."""
        arrays = {b.name for b in self.kernel.buffers}
        for buffer in sorted(frozenset[str]().union(*(index_arrays(t) for t in terms))):
            if buffer not in arrays or buffer in self.kernel_writes:
                raise ModelError(
                    "E-DATA-LOOP",
                    f"{what} is read from {buffer}, which may change: `{print_stmt(leaf)}`",
                    refuted=False,
                )

    def padded(self, time: Moment, tail: tuple[int, ...] = ()) -> Moment:
        """The time as long as all times of the kernel, then `tail`."""
        return (*time, *(0,) * (self.depth - len(time)), *tail)

    def time_map(self, st: Statement | BarrierPoint, tail: tuple[int, ...] = ()) -> IslObject:
        """Instances to times, all of one length."""
        return times_of(st.frame, self.padded(st.time, tail), st.instances)

    def lasts(self, st: Statement) -> bool:
        """Whether it is a copy that is only started where it stands."""
        return st.name in self._landings

    def end_map(self, st: Statement, tail: tuple[int, ...] = ()) -> IslObject:
        """Instances to the times from which on they have happened: later than `time_map` for a copy that is
        only started there."""
        if st.name in self._landings:
            return extended(self._landings[st.name], self.depth, tail)
        return self.time_map(st, tail)

    def parts(self, st: Statement) -> list[IslObject]:
        """The instances of a copy that is only started, by the wait at which they have happened."""
        return by_wait(self, self._landings[st.name], self.points)

    def landing(self, st: Statement, at: Mapping[str, int], point: Point) -> tuple[int, ...] | None:
        """When the copy that the instance `at` starts has happened, if it is at a wait of `point`."""
        if st.name not in self._landings:
            return None
        return landing_at(self, self._landings[st.name], st, at, point)

    def block_map(self, st: Statement | BarrierPoint) -> IslObject:
        """Instances (all with these dimensions) to block coordinates, over the grid axes in use."""
        if isinstance(st, Statement):
            coords: Sequence[Expr | str | int] = st.blocks
        else:
            kinds = {x.kind: x.var for x in st.site.loops}
            coords = [kinds.get(a, 0) for a in self.grid_axes]
        return st.frame.map_to("", [value_at(st.frame, x) for x in coords])

    def cells(
        self,
        st: Statement,
        buffer: str,
        indices: tuple[Expr, ...],
        *,
        physical: bool = False,
        where: IslObject | None = None,
    ) -> IslObject:
        """Instances to cells of an access. `physical`: shared bytes, whatever loop declared them.

        Raises NonAffineError for subscripts outside isl's language, ModelError E-OWNER.
        """
        where = st.instances if where is None else where
        return self._cells.of(st, buffer, indices, where, physical)

    def write(self, st: Statement, *, physical: bool = False) -> IslObject:
        """Instances to the cell the statement stores or reduces into."""
        return self.cells(st, st.leaf.buffer, st.leaf.indices, physical=physical)

    def read(self, st: Statement, r: Read, *, physical: bool = False) -> IslObject:
        """Instances to the cell a read slot loads."""
        return self.cells(st, r.load.buffer, r.load.indices, physical=physical, where=r.instances)

    @cached_property
    def by_name(self) -> dict[str, Statement]:
        return {s.name: s for s in self.statements}

    @cached_property
    def written(self) -> frozenset[str]:
        """Buffers that some statement writes."""
        return frozenset(s.leaf.buffer for s in self.statements)

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Arrays that the kernel is given and nobody writes."""
        return frozenset(b.name for b in self.kernel.buffers) - self.written


@dataclass(frozen=True)
class _Clock:
    """Numbers the statements of one sequential loop body in text order, evenly: barriers take the odd numbers
    in between, so that with others everything else has the times that it had."""

    prefix: Moment
    counter: list[int]

    def next(self) -> int:
        self.counter[0] += 2
        return self.counter[0]

    def between(self) -> int:
        return self.counter[0] + 1


def _reads(frame: Frame, value: Expr, inst: IslObject) -> list[Read]:
    out: list[Read] = []

    def visit(e: Expr, where: IslObject) -> None:
        if isinstance(e, Select):
            visit(e.cond, where)
            try:
                holds = frame.condition(e.cond)
                visit(e.then, where.intersect(holds))
                visit(e.orelse, where.subtract(holds))
            except NonAffineError:
                visit(e.then, where)
                visit(e.orelse, where)
            return
        for c in children(e):
            visit(c, where)
        if isinstance(e, Load):
            opaque = False
            try:
                for i in e.indices:
                    frame.affine(i)
            except NonAffineError:
                opaque = True
            same = (r.slot for r in out if r.load == e and r.instances is where)
            out.append(Read(len(out), e, where, opaque, next(same, len(out))))

    visit(value, inst)
    return out
