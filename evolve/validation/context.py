"""What holds at a place of the text, and what follows from it: by intervals, else by isl.

Products of variables and integers read from memory are to isl numbers that may be anything. All questions are
whether something holds everywhere, so knowing less answers fewer of them and none wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from evolve.ir.poly import IslLimitError, context, limited
from evolve.validation.formula import (
    Compare,
    Every,
    Formula,
    Opaque,
    Some,
    at_least,
    atoms,
    below,
    conjuncts,
    equal,
    is_opaque,
    negation,
)
from evolve.validation.polynomial import Atom, Interval, Poly, bounds, floor, truncated

OPERATIONS = 20_000


@dataclass
class Known:
    """What is remembered of questions that isl answered."""

    answers: dict[str, bool] = field(default_factory=dict)
    exceeded: bool = False
    """Whether one was too hard: then what seems not to follow may well do."""


@dataclass(frozen=True)
class Context:
    """`reads`: for each array that indices are read from, what its elements lie between."""

    ranges: Mapping[str, Interval]
    facts: tuple[Formula, ...] = ()
    reads: Mapping[str, tuple[Poly, Poly]] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    operations: int = OPERATIONS
    """isl's for a question; beyond, nothing follows."""
    asked: tuple[Formula, ...] = ()
    """What is asked before a launch, of which proofs need less."""
    ordered: Mapping[str, Poly] = field(default_factory=dict)
    """For each of these arrays whose elements are in order, the number of the last."""

    def given(self, *more: Formula) -> Context:
        fresh = [x for f in more for x in conjuncts(f) if x not in self.facts and not is_opaque(x)]
        if not fresh:
            return self
        return replace(self, facts=(*self.facts, *fresh), ranges=_narrowed(self.ranges, fresh))

    def ranging(self, name: str, low: int, high: int | None) -> Context:
        return replace(self, ranges={**self.ranges, name: (low, high)})

    def holds(self, f: Formula) -> bool:
        """Whether it holds at every point here."""
        return (f in self.facts and not is_opaque(f)) or self.excludes(negation(f))

    def same(self, p: Poly, q: Poly) -> bool:
        return p == q or self.holds(equal(p, q))

    @property
    def is_empty(self) -> bool:
        return self.excludes(Every())

    def excludes(self, f: Formula) -> bool:
        """Whether it holds nowhere here. False where that is not known."""
        if isinstance(f, Opaque):
            f = Every()
        if isinstance(f, Some):
            return all(self.excludes(x) for x in f.of)
        parts = [x for x in conjuncts(f) if not isinstance(x, Opaque)]
        return any(self._impossible(x) for x in parts) or self._empty(parts)

    def _impossible(self, f: Formula) -> bool:
        if not isinstance(f, Compare):
            return False
        low, high = bounds(f.poly, self.ranges)
        if f.op == ">=":
            if high is not None and high < 0:
                return True
            for g in self.facts:
                if isinstance(g, Compare) and g.op == ">=":
                    total = (f.poly + g.poly).value
                    if total is not None and total < 0:
                        return True
            return False
        if f.op == "==":
            return (low is not None and low > 0) or (high is not None and high < 0)
        zero = (Compare(f.poly, "=="), Compare(f.poly.scale(-1), "=="))
        return low == high == 0 or any(g in self.facts for g in zero)

    def _empty(self, parts: Sequence[Formula]) -> bool:
        facts = self._near(parts)
        text = Text(self)
        body = " and ".join(f"({text.formula(x)})" for x in (*parts, *facts)) or "0 = 0"
        full = text.whole(body)
        if full not in self.known.answers:
            try:
                self.known.answers[full] = _is_empty(full, self.operations)
            except IslLimitError:
                self.known.answers[full], self.known.exceeded = False, True
        return self.known.answers[full]

    def _near(self, parts: Sequence[Formula]) -> list[Formula]:
        """The facts that share an atom with the question, or with such a fact."""
        reached = set().union(*map(atoms, parts)) if parts else None
        if reached is None:
            return list(self.facts)
        left = [(f, atoms(f)) for f in self.facts]
        out: list[Formula] = []
        while True:
            near = [(f, a) for f, a in left if a & reached]
            if not near:
                return sorted(out, key=self.facts.index)
            out += [f for f, _ in near]
            left = [(f, a) for f, a in left if not a & reached]
            reached = reached.union(*(a for _, a in near))

    def quotient(self, p: Poly, d: Poly) -> Poly:
        """p / d as C computes it, d being positive."""
        low, _ = bounds(p, self.ranges)
        n = d.value
        if n is not None and n < 1:
            return truncated(p, d)
        if (low is not None and low >= 0) or self.holds(Compare(p, ">=")):
            return floor(p, d, self.ranges)
        if n is not None and all(c % n == 0 for c in p.terms.values()):
            return floor(p, d, self.ranges)
        return truncated(p, d)


