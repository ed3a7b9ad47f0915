"""Device functions that search a nondecreasing array, shown by invariants of their loops.

Symbolic execution: paths through a function are followed with symbols for its integers. A loop's invariant is
the largest inductive set of candidates, found as Houdini finds it: those that do not hold on entry or that
the body does not keep are dropped, until none is. Each loop must end, by a ranking function: some difference
of its variables. An element that is read must be there, and arithmetic must fit its type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evolve.ir.types import DType
from evolve.validation.context import Context
from evolve.validation.formula import Every, Formula, Some, at_least, below, equal, negation
from evolve.validation.integers import MOST_TRIPS, Shape
from evolve.validation.ordered import Ordered
from evolve.validation.parts import names_in
from evolve.validation.polynomial import Poly, bounds, constant, extreme, variable
from evolve.validation.text import (
    Assign,
    Branch,
    Conditional,
    Convert,
    Declare,
    Element,
    Expr,
    Function,
    Group,
    Invoke,
    Loop,
    Name,
    Number,
    Operation,
    Return,
    Stmt,
    While,
    type_of,
)
from evolve.validation.verdict import UnreadError

INTEGER_TYPES = (DType.I32, DType.I64)
_COMPARED: dict[str, Callable[[Poly, Poly], Formula]] = {
    "<": below,
    "<=": lambda a, b: at_least(b, a),
    ">": lambda a, b: below(b, a),
    ">=": at_least,
    "==": equal,
    "!=": lambda a, b: negation(equal(a, b)),
}
_MOST_ROUNDS = 32

Numbers = Mapping[int, Poly]
Candidate = Callable[[Numbers], Formula]


@dataclass(frozen=True)
class Path:
    """What holds on a path through a function, and what its variables are there.

    varying  variables that lanes of a warp may have left each other for
    apart    whether lanes may differ in being here
    whole    whether all lanes of a warp are here together
    ghost    what a subclass keeps
    """

    ctx: Context
    numbers: Numbers
    varying: frozenset[int] = frozenset()
    apart: bool = False
    whole: bool = False
    ghost: Any = None

    def given(self, *facts: Formula) -> Path:
        return replace(self, ctx=self.ctx.given(*facts))

    def having(self, key: int, value: Poly, *, varying: bool = False) -> Path:
        names = self.varying | {key} if varying or self.apart else self.varying - {key}
        return replace(self, numbers={**self.numbers, key: value}, varying=names)


class Searching(ABC):
    """One function executed symbolically. Raises UnreadError for what is not shown."""

    def __init__(self, f: Function, block: Shape, order: Ordered, starts: int, room: int) -> None:
        self.f, self.block, self.order, self.starts, self.room = f, block, order, starts, room
        self.serial = 0
        self.returned: list[tuple[Path, Expr | None]] = []

    # ---- statements

    def run(self, body: Sequence[Stmt], path: Path) -> list[Path]:
        """The paths that reach the end."""
        paths = [path]
        for s in body:
            paths = [q for p in paths for q in self.statement(s, p)]
        return paths

    def statement(self, s: Stmt, path: Path) -> list[Path]:
        match s:
            case Declare() if s.init is not None and s.type in INTEGER_TYPES and not s.shared:
                return self.put(s.key, s.init, path)
            case Assign(target=Name() as name) if type_of(name) in INTEGER_TYPES:
                value = s.value
                if s.op:
                    value = Operation(s.op, (name, s.value), name.type)
                return self.put(name.key, value, path)
            case Branch():
                return self.branch(s, path)
            case While():
                return self.loop(s, path)
            case Loop():
                return self.counted(s, path)
            case Group():
                return self.run(s.body, path)
            case Return():
                self.returned += [(path, s.value)]
                return []
            case _:
                raise UnreadError(f"a {type(s).__name__.lower()} in a function")

    def put(self, key: int, value: Expr, path: Path) -> list[Path]:
        varying, p = self.varies(value, path), self.number(value, path)
        if any(a.kind == "floor" for a in p.atoms()) and self.is_shared(p):
            # Products of a quotient are products of one number.
            self.serial += 1
            q = variable(f"q{self.serial}")
            sign = (
                (at_least(q, constant(0)),) if self.order.follows(path.ctx, at_least(p, constant(0))) else ()
            )
            path, p = path.given(equal(q, p), *sign), q
        return [path.having(key, p, varying=varying)]

    def branch(self, s: Branch, path: Path) -> list[Path]:
        f = self.formula(s.cond, path)
        return self.both(s, path, f, negation(f), apart=path.apart or self.differs(s.cond, f, path))

    def both(self, s: Branch, path: Path, f: Formula, other: Formula, *, apart: bool) -> list[Path]:
        """The two sides of a condition. What either changes, lanes may have left each other for."""
        varying = frozenset(assigned((*s.then, *s.orelse))) if apart else frozenset()
        out = []
        for body, g in ((s.then, f), (s.orelse, other)):
            ends = self.run(body, replace(path.given(g), apart=apart))
            out += [replace(q, apart=path.apart, varying=q.varying | varying) for q in ends]
        return out

    def counted(self, s: Loop, path: Path) -> list[Path]:
        """A loop over numbers that are known is run through."""
        assert s.var.init is not None
        (here,) = self.put(s.var.key, s.var.init, path)
        paths = [here]
        for _ in range(MOST_TRIPS):
            goes_on = {self._decided(s.cond, p) for p in paths}
            if goes_on == {False}:
                return paths
            if goes_on != {True}:
                break
            paths = [q for p in paths for q in self.run((*s.body, s.step), p)]
        raise UnreadError("a loop of unknown length in a function")

    def _decided(self, cond: Expr, path: Path) -> bool:
        f = self.formula(cond, path)
        if path.ctx.holds(f):
            return True
        if path.ctx.excludes(f):
            return False
        raise UnreadError("a loop of unknown length in a function")

    def loop(self, s: While, path: Path) -> list[Path]:
        """`while`; of `do … while` the first iteration is the head of all."""
        changed = sorted(assigned(s.body))
        if any(k not in path.numbers for k in changed if k in self.integers(s.body)):
            raise UnreadError("a variable without a value in a function")
        keys = [k for k in changed if k in path.numbers]
        fresh = dict(path.numbers)
        for k in keys:
            self.serial += 1
            fresh[k] = variable(f"v{self.serial}")
        head = replace(path, numbers=fresh)
        found = list(self.candidates(keys, path))
        if s.after:
            found.append(lambda numbers: self.formula(s.cond, replace(head, numbers=numbers)))
        kept = self.inductive(found, [path])
        apart = path.apart
        for _ in range(_MOST_ROUNDS):
            here = replace(head, apart=apart).given(*(c(fresh) for c in kept))
            cond = self.formula(s.cond, here)
            if not s.after:
                if self.differs(s.cond, cond, here):
                    apart, here = True, replace(here, apart=True)
                ends = again = self.run(s.body, here.given(cond))
            else:
                apart, here = True, replace(here, apart=True)
                ends = self.run(s.body, here)
                again = [e.given(self.formula(s.cond, e)) for e in ends]
            self.same_ghosts(here, ends)
            if not apart and any(e.varying & {*keys} for e in ends):
                apart = True  # what they part over decides when they leave
                continue
            still = self.inductive(kept, again)
            if len(still) < len(kept):
                kept = still
                continue
            self._check_ranked(keys, here.given(*(() if s.after else (cond,))), again)
            left = (
                [e.given(negation(self.formula(s.cond, e))) for e in ends]
                if s.after
                else [here.given(negation(cond))]
            )
            varying = frozenset(keys) if apart else frozenset[int]()
            return [replace(e, apart=path.apart, varying=e.varying | varying) for e in left]
        raise UnreadError("a loop whose invariant is not found")

    def inductive(self, found: Sequence[Candidate], paths: Sequence[Path]) -> list[Candidate]:
        """A round of Houdini: the candidates that hold on all paths, each after those before it."""
        lost = set[int]()
        for path in paths:
            ctx = path.ctx
            for i, c in enumerate(found):
                f = c(path.numbers)
                if self.order.follows(ctx, f):
                    ctx = ctx.given(f)
                else:
                    lost.add(i)
        return [c for i, c in enumerate(found) if i not in lost]

    def _check_ranked(self, keys: Sequence[int], head: Path, ends: Sequence[Path]) -> None:
        """A ranking function: some difference not negative where the loop goes on, and less each time."""

        def difference(a: int | None, b: int | None, numbers: Numbers) -> Poly:
            first, second = (self.order.segments if k is None else numbers[k] for k in (a, b))
            return first - second

        for a in (*keys, None):
            for b in (*keys, None):
                before = difference(a, b, head.numbers)
                if a == b or not self.order.follows(head.ctx, at_least(before, constant(0))):
                    continue
                after = [(e, difference(a, b, e.numbers)) for e in ends]
                if all(self.order.follows(e.ctx, below(x, before)) for e, x in after):
                    return
        raise UnreadError("a loop that may not end")

    # ---- for subclasses

    @abstractmethod
    def candidates(self, keys: Sequence[int], path: Path) -> Iterator[Candidate]:
        """What may hold at the head of a loop that changes these variables."""

    def same_ghosts(self, head: Path, ends: Sequence[Path]) -> None:
        """Raises UnreadError where a loop changes what a subclass keeps."""
        if any(e.ghost != head.ghost for e in ends):
            raise UnreadError("a loop that does more than search")

    def call(self, e: Invoke, path: Path) -> Poly:
        """The value of a call."""
        raise UnreadError(f"{e.name} in a function")

    def is_shared(self, p: Poly) -> bool:
        """Whether a number says nothing of which lane it is of."""
        return True

    def differs(self, e: Expr, f: Formula, path: Path) -> bool:
        """Whether lanes may differ in a condition."""
        return True

    def varies(self, e: Expr, path: Path) -> bool:
        """Whether an expression holds variables that lanes may have left each other for."""
        return any(n.key in path.varying for n in names_in(e))

    # ---- expressions

    def number(self, e: Expr, path: Path) -> Poly:
        """An integer expression's value. Raises UnreadError where it may not fit its type."""
        match e:
            case Number(value=int() as value):
                return constant(value)
            case Name() if e.key in path.numbers:
                return path.numbers[e.key]
            case Convert() if e.type in INTEGER_TYPES and type_of(e.arg) in INTEGER_TYPES:
                return self._fits(self.number(e.arg, path), e.type, path)
            case Operation(op="+" | "-" | "*" | "/" | "%", args=(left, right)) if e.type in INTEGER_TYPES:
                a, b = self.number(left, path), self.number(right, path)
                return self._fits(self._operation(e.op, a, b, path), e.type, path)
            case Element() if e.base.key == self.starts:
                (at,) = e.indices
                return self.order.element(self._inside(self.number(at, path), path))
            case Invoke(name="min" | "max", definition=None):
                p, q = (self.number(a, path) for a in e.args)
                return extreme("min" if e.name == "min" else "max", p, q, path.ctx.ranges)
            case Invoke():
                return self.call(e, path)
            case _:
                raise UnreadError(f"a {type(e).__name__.lower()} in a function")

    def _operation(self, op: str, a: Poly, b: Poly, path: Path) -> Poly:
        if op == "+":
            return a + b
        if op == "-":
            return a - b
        if op == "*":
            return a * b
        divisor = b.value
        if divisor is None or divisor < 1 or not self.order.follows(path.ctx, at_least(a, constant(0))):
            raise UnreadError("a quotient in a function")
        whole = path.ctx.given(at_least(a, constant(0))).quotient(a, b)
        return whole if op == "/" else a - whole * b

    def _fits(self, p: Poly, dtype: Any, path: Path) -> Poly:
        if dtype is DType.I32:
            low, high = bounds(p, path.ctx.ranges)
            least, most = DType.I32.limits
            if low is None or low < least:
                self._show(at_least(p, constant(least)), path, "a number that may not fit 32 bits")
            if high is None or high > most:
                self._show(at_least(constant(most), p), path, "a number that may not fit 32 bits")
        return p

    def _inside(self, at: Poly, path: Path) -> Poly:
        inside = Every((at_least(at, constant(0)), at_least(self.order.segments, at)))
        self._show(inside, path, "an element that may not be there")
        return at

    def _show(self, f: Formula, path: Path, what: str) -> None:
        if not self.order.follows(path.ctx, f):
            raise UnreadError(what)

    def formula(self, e: Expr, path: Path) -> Formula:
        """A condition."""
        match e:
            case Operation(op="&&", args=(left, right)):
                f = self.formula(left, path)
                return Every((f, self.formula(right, path.given(f))))
            case Operation(op="||", args=(left, right)):
                f = self.formula(left, path)
                return Some((f, self.formula(right, path.given(negation(f)))))
            case Operation(op="not", args=(arg,)):
                return negation(self.formula(arg, path))
            case Operation(args=(left, right)) if e.op in _COMPARED and type_of(left) in INTEGER_TYPES:
                return _COMPARED[e.op](self.number(left, path), self.number(right, path))
            case _:
                raise UnreadError("a condition of another form in a function")

    @staticmethod
    def integers(body: Sequence[Stmt]) -> set[int]:
        """Integer variables that statements assign to."""
        return {n.key for n in targets(body) if n.type in INTEGER_TYPES}


