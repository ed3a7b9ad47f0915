"""What is known while text and kernel are walked in step: names, and which buffer each stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Buffer
from evolve.ir.types import LoopKind
from evolve.validation.context import Context
from evolve.validation.parts import subexpressions
from evolve.validation.places import Places
from evolve.validation.polynomial import Poly, constant, variable
from evolve.validation.text import (
    Declare,
    Element,
    Expr,
    Invoke,
    Lane,
    Name,
)
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.widths import Widths

AXES = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z)
GRID = (LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.GRID_Z)


@dataclass
class Alias:
    """A name for values: `const float t = …`, or the lanes of a vector, each None until it is given.

    They are what they were where the name was declared, so nothing they read may have changed since.
    """

    values: list[Expr | None]
    loops: tuple[str, ...]
    reads: frozenset[int]
    is_vector: bool
    place: Place | None = None
    stale: bool = False
    used: set[int] = field(default_factory=set)
    """Lanes that were asked for."""


@dataclass(frozen=True)
class Index:
    """An integer that never changes."""

    value: Poly


@dataclass(frozen=True)
class Parameter:
    """An array or a by-value parameter of the kernel, by the kernel's own name for it."""

    name: str
    is_array: bool


@dataclass(frozen=True)
class Local:
    """A variable or an array of each thread, declared inside these loops."""

    declaration: Declare
    loops: tuple[str, ...]


@dataclass(frozen=True)
class Shared:
    declaration: Declare


Binding = Alias | Index | Parameter | Local | Shared


@dataclass(frozen=True)
class Place:
    """Where in the text something stands.

    `loops`: names of the loops around it, outermost first. `divergent`: axes along which threads may differ
    in whether they come here.
    """

    context: Context
    loops: tuple[str, ...] = ()
    divergent: frozenset[LoopKind] = frozenset()
    line: int = 0
    conditions: tuple[int, ...] = ()
    """The sides of conditions that it stands on, by numbers of their own, outermost first."""