def _narrowed(ranges: Mapping[str, Interval], facts: Sequence[Formula]) -> Mapping[str, Interval]:
    """With what facts about one variable say."""
    out = dict(ranges)
    for f in facts:
        if not isinstance(f, Compare) or f.op != ">=":
            continue
        single = [(m[0].label, c) for m, c in f.poly.terms.items() if len(m) == 1 and m[0].kind == "var"]
        if len(single) != 1 or len(f.poly.terms) > 1 + (() in f.poly.terms):
            continue
        name, c = single[0]
        low, high = out.get(name, (None, None))
        bound = -(f.poly.constant // c) if c > 0 else f.poly.constant // -c
        if c > 0:
            low = bound if low is None else max(low, bound)
        else:
            high = bound if high is None else min(high, bound)
        out[name] = (low, high)
    return out


class Text:
    """Formulas as isl's text. Atoms that it cannot express become parameters, with what is known of them."""

    def __init__(self, place: Context) -> None:
        self.place = place
        self.names: dict[str, str] = {}
        self.extra: list[str] = []

    def whole(self, body: str) -> str:
        constraints = " and ".join([body, *self.extra])
        return f"[{', '.join(self.names.values())}] -> {{ : {constraints} }}"

    def formula(self, f: Formula) -> str:
        match f:
            case Compare(op="!="):
                p = self.poly(f.poly)
                return f"{p} > 0 or {p} < 0"
            case Compare():
                return f"{self.poly(f.poly)} {'=' if f.op == '==' else f.op} 0"
            case Every():
                return " and ".join(f"({self.formula(x)})" for x in f.of) or "0 = 0"
            case Some():
                return " or ".join(f"({self.formula(x)})" for x in f.of) or "0 = 1"
            case Opaque():
                return "0 = 0"

    def poly(self, p: Poly) -> str:
        return " + ".join(f"{c}*{self.monomial(m)}" if m else str(c) for m, c in p.terms.items()) or "0"

    def monomial(self, m: tuple[Atom, ...]) -> str:
        if len(m) == 1:
            return self.atom(m[0])
        name = "*".join(a.name for a in m)
        if name not in self.names:
            self.names[name] = f"p{len(self.names)}"
            self._ranged(self.names[name], bounds(Poly({m: 1}), self.place.ranges))
        return self.names[name]

    def _ranged(self, name: str, span: Interval) -> None:
        low, high = span
        if low is not None:
            self.extra.append(f"{name} >= {low}")
        if high is not None:
            self.extra.append(f"{name} <= {high}")

    def atom(self, a: Atom) -> str:
        if a.kind == "floor" and (d := a.of[1].value) is not None and d > 0:
            return f"floor(({self.poly(a.of[0])})/{d})"
        if a.name in self.names:
            return self.names[a.name]
        name = self.names[a.name] = f"p{len(self.names)}"
        if a.kind == "trunc" and (d := a.of[1].value) is not None and d > 0:
            p, minus = self.poly(a.of[0]), self.poly(a.of[0].scale(-1))
            self.extra.append(
                f"(({p} >= 0 and {name} = floor(({p})/{d})) or ({p} < 0 and {name} = -floor(({minus})/{d})))"
            )
        elif a.kind in ("min", "max"):
            p, q = map(self.poly, a.of)
            less, more = (p, q) if a.kind == "min" else (q, p)
            self.extra.append(f"(({less} <= {more} and {name} = {p}) or ({less} > {more} and {name} = {q}))")
        elif a.kind == "read" and a.label in self.place.reads:
            low, high = self.place.reads[a.label]
            for f in (at_least(Poly({(a,): 1}), low), below(Poly({(a,): 1}), high)):
                self.extra.append(self.formula(f))
        else:
            self._ranged(name, bounds(Poly({(a,): 1}), self.place.ranges))
        return name


def _is_empty(text: str, operations: int) -> bool:
    """Raises IslLimitError."""
    with limited(operations):
        return bool(isl.Set.read_from_str(context(), text).is_empty())