def of(key: int, said: Callable[[Poly], Formula]) -> Candidate:
    """What is said of one variable."""
    return lambda numbers: said(numbers[key])


def sides(value: Expr | None, path: Path, machine: Searching) -> Iterator[tuple[Path, Expr]]:
    """A result that depends on a condition, taken apart."""
    if value is None:
        raise UnreadError("a function without a result")
    if isinstance(value, Conditional):
        f = machine.formula(value.cond, path)
        yield from sides(value.then, replace(path.given(f), apart=True), machine)
        yield from sides(value.orelse, replace(path.given(negation(f)), apart=True), machine)
    else:
        yield path, value


def targets(body: Sequence[Stmt]) -> Iterator[Name]:
    """Variables that statements assign to, those that they declare left out."""
    declared = {s.key for s in body if isinstance(s, Declare)}
    for s in body:
        match s:
            case Assign(target=Name() as name) if name.key not in declared:
                yield name
            case Branch():
                yield from (n for n in targets((*s.then, *s.orelse)) if n.key not in declared)
            case Loop():
                yield from (n for n in targets((*s.body, s.step)) if n.key not in declared | {s.var.key})
            case While() | Group():
                yield from (n for n in targets(s.body) if n.key not in declared)
            case _:
                pass


def assigned(body: Sequence[Stmt]) -> set[int]:
    """Keys of these."""
    return {n.key for n in targets(body)}
