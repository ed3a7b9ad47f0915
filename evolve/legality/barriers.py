"""Places the barriers that a kernel needs; the prover then checks that they suffice.

Each race between threads of one block is cut at the place where the paths of the two accesses part:
between the two statements of the block that hold them, or, when the race is carried by a loop, at
the end of that loop's body. That is the outermost place that can help, so barriers stand as shallow
as possible. Barriers that turn out redundant are taken out again, deepest first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import UnionType

import islpy as isl

from evolve.ir.data import step_terms
from evolve.ir.kernel import Kernel
from evolve.ir.launches import joined, launches
from evolve.ir.poly import IslLimitError, NonAffineError, limited
from evolve.ir.stmt import Barrier, Block, For, If, Reduce, Stmt, Store, Wait
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site
from evolve.legality.analysis import SET_UP, Analysis, analysis_of, facts_of, plain, strip
from evolve.legality.conflicts import Race
from evolve.legality.instances import ModelError, Moment, Statement
from evolve.legality.memory import remembered
from evolve.legality.model import Model
from evolve.legality.uniform import why_not_uniform
from evolve.legality.verdict import Limits

_MOST = 64
_KEEP = 256

Change = Callable[[tuple[Stmt, ...], int], tuple[Stmt, ...]]
Path = tuple[int, ...]
"""Child numbers from the kernel's body down; an If's else side counts on after its body."""


@dataclass(frozen=True)
class Gap:
    """Before child `position` of the block at `path` (after all when it equals their number)."""

    path: Path
    position: int


def place(kernel: Kernel, limits: Limits | None = None) -> Kernel:
    """The kernel with barriers afresh: those it had are taken out first.

    When no barrier can help (races between blocks, no uniform place) or the analysis gives up, the
    result lacks what it lacks, and the prover refuses it. Each launch has barriers of its own.
    """
    parts = launches(kernel)
    if parts != (kernel,):
        return joined(kernel, [place(part, limits) for part in parts])
    operations = (limits or Limits()).operations
    bare = replace(kernel, body=strip(kernel.body))
    same = plain(bare)
    found = remembered("placed", (same, operations), _KEEP, lambda: _place(same, operations))
    return replace(bare, body=_like(bare.body, found.body))


def _place(current: Kernel, operations: int) -> Kernel:
    try:
        # Set-up between the queries proper, which have a limit each, is limited too.
        with limited(SET_UP * operations):
            analysis = analysis_of(current, facts_of(current), operations)
            hopeless: frozenset[tuple[str, str]] = frozenset()
            for _ in range(_MOST):
                model = analysis.model(current)
                race = analysis.first_left(model, hopeless)
                if race is None:
                    return _minimal(current, analysis, hopeless)
                gap = _gap(current, model, race, operations)
                if gap is None or _has_barrier(current.body, gap):
                    hopeless |= {(race.first.name, race.second.name)}
                else:
                    current = replace(current, body=_insert(current.body, gap.path, gap.position))
    except (ModelError, NonAffineError, IslLimitError):
        pass
    return current


def _like(body: Block, placed: Block) -> Block:
    """The body with barriers where `placed` has them, which is the same but for what changes no meaning."""
    own = iter(body.stmts)
    return Block(tuple(s if isinstance(s, Barrier) else _with_barriers(next(own), s) for s in placed.stmts))


def _with_barriers(s: Stmt, placed: Stmt) -> Stmt:
    match s, placed:
        case Block(), Block():
            return _like(s, placed)
        case For(), For():
            return replace(s, body=_like(s.body, placed.body))
        case If(), If():
            return replace(s, body=_like(s.body, placed.body), orelse=_like(s.orelse, placed.orelse))
        case _:
            return s


def _has_barrier(body: Block, gap: Gap) -> bool:
    """Whether a barrier stands there already, so that another one changes nothing."""
    found = _paths(body, Barrier)
    return any((*gap.path, at) in found for at in (gap.position - 1, gap.position))


def _gap(kernel: Kernel, model: Model, race: Race, operations: int) -> Gap | None:
    """Where a barrier separates a sample of the race; None when no uniform place can."""
    with limited(operations):
        first, second = _sample(race)
        one, two = _done(kernel, model, race.first, first), _done(kernel, model, race.second, second)
    begins = dict(zip((s.name for s in model.statements), _paths(kernel.body, Store | Reduce), strict=True))
    for early, late, at in ((one, race.second, second), (two, race.first, first)):
        for a, x, y in zip(early.values, early.time, late.time, strict=False):
            b = at[y] if isinstance(y, str) else y
            if a > b:
                break
            if a < b and isinstance(x, str) and isinstance(y, str):
                return _carried(kernel, model, x)
            if a < b:
                return _between(kernel, model, early.path, begins[late.name])
    return None


@dataclass(frozen=True)
class _Done:
    """When and where an instance has happened: where it stands, but for a copy that is only started there."""

    time: Moment
    values: tuple[int, ...]
    path: Path


def _done(kernel: Kernel, model: Model, st: Statement, at: dict[str, int]) -> _Done:
    waits = [p for p in model.points if isinstance(p.stmt, Wait)]
    for p, path in zip(waits, _paths(kernel.body, Wait), strict=True):
        values = model.landing(st, at, p)
        if values is not None:
            return _Done(p.time, values, path)
    number = model.statements.index(st)
    own = tuple(at[x] if isinstance(x, str) else x for x in st.time)
    return _Done(st.time, own, _paths(kernel.body, Store | Reduce)[number])


def _sample(race: Race) -> tuple[dict[str, int], dict[str, int]]:
    point = race.pairs.wrap().sample_point()
    n = race.pairs.dim(isl.dim_type.in_)
    values = [
        int(point.get_coordinate_val(isl.dim_type.set, i).to_python())
        for i in range(point.get_space().dim(isl.dim_type.set))
    ]
    one = dict(zip(race.first.frame.dims, values[:n], strict=True))
    two = dict(zip(race.second.frame.dims, values[n:], strict=True))
    return one, two


def _carried(kernel: Kernel, model: Model, var: str) -> Gap | None:
    """At the end of the body of loop `var`."""
    found = _find_loop(kernel.body, var, ())
    if found is None:
        return None
    path, loop = found
    gap = Gap(path, len(loop.body.stmts))
    return gap if _uniform(kernel, model, gap.path) else None


def _between(kernel: Kernel, model: Model, early: Path, late: Path) -> Gap | None:
    """In the innermost block that holds both, before the later one."""
    common = 0
    while early[common] == late[common]:
        common += 1
    gap = Gap(late[:common], late[common])
    return gap if _uniform(kernel, model, gap.path) else None


def _uniform(kernel: Kernel, model: Model, path: Path) -> bool:
    """Whether all threads of a block come to the block at `path` together, as often as the prover can say."""
    around, sides = _enclosing(kernel.body, path)
    if any(step_terms(step) for step in around):
        return False
    return why_not_uniform(model, Site(Barrier(), around, sides), LoopKind.THREAD_X) is None


def _blocks(s: Stmt) -> tuple[Block, ...]:
    match s:
        case Block():
            return (s,)
        case For():
            return (s.body,)
        case If():
            return (s.body, s.orelse)
        case _:
            return ()


def _child(s: Stmt, number: int) -> tuple[Stmt, bool]:
    """Child `number` of a container, and whether it is on an else side."""
    for i, block in enumerate(_blocks(s)):
        if number < len(block.stmts):
            return block.stmts[number], i == 1
        number -= len(block.stmts)
    raise IndexError(number)


def _enclosing(body: Block, path: Path) -> tuple[tuple[For | If, ...], tuple[bool, ...]]:
    around: list[For | If] = []
    sides: list[bool] = []
    here: Stmt = body
    for number in path:
        here, _ = _child(here, number)
        if isinstance(here, For | If):
            around.append(here)
    sides = [False] * sum(isinstance(s, If) for s in around)
    return tuple(around), tuple(sides)


def _paths(s: Stmt, kinds: type | UnionType, path: Path = ()) -> list[Path]:
    """Paths of all statements of these kinds (which contain no others), in text order."""
    if isinstance(s, kinds):
        return [path]
    out: list[Path] = []
    number = 0
    for block in _blocks(s):
        for x in block.stmts:
            out += _paths(x, kinds, (*path, number))
            number += 1
    return out


def _find_loop(s: Stmt, var: str, path: Path) -> tuple[Path, For] | None:
    if isinstance(s, For) and s.var == var:
        return path, s
    number = 0
    for block in _blocks(s):
        for x in block.stmts:
            found = _find_loop(x, var, (*path, number))
            if found is not None:
                return found
            number += 1
    return None


def _insert(body: Block, path: Path, position: int) -> Block:
    return _edit(body, path, lambda stmts, at: (*stmts[:at], Barrier(), *stmts[at:]), position)


def _remove(body: Block, path: Path) -> Block:
    return _edit(body, path[:-1], lambda stmts, at: (*stmts[:at], *stmts[at + 1 :]), path[-1])


def _edit(body: Block, path: Path, change: Change, position: int) -> Block:
    """Apply `change` to the statements of the block at `path`, at `position` in it."""
    if not path:
        return Block(change(body.stmts, position))
    number = path[0]
    s = body.stmts[number]
    rest = path[1:]
    new: Stmt
    match s:
        case Block():
            new = _edit(s, rest, change, position)
        case For():
            new = replace(s, body=_edit(s.body, rest, change, position))
        case If():
            here = rest[0] if rest else position
            n = len(s.body.stmts)
            if here < n or (here == n and not rest and not s.orelse.stmts):
                new = replace(s, body=_edit(s.body, rest, change, position))
            elif rest:
                moved = (rest[0] - n, *rest[1:])
                new = replace(s, orelse=_edit(s.orelse, moved, change, position))
            else:
                new = replace(s, orelse=_edit(s.orelse, rest, change, position - n))
        case _:
            raise IndexError(path)
    return Block((*body.stmts[:number], new, *body.stmts[number + 1 :]))


def _minimal(kernel: Kernel, analysis: Analysis, hopeless: frozenset[tuple[str, str]]) -> Kernel:
    """Without the barriers that others make redundant, deepest tried first."""
    found = _paths(kernel.body, Barrier)
    if len(found) < 2:
        return kernel
    for path in sorted(found, key=lambda p: (-len(p), p)):
        trial = replace(kernel, body=_remove(kernel.body, path))
        if analysis.first_left(analysis.model(trial), hopeless) is None:
            return _minimal(trial, analysis, hopeless)
    return kernel
