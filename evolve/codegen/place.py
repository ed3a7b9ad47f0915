"""Where in a kernel something is emitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evolve.codegen.rendered import LineOrigin
from evolve.ir.expr import Load
from evolve.ir.stmt import For, If, Reduce, Stmt, Store

Path = tuple[For | If, ...]


@dataclass(frozen=True)
class Place:
    """Where a statement is emitted: what encloses it, and in which lane of which VECTOR loop."""

    path: Path = ()
    lane: tuple[str, int] | None = None
    wide: Mapping[Load, str] = field(default_factory=dict)
    """Loads that are lanes of a vector already read: the name of that vector."""
    width: int = 0
    """Lanes of the vectors in `wide`."""
    per_lane: frozenset[str] = frozenset()
    """Register buffers that have one copy a lane."""

    @property
    def loops(self) -> tuple[For, ...]:
        return tuple(p for p in self.path if isinstance(p, For))

    def below(self, step: For | If) -> Place:
        return replace(self, path=(*self.path, step))


def line_origin(s: Stmt, place: Place) -> LineOrigin:
    loops = place.loops
    stmt = s.origin.stmt if isinstance(s, Store | Reduce) and s.origin is not None else None
    span = s.span if isinstance(s, For | If | Store | Reduce) else None
    loop = s.var if isinstance(s, For) else loops[-1].var if loops else None
    note = s.note if isinstance(s, For) else loops[-1].note if loops else ""
    return LineOrigin(stmt, loop, note, span.line if span is not None else None)