@dataclass
class State:
    """`block`: threads along each axis; `grid` blocks along each; `written` keys of what the text writes."""

    kernel: Kernel
    buffers: dict[str, Buffer]
    block: Mapping[LoopKind, int]
    grid: Mapping[LoopKind, Poly]
    sizes: Mapping[str, Poly]
    written: frozenset[int]
    constants: frozenset[str]
    """Global arrays that the kernel never writes."""
    launched: tuple[int, int, int] = (1, 1, 1)
    """Threads of a block along x, y and z of the launch, whatever its lanes' coordinates are."""
    aligned: Mapping[str, int] = field(default_factory=dict)
    """Bytes that the launch asks addresses of arrays to be a multiple of."""
    names: dict[int, Binding] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    """The text's name for each local buffer."""
    buffer_of: dict[int, str] = field(default_factory=dict)
    allocated: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    """Of each local buffer the loops around its declaration, and how many declarations were met."""
    scratch: set[int] = field(default_factory=set)
    """Names that collectives use."""
    is_warps: bool = False
    """Whether thread.x and thread.y are coordinates of a lane."""
    coordinates: dict[LoopKind, tuple[int, ...]] = field(default_factory=dict)
    """Of each lane, then, along the axes that the text has names for."""
    places: Places = field(default_factory=Places)
    widths: Widths = field(default_factory=lambda: Widths(frozenset()))
    serial: int = 0

    def block_index(self, axis: LoopKind) -> Poly:
        """Which block along an axis: 0 where there is one."""
        return constant(0) if self.grid[axis] == constant(1) else variable(axis.value)

    def binding(self, name: Name, line: int) -> Binding:
        found = self.names.get(name.key)
        if found is None:
            raise UnreadError(f"{name.name} is not declared in the kernel", line)
        return found

    def allocate(self, buffer: Buffer, loops: tuple[str, ...]) -> None:
        """A buffer begins here, its contents undefined."""
        self.serial += 1
        key = self.keys.pop(buffer.name, None)
        if key is not None:
            del self.buffer_of[key]
        self.allocated[buffer.name] = (loops, self.serial)

    def unify(self, name: Name, buffer: str, place: Place) -> None:
        """`name` stands for the buffer. Raises DifferenceError if it stands for another one."""
        if self.keys.get(buffer) == name.key:
            return
        if buffer in self.keys or name.key in self.buffer_of or name.key in self.scratch:
            held = self.buffer_of.get(name.key, "something else")
            raise DifferenceError(f"{name.name} stands for {held}, the kernel has {buffer} here", place.line)
        b, binding = self.buffers[buffer], self.names[name.key]
        assert isinstance(binding, Local | Shared)
        element = binding.declaration.type
        element = getattr(element, "element", element)
        if element is not b.dtype:
            raise DifferenceError(f"{name.name} has another type than {buffer}", place.line)
        if buffer not in self.allocated:
            raise DifferenceError(f"{name.name} stands for {buffer}, which is not local", place.line)
        if isinstance(binding, Local) and self.allocated[buffer][0][: len(binding.loops)] != binding.loops:
            raise DifferenceError(f"{name.name} is declared anew in a loop, {buffer} is not", place.line)
        self.keys[buffer] = name.key
        self.buffer_of[name.key] = buffer

    def wrote(self, key: int) -> None:
        """Values that were read from there are no longer what is there."""
        for x in self.names.values():
            if isinstance(x, Alias) and key in x.reads:
                x.stale = True

    def in_memory(self, alias: Alias) -> bool:
        """Whether it reads what is not a thread's own."""
        return any(not isinstance(self.names.get(k), Local) for k in alias.reads)

    def met(self) -> None:
        """Other threads may have written to memory that all share."""
        for x in self.names.values():
            if isinstance(x, Alias) and any(
                k in self.written and not isinstance(self.names.get(k), Local) for k in x.reads
            ):
                x.stale = True

    def check_used(self) -> None:
        """What the text loads or calls, it must have a use for: the kernel may not do so."""
        for x in self.names.values():
            if not isinstance(x, Alias) or x.place is None or not (self.in_memory(x) or _calls(x)):
                continue
            if x.used != set(range(len(x.values))):
                raise UnreadError("something is loaded and not used", x.place.line)

    def alias(self, values: list[Expr | None], place: Place, *, is_vector: bool) -> Alias:
        for v in values:
            if v is not None:
                self.check_given(v, place)
        reads = frozenset(k for v in values if v is not None for k in self.read_by(v))
        return Alias(values, place.loops, reads, is_vector, place)

    def check_given(self, e: Expr, place: Place) -> None:
        """Raises DifferenceError for lanes without a value yet: names are looked up where they are used."""
        for x in subexpressions(e):
            if isinstance(x, Lane) and isinstance(x.vector, Name):
                held = self.names.get(x.vector.key)
                if isinstance(held, Alias) and held.values[x.lane] is None:
                    raise DifferenceError("a lane is used before it has a value", place.line)

    def read_by(self, e: Expr) -> Iterator[int]:
        """Keys of all memory and variables that evaluating `e` reads."""
        if isinstance(e, Invoke) and e.definition is not None:
            # The memory of a collective is nobody else's.
            for a in e.args[:1]:
                yield from self.read_by(a)
            return
        for x in subexpressions(e):
            base = x.base if isinstance(x, Element) else x
            if isinstance(base, Name):
                held = self.names.get(base.key)
                if isinstance(held, Alias):
                    yield from held.reads
                elif not isinstance(held, Index):
                    yield base.key

    def resolved(self, e: Expr, place: Place) -> Expr:
        """`e` itself, or what it is a name for."""
        lane = 0
        of: Expr = e
        if isinstance(e, Lane):
            of, lane = e.vector, e.lane
        if not isinstance(of, Name):
            return e
        held = self.names.get(of.key)
        if not isinstance(held, Alias):
            return e
        value = held.values[lane]
        if value is None or held.is_vector != isinstance(e, Lane):
            raise DifferenceError(f"{of.name} is used before it has a value", place.line)
        changes = held.reads & self.written
        if held.stale or (changes and held.loops != place.loops):
            raise UnreadError(f"{of.name} keeps what may have changed since", place.line)
        before = held.place
        here = (place.loops, place.conditions)
        if before is not None and self.in_memory(held) and (before.loops, before.conditions) != here:
            raise UnreadError(f"{of.name} is loaded under other conditions than it is used", place.line)
        held.used.add(lane)
        return self.resolved(value, place)


def _calls(alias: Alias) -> bool:
    return any(isinstance(x, Invoke) for v in alias.values if v is not None for x in subexpressions(v))


Environment = Mapping[str, Poly]
"""What each loop variable of the kernel is in the text."""
