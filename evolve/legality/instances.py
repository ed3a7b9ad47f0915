"""Statements with their instances: the parts of a `Model`."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.ir.affine import Ranges, bounds, linear
from evolve.ir.expr import Expr, Load
from evolve.ir.narrow import copied
from evolve.ir.poly import Frame, IslObject
from evolve.ir.stmt import Buffer, Leaf, Reduce
from evolve.ir.visit import Site

Moment = tuple[int | str, ...]
"""A time: integers are positions in the text, strings are loop variables."""


class ModelError(Exception):
    """The kernel has no meaning in this model; `refuted` if it is wrong rather than beyond analysis."""

    def __init__(self, code: str, message: str, *, refuted: bool = True, witness: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.refuted = refuted
        self.witness = witness


def constant_at(e: Expr, ranges: Ranges) -> int | None:
    """The value of an INDEX expression when `ranges` settle it."""
    low, high = bounds(linear(e, ranges), ranges)
    return low if low == high else None


def value_at(frame: Frame, x: Expr | str | int) -> IslObject:
    """A loop variable, a number or an expression as a function of the instance."""
    if isinstance(x, int):
        return frame.constant(x)
    return frame.env[x] if isinstance(x, str) else frame.affine(x)


def times_of(frame: Frame, time: Moment, instances: IslObject) -> IslObject:
    """Instances to the values that the time has in them."""
    return frame.map_to("", [value_at(frame, x) for x in time]).intersect_domain(instances)


@dataclass(frozen=True)
class Read:
    """A load in the value of a statement: `slot` counts loads in evaluation order.

    `instances`: those that evaluate it. `opaque`: its subscripts are not affine.
    `twin`: the first slot that loads the same at the same instances, often the slot itself.
    """

    slot: int
    load: Load
    instances: IslObject
    opaque: bool
    twin: int


@dataclass(frozen=True)
class Statement:
    """A leaf with its instances: loop variables, then the thread axes it is replicated over, then the
    integers read from memory that decide whether it runs (`Frame.terms`). `launch` counts from 0."""

    name: str
    leaf: Leaf
    site: Site
    frame: Frame
    instances: IslObject
    blocks: tuple[Expr | str | int, ...]
    threads: tuple[str | int, ...]
    time: Moment
    reads: tuple[Read, ...]
    launch: int = 0

    @property
    def loop_dims(self) -> tuple[str, ...]:
        """The dimensions that are loops, outermost first."""
        return tuple(x.var for x in self.site.loops)

    @property
    def is_copy(self) -> bool:
        """A staging copy: no origin, one load, at most rounded."""
        return copied(self.leaf) is not None

    @property
    def is_combine(self) -> bool:
        """Folds a partial into an accumulator."""
        return isinstance(self.leaf, Reduce) and self.leaf.origin is None


@dataclass(frozen=True)
class BarrierPoint:
    """A barrier's instances and time; also the one inside a block-wide combine."""

    frame: Frame
    instances: IslObject
    time: Moment
    site: Site


@dataclass(frozen=True)
class Declared:
    """A local buffer and where its Alloc stands."""

    buffer: Buffer
    site: Site
