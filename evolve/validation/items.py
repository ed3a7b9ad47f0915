"""The kernel as one thread runs it: thread and grid loops are conditions, and one thread writes for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evolve.ir.stmt import Reduce, Stmt
from evolve.ir.types import LoopKind
from evolve.validation.formula import Formula
from evolve.validation.polynomial import Poly


@dataclass(frozen=True)
class Total:
    """What is left of a scan: `step` with the sum of all partials, which the text has under a name."""

    step: Reduce
    key: int


@dataclass(frozen=True)
class Run:
    """What is left of entries that were put into `values`: each goes where `update` says, from `base` on."""

    update: Reduce
    values: str
    base: Poly
    number: int


@dataclass(frozen=True)
class Item:
    """A statement of the kernel, still to be found in the text.

    env     what the loop variables around it are there
    axes    thread axes that loops around it are bound to
    guards  conditions under which alone it runs, besides those that `env` is used under
    root    which of the items that were asked for it belongs to
    settled whether guards of its own were added
    """

    stmt: Stmt | Total | Run
    env: Mapping[str, Poly] = field(default_factory=dict)
    axes: frozenset[LoopKind] = frozenset()
    guards: tuple[Formula, ...] = ()
    root: int = 0
    settled: bool = False
