"""One statement about to be applied: its arguments resolved against a kernel, and the table of transforms."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.program import Hole, ListValue, Name, Operation, Statement, Value, print_value
from evolve.dsl.registry import statements
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Buffer, For
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site
from evolve.transforms.edit import buffers_of, sites
from evolve.transforms.names import NameTable, find_loops

Result: TypeAlias = tuple[Kernel, NameTable]


@dataclass(frozen=True)
class Call:
    """A statement with its kernel and names; the accessors raise RefusedError on what does not resolve."""

    kernel: Kernel
    names: NameTable
    statement: Statement

    @property
    def note(self) -> str:
        """What made a loop, for the reader of the emitted code."""
        return str(self.statement)

    def value(self, name: str) -> Value | None:
        """The argument of that name: given, else its default, else None."""
        value = self._given.get(name)
        if value is None:
            parameter = statements()[self.statement.primitive].parameter(name)
            default = None if parameter is None else parameter.default
            value = Name(default) if isinstance(default, str) else default
        if isinstance(value, Hole):
            raise RefusedError("E-HOLE", f"the hole {print_value(value)} is not filled")
        return value

    @cached_property
    def _given(self) -> Mapping[str, Value]:
        spec = statements()[self.statement.primitive]
        positional = (p.name for p in spec.parameters if p.is_positional)
        return dict(zip(positional, self.statement.args, strict=True)) | dict(self.statement.keywords)

    def word(self, name: str) -> str:
        """A name or choice."""
        value = self.value(name)
        assert isinstance(value, Name)
        return value.text

    def integer(self, name: str) -> int | None:
        """An integer, None where an optional one is not given."""
        value = self.value(name)
        assert value is None or isinstance(value, int)
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of integers, empty where an optional one is not given."""
        value = self.value(name)
        if value is None:
            return ()
        assert isinstance(value, ListValue)
        out = []
        for item in value.items:
            if isinstance(item, Hole):
                raise RefusedError("E-HOLE", f"the hole {print_value(item)} is not filled")
            assert isinstance(item, int)
            out.append(item)
        return tuple(out)

    def condition(self, name: str) -> Operation:
        """A condition."""
        value = self.value(name)
        assert isinstance(value, Operation)
        return value

    def is_single(self, name: str) -> bool:
        """Whether a `loops` argument is one bare loop, neither a list nor a group."""
        value = self.value(name)
        return isinstance(value, Name) and value.text in sites(self.kernel)

    def loops(self, name: str) -> tuple[str, ...]:
        """The loops of a `loops` argument: groups flattened, no loop twice."""
        value = self.value(name)
        items = value.items if isinstance(value, ListValue) else (value,)
        out: list[str] = []
        for item in items:
            assert isinstance(item, Name)
            out += find_loops(self.kernel, self.names, item.text)
        for loop in out:
            if out.count(loop) > 1:
                raise RefusedError("E-NAME", f"loop {loop} is listed twice")
        return tuple(out)

    def site(self, name: str) -> Site:
        """The one loop of a `loop` argument."""
        found = find_loops(self.kernel, self.names, self.word(name))
        if len(found) != 1:
            raise RefusedError("E-NAME", f"{self.word(name)} is a group of {len(found)} loops, one is needed")
        return sites(self.kernel)[found[0]]

    def buffer(self, name: str) -> Buffer:
        """A buffer, global or local."""
        word = self.word(name)
        known = buffers_of(self.kernel)
        if word not in known:
            raise RefusedError(
                "E-NAME", f"there is no buffer {word}", repair=f"buffers: {', '.join(sorted(known))}"
            )
        return known[word]


@dataclass(frozen=True)
class Copied:
    """A block takes a buffer more, which loops that no threads share out fill where it is declared: in the
    body of the loop at `site`.

    `reads` are buffers that are read there too from then on, `frees` those that are no more.
    """

    buffer: Buffer
    site: Site
    reads: frozenset[str] = frozenset()
    frees: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Shared:
    """These loops are shared out along an axis of the block's threads, or of the grid's blocks."""

    loops: tuple[str, ...]
    axis: LoopKind


Takes: TypeAlias = Copied | Shared | None
"""What a block takes after a statement that it did not take before; None: nothing, nor is anything free."""
Transform: TypeAlias = Callable[[Call], Result]
Checked: TypeAlias = Generator[Takes, None, Result]
"""Of a primitive that says what a block takes then: once its preconditions hold, before it makes the result.

It may also return without having said anything.
"""
Primitive: TypeAlias = Transform | Callable[[Call], Checked]
F = TypeVar("F", bound=Primitive)

TRANSFORMS: dict[str, Primitive] = {}
"""By primitive name; filled by the family modules when `evolve.transforms.apply` imports them."""


def transform(name: str) -> Callable[[F], F]:
    """Registers the implementation of a primitive."""

    def register(f: F) -> F:
        TRANSFORMS[name] = f
        return f

    return register


class Begun:
    """A statement whose preconditions hold: what a block takes then, if it was said, and how to go on."""

    def __init__(self, call: Call) -> None:
        """Raises RefusedError when a precondition does not hold."""
        self.has_said = False
        self.takes: Takes = None
        found = TRANSFORMS[call.statement.primitive](call)
        if not isinstance(found, Generator):
            self._result: Result | None = found
            return
        self._rest, self._result = found, None
        try:
            self.takes, self.has_said = next(found), True
        except StopIteration as end:
            self._result = end.value

    def result(self) -> Result:
        """What the statement makes."""
        if self._result is None:
            try:
                next(self._rest)
            except StopIteration as end:
                self._result = end.value
        assert self._result is not None, "a primitive says once what a block takes"
        return self._result


def loop_of(site: Site) -> For:
    """The loop at a site that is known to be one."""
    assert isinstance(site.stmt, For)
    return site.stmt
