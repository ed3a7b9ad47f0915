"""Where changed programs are tried out before they are proposed: on the kernel, statement by statement.

A statement of another program seldom fits as it stands: the loop it names was cut by another factor
or not at all. `Bench.fit` gives it the loops of the same origin that are there, and leaves it out
where none will do. Only preconditions are looked at; the rest is for the prover.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.program import Statement
from evolve.dsl.registry import statements
from evolve.ir.kernel import Kernel
from evolve.ir.visit import local_buffers
from evolve.search.outline import LOOPS, filled, references, referring, root
from evolve.transforms.apply import apply
from evolve.transforms.edit import sites
from evolve.transforms.names import NameTable

_REMEMBERED = 2048
"""Prefixes of programs that are kept, some 30 kB each for a matrix product."""

_READINGS = 4
"""Other loops tried in place of one that is not there."""

Statements = tuple[Statement, ...]


@dataclass(frozen=True)
class Fitted:
    """Statements that apply, the kernel they make (None: not known), and how many were left out."""

    statements: Statements
    kernel: Kernel | None
    dropped: int


@dataclass
class _State:
    """What a program makes of the kernel, and what each statement tried after it did: None if refused."""

    kernel: Kernel
    names: NameTable
    then: dict[Statement, _State | None] = field(default_factory=dict)


class Bench:
    """Applies statements to one kernel; remembers what common prefixes of programs made of it.

    Without a kernel every statement is taken as it stands.
    """

    def __init__(self, kernel: Kernel | None) -> None:
        self._start = None if kernel is None else _State(kernel, NameTable())
        self._held = 0

    def fit(self, statements: Iterable[Statement], most_dropped: int = 0) -> Fitted | None:
        """The statements made to fit the kernel in turn; None if more than `most_dropped` cannot be."""
        given = tuple(statements)
        if self._start is None:
            return Fitted(given, None, 0)
        self._forget()
        state = self._start
        kept: Statements = ()
        for at, s in enumerate(given):
            for reading in self._readings(state, s):
                after = self._after(state, reading)
                if after is not None:
                    state, kept = after, (*kept, reading)
                    break
            if at + 1 - len(kept) > most_dropped:
                return None
        return Fitted(kept, state.kernel, len(given) - len(kept))

    def plain(self, statements: Iterable[Statement]) -> Statements:
        """An equal program whose loops have their path names and whose copies are named.

        So that the same loop has the same name in all programs of a kernel. A statement that does
        not apply, and those after it, stay as they are.
        """
        given = tuple(statements)
        if self._start is None:
            return given
        self._forget()
        state = bare = self._start
        told: Statements = ()
        for at, s in enumerate(given):
            after = self._after(state, s)
            anew = None if after is None else self._told(state, bare, s)
            bare_after = None if anew is None else self._after(bare, anew)
            if after is None or anew is None or bare_after is None:
                return told + given[at:]
            if len(_named(after.kernel)) != len(_named(bare_after.kernel)):
                return told + given[at:]
            state, bare, told = after, bare_after, (*told, anew)
        return told

    def _told(self, state: _State, bare: _State, s: Statement) -> Statement | None:
        """A statement after `state`, in the names that hold after `bare`, which differs in names only."""
        known = dict(zip(_named(state.kernel), _named(bare.kernel), strict=True))
        groups = {g: tuple(known.get(n, n) for n in loops) for g, loops in state.names.groups.items()}
        told = referring(s, lambda n: groups.get(n) or (known.get(n, n),))
        if told is None:
            return None
        unnamed = replace(told, targets=())
        after = self._after(bare, unnamed)
        if after is None:
            return told
        made = _buffers_made(s, bare.kernel, after.kernel)
        # A buffer keeps the name it was given: nothing else says which of two copies is meant.
        return replace(told, targets=s.targets or made) if made else unnamed

    def _after(self, state: _State, s: Statement) -> _State | None:
        """The state after one statement, its holes filled; None if it is refused."""
        if s not in state.then:
            try:
                state.then[s] = _State(*apply(state.kernel, filled(s), state.names))
            except RefusedError:
                state.then[s] = None
            except Exception:
                # A bug of ours costs a child, not the run, as in `workers.compile_text`.
                if os.environ.get("EVOLVE_DEBUG"):
                    raise
                state.then[s] = None
            self._held += 1
        return state.then[s]

    def _forget(self) -> None:
        if self._held > _REMEMBERED and self._start is not None:
            self._start.then.clear()
            self._held = 0

    def _readings(self, state: _State, s: Statement) -> Iterator[Statement]:
        """The statement, then what it may mean here."""
        yield s
        there = list(sites(state.kernel))
        absent = [n for n in references(s, LOOPS) if n not in there and n not in state.names.groups]
        reading = s
        if absent:
            readings = list(_renamings(s, absent, there))
            yield from readings
            if not readings:
                return
            reading = readings[0]
        members = references(reading, LOOPS)
        if len(members) > 1:
            fits = {
                n for n in members if (one := _without(reading, {*members} - {n})) and self._after(state, one)
            }
            fewer = _without(reading, {*members} - fits)
            if fewer is not None:
                yield fewer


def _without(s: Statement, loops: Set[str]) -> Statement | None:
    """The statement without some loops of its group."""
    return referring(s, lambda n: () if n in loops else (n,))


@lru_cache(maxsize=4)
def bench_for(kernel: Kernel | None) -> Bench:
    """The bench of a kernel, with what it remembers."""
    return Bench(kernel)


def _named(kernel: Kernel) -> tuple[str, ...]:
    """Loops in textual order, then buffers."""
    return (*sites(kernel), *local_buffers(kernel.body))


def _buffers_made(s: Statement, before: Kernel, after: Kernel) -> tuple[str, ...]:
    """The buffers that are a statement's results; none where its results are loops."""
    known = local_buffers(before.body)
    made = tuple(b for b in local_buffers(after.body) if b not in known)
    return made if len(made) == statements()[s.primitive].results[1] else ()


def _renamings(s: Statement, absent: list[str], there: list[str]) -> Iterator[Statement]:
    """The statement with loops of the same root in place of those that are absent.

    Where several are absent they get the same path below their roots, so that a group stays a group.
    """
    of_root = {root(n): [t for t in there if root(t) == root(n)] for n in absent}
    paths = dict.fromkeys(_path(t) for n in absent for t in of_root[root(n)])
    wanted = _path(absent[0])
    for path in sorted(paths, key=lambda p: _distance(p, wanted))[:_READINGS]:

        def here(name: str, path: tuple[str, ...] = path) -> tuple[str, ...]:
            if name not in absent:
                return (name,)
            instead = ".".join((root(name), *path))
            return (instead,) if instead in of_root[root(name)] else ()

        reading = referring(s, here)
        if reading is not None:
            yield reading
    if not paths:
        reading = referring(s, lambda n: () if n in absent else (n,))
        if reading is not None:
            yield reading


def _path(name: str) -> tuple[str, ...]:
    return tuple(name.split(".")[1:])


def _distance(path: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[bool, int, int]:
    """How unlike the role of a loop is: the last step of its path says most of it."""
    common = 0
    while common < min(len(path), len(wanted)) and path[common] == wanted[common]:
        common += 1
    return path[-1:] != wanted[-1:], -common, abs(len(path) - len(wanted))
