"""Names, values and element accesses of one kernel as text.

Everything that is computed in 32 bits passes through `require`, so that the launch guard covers it.
"""

from __future__ import annotations

from dataclasses import replace

from evolve.codegen.bases import Bases
from evolve.codegen.collectives import Collectives
from evolve.codegen.ctext import CountText, ExprText
from evolve.codegen.errors import CodegenError
from evolve.codegen.floors import with_raised
from evolve.codegen.hinted import LOADS, STORES, Hinted, is_plain
from evolve.codegen.names import Names
from evolve.codegen.place import Place
from evolve.codegen.sizes import Magnitudes
from evolve.codegen.vectors import LANES
from evolve.ir.affine import Linear, Ranges, bounds, linear, simplify
from evolve.ir.data import is_term, reads
from evolve.ir.expr import Cast, Const, Expr, Find, Load, index, sub
from evolve.ir.kernel import Kernel
from evolve.ir.lanes import element_offset
from evolve.ir.layout import LayoutError, register_layouts, shared_layout, slot_of
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Buffer, For, Store
from evolve.ir.types import DType, Priority, Space
from evolve.ir.visit import children, leaves, local_buffers, substitute, walk


class Accesses:
    """What a kernel's expressions look like at a place. Raises CodegenError where there is no text."""

    def __init__(self, kernel: Kernel, names: Names, collectives: Collectives) -> None:
        self.kernel = kernel
        self.names = names
        self.collectives = collectives
        self.written = {leaf.buffer for leaf, _ in leaves(kernel.body)}
        self.sizes = ranges_at(kernel)
        ints = [s.name for s in kernel.scalars if s.dtype is DType.I32]
        self.wide, counted = data_loops(kernel, self.sizes)
        self.magnitudes = Magnitudes(self.sizes, ints, self.wide, counted)
        self.aligned: dict[str, int] = {}
        """Of arrays that are accessed in vectors the bytes of the widest: what their addresses must be
        multiples of. Known when the text is."""
        self.buffers: dict[str, Buffer] = {b.name: b for b in kernel.buffers} | local_buffers(kernel.body)
        self.bases = Bases()
        """Sums of coordinates that have names: none before the coordinates have theirs."""
        try:
            self.layouts = register_layouts(kernel)
        except LayoutError as e:
            raise CodegenError(e.message) from e

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

        return ExprText(
            name,
            lambda x: self._load(x, place),
            self.ranges(place),
            find=lambda x: self.find(x, place),
            convert=self.collectives.bfloat16,
            bases=self.bases,
        )

    def find(self, x: Find, place: Place) -> str:
        """The text that finds a segment."""
        raise CodegenError(f"there is no text for a search of {x.buffer} here")

    def narrow(self, place: Place) -> ExprText:
        """The text of an index that is read from memory, or of a count in its own type."""
        return CountText(
            self.names.of,
            lambda x: self._load(x, place),
            self.ranges(place),
            narrow=True,
            find=lambda x: self.find(x, place),
            bases=self.bases,
        )

    def count(self, place: Place) -> ExprText:
        """The text of a loop's extent."""
        return CountText(self.names.of, lambda x: self._load(x, place), self.ranges(place), bases=self.bases)

    def _load(self, x: Load, place: Place) -> str:
        return self._element(x, place) or self.load(x, place)

    def load(self, x: Load, place: Place, kind: str = "") -> str:
        """The text that loads an element, or with `kind` the vector of that CUDA type which begins there."""
        element = self.access(x.buffer, x.indices, place)
        self._aligned(x.buffer, _lanes(kind))
        hinted = self._hinted(self.buffers[x.buffer], kind, is_load=True)
        address = f"reinterpret_cast<const {kind}*>(&{element})" if kind else f"&{element}"
        if hinted is not None:
            return f"{hinted}({address})"
        return f"*{address}" if kind else element

    def store(self, s: Store, value: str, place: Place, kind: str = "") -> str:
        """The statement that stores an element, or with `kind` a vector of that CUDA type from there on."""
        element = self.access(s.buffer, s.indices, place)
        self._aligned(s.buffer, _lanes(kind))
        hinted = self._hinted(self.buffers[s.buffer], kind, is_load=False)
        address = f"reinterpret_cast<{kind}*>(&{element})" if kind else f"&{element}"
        if hinted is not None:
            return f"{hinted}({address}, {value});"
        return f"*{address} = {value};" if kind else f"{element} = {value};"

    def _aligned(self, buffer: str, lanes: int) -> None:
        """Notes an access of so many elements at once."""
        size = lanes * self.buffers[buffer].dtype.size
        if lanes > 1:
            self.aligned[buffer] = max(size, self.aligned.get(buffer, 0))

    def _hinted(self, b: Buffer, kind: str, *, is_load: bool) -> str | None:
        """The function for accesses to a buffer about which the caches are told something."""
        lanes = _lanes(kind)
        if is_plain(b, lanes):
            return None
        known = (LOADS if is_load else STORES).get(b.cache) if b.l2 is Priority.NORMAL else None
        constant = is_load and b.name not in self.written
        return known or self.collectives.hinted(Hinted(b.dtype, lanes, b.cache, b.l2, is_load, constant))

    def _element(self, x: Load, place: Place) -> str | None:
        """The element of a vector already read that `x` is in this lane, be it another lane's."""
        if place.lane is None:
            return None
        first = replace(place, lane=(place.lane[0], 0))
        for wide, name in place.wide.items():
            if wide.buffer != x.buffer:
                continue
            b = self.buffers[x.buffer]
            start, here = self.offset(b, wide.indices, first), self.offset(b, x.indices, place)
            apart = linear(sub(self.resolve(here, place), self.resolve(start, first)), self.ranges(place))
            if apart.is_constant and 0 <= apart.constant < place.width:
                return f"{name}.{LANES[apart.constant]}"
        return None

    def value(self, e: Expr, place: Place) -> str:
        """The text of a value; its index parts are simplified and counted for the launch guard."""
        e = self.simplified(e, place)
        self.require_parts(e, place)
        return self.text(place).text(e)

    def conditions(self, cond: Expr, place: Place) -> tuple[str, ...]:
        """The operands of the conjunction, as `value` gives them."""
        cond = self.simplified(cond, place)
        self.require_parts(cond, place)
        return self.text(place).conditions(cond)

    def require(self, e: Expr, place: Place) -> None:
        self.magnitudes.require(with_raised(e, self.ranges(place)), {x.var: x.extent for x in place.loops})

    def require_parts(self, e: Expr, place: Place) -> None:
        if e.dtype is DType.INDEX:
            self.require(e, place)
        elif isinstance(e, Cast) and isinstance(e.arg, Const):
            pass  # a literal of its own type
        elif not isinstance(e, Load):
            for part in children(e):
                self.require_parts(part, place)

    def simplified(self, e: Expr, place: Place) -> Expr:
        """Simpler under the ranges at the place, with 0 for the loops of one iteration."""
        ranges = self.ranges(place)
        # Thread loops stay: their variables say who owns an element of a distributed buffer.
        single: dict[str, Expr] = {
            x.var: index(0)
            for x in place.loops
            if ranges.of(x.var) == (0, 0) and not x.kind.is_thread and not x.kind.is_combine
        }
        out = simplify(e, ranges)
        return simplify(substitute(out, single), ranges) if single else out

    def resolve(self, e: Expr, place: Place) -> Expr:
        """Simplified, with the number of the lane put in."""
        out = self.simplified(e, place)
        if place.lane is None:
            return out
        return simplify(substitute(out, {place.lane[0]: index(place.lane[1])}), self.ranges(place))

    def slots(self, buffer: str, indices: tuple[Expr, ...], place: Place) -> tuple[Expr, ...]:
        """The subscripts in the array that a local buffer becomes."""
        b = self.buffers[buffer]
        try:
            layout = shared_layout(b, self.sizes) if b.space is Space.SHARED else self.layouts[buffer]
            return slot_of(layout, indices, place.loops, self.ranges(place))
        except LayoutError as e:
            raise CodegenError(e.message) from e

    def offset(self, b: Buffer, indices: tuple[Expr, ...], place: Place) -> Expr:
        """The row-major element offset of a global or shared access, simplified, its lane left in."""
        return self.simplified(element_offset(b, indices), place)

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
            parts = [self.resolve(e, place) for e in self.slots(buffer, indices, place)]
            for e in parts:
                self.require_parts(e, place)
            narrow = self.narrow(place)
            texts = [(narrow if is_term(e) else text).text(e) for e in parts]
            return name + ("".join(f"[{t}]" for t in texts) or "[0]")
        return f"{name}[{self.position(b, indices, place)}]"

    def position(self, b: Buffer, indices: tuple[Expr, ...], place: Place) -> str:
        """The text of the row-major element offset of a global or shared access, where the element lies."""
        if b.space is Space.SHARED:
            indices = self.slots(b.name, indices, place)
        flat = self.resolve(self.offset(b, indices, place), place)
        self.require(flat, place)
        return (self.narrow(place) if is_term(flat) else self.text(place)).text(flat)


def data_loops(kernel: Kernel, ranges: Ranges) -> tuple[frozenset[str], frozenset[str]]:
    """Loops whose extent is read from memory: those that must count in 64 bits, and those that need not.

    An `int` will do for an element of an `int` array, or the difference of two, where both are at least 0.
    """
    wide: set[str] = set()
    counted: set[str] = set()
    for site in walk(kernel.body):
        if isinstance(site.stmt, For) and reads(site.stmt.extent):
            (counted if fits_int(site.stmt.extent, ranges) else wide).add(site.stmt.var)
    return frozenset(wide), frozenset(counted)


def fits_int(extent: Expr, ranges: Ranges) -> bool:
    """Whether a count that is read from memory can be computed in `int`."""
    form = linear(extent, ranges)
    for atom, c in form.terms:
        if not isinstance(atom, Cast) or not isinstance(atom.arg, Load) or atom.arg.dtype is not DType.I32:
            return False
        low, _ = bounds(Linear(((atom, 1),), 0), ranges)
        if c not in (1, -1) or low is None or low < 0:
            return False
    signs = [c for _, c in form.terms]
    return form.constant == 0 and signs.count(1) <= 1 and signs.count(-1) <= 1


def _lanes(kind: str) -> int:
    """Elements of a vector of that CUDA type; 1 without one."""
    return int(kind[-1]) if kind else 1
