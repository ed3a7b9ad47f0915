"""The condition of a variant in the host function: what the variant needs, no more and no less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from evolve.codegen.rendered import RenderedVariant
from evolve.ir.expr import TRUE, Binary, BinaryOp, Const, Var
from evolve.ir.expr import Expr as Term
from evolve.ir.kernel import Module, Variant
from evolve.ir.scope import conjuncts
from evolve.ir.visit import leaves
from evolve.validation.context import Context
from evolve.validation.formula import Compare, Formula, at_least, below, equal, negation
from evolve.validation.host import Node
from evolve.validation.host_sizes import BEYOND, HostSizes
from evolve.validation.meaning import kernel_condition, kernel_index
from evolve.validation.polynomial import Poly, constant
from evolve.validation.state import State
from evolve.validation.verdict import DifferenceError
from evolve.validation.witness import happens, unequal

ALIGNED = 256
"""Bytes that memory from the driver begins at a multiple of."""
_COMPARED: dict[str, Callable[[Poly, Poly], Formula]] = {
    "<=": lambda a, b: at_least(b, a),
    ">=": at_least,
    "<": below,
    ">": lambda a, b: below(b, a),
    "==": equal,
    "!=": lambda a, b: negation(equal(a, b)),
}
_SAME = {
    "==": BinaryOp.EQ,
    "!=": BinaryOp.NE,
    "<": BinaryOp.LT,
    "<=": BinaryOp.LE,
    ">": BinaryOp.GT,
    ">=": BinaryOp.GE,
}


@dataclass
class Guards:
    """`names` of parameters and scratch arrays by key, `known` function objects, `context` of all sizes."""

    module: Module
    state: State
    sizes: HostSizes
    context: Context
    names: dict[int, str] = field(default_factory=dict)
    known: dict[int, str] = field(default_factory=dict)

    def check(self, variant: Variant, made: RenderedVariant, cond: Node | None) -> Context:
        """What holds behind the condition. Raises DifferenceError where the variant needs something else."""
        asked = [] if cond is None else conditions(cond)
        wanted = [t for t in conjuncts((made.guard,)) if t != TRUE]
        marks = _marks(variant, made)
        # What is computed of sizes below 1 is of no account: that they are not is asked as well.
        sizes = {e[2][1] for e in asked if e[:2] == ("op", ">=") and e[2][0] == "name" and _is_one(e[3])}
        positive = {self.sizes.names[k]: (1, None) for k in sizes if k in self.sizes.names}
        context = replace(self.context, ranges={**self.context.ranges, **positive})
        formulas: list[Formula] = []
        data: list[Node] = []
        pairs: dict[frozenset[str], tuple[Poly, Poly]] = {}
        for e in asked:
            mark = self._mark(e)
            if mark is not None:
                if mark not in marks:
                    raise DifferenceError(f"the launch asks for {mark[0]}, which no kernel needs")
                marks.discard(mark)
                continue
            apart = self._apart(e, context)
            if apart is not None:
                pairs[apart[0]] = apart[1]
                continue
            f = self.formula(e, context)
            if f is None:
                data.append(e)
            else:
                formulas.append(f)
                context = context.given(f)
        for missing in marks:
            raise DifferenceError(f"the launch does not ask for {missing}")
        self._same_conditions(wanted, formulas, data)
        self._same_pairs(variant, pairs, context)
        return context

    def _mark(self, e: Node) -> tuple[object, ...] | None:
        match e:
            case (
                "op",
                "==",
                (
                    "op",
                    "%",
                    ("cast", "unsigned long long", ("name", key, _)),
                    ("cast", "unsigned long long", ("num", size)),
                    "unsigned long long",
                ),
                ("cast", "unsigned long long", ("num", 0)),
                _,
            ) if key in self.names:
                return ("aligned", self.names[key], size)
            case ("op", "!=", ("name", key, _), ("null",), _) if key in self.names:
                return ("there", self.names[key])
            case ("call", ("name", key, _), (("name", _, kernel), ("num", size))) if (
                self.known.get(key) == "allowed"
            ):
                return ("allowed", kernel, size)
            case _:
                return None

    def _apart(self, e: Node, context: Context) -> tuple[frozenset[str], tuple[Poly, Poly]] | None:
        """Two arrays, in the order of their names, and how many bytes of each."""
        match e:
            case ("call", ("name", key, _), (a, a_size, b, b_size)) if self.known.get(key) == "apart":
                first, second = self.pointer(a), self.pointer(b)
                sizes = {
                    first: self.sizes.number(a_size, context),
                    second: self.sizes.number(b_size, context),
                }
                if len(sizes) != 2:
                    raise DifferenceError(f"{first} is asked to be apart from itself")
                x, y = sorted(sizes)
                return frozenset(sizes), (sizes[x], sizes[y])
            case _:
                return None

    def pointer(self, e: Node) -> str:
        while e[0] == "cast" and str(e[1]).endswith("*"):
            e = e[2]
        if e[0] != "name" or e[1] not in self.names:
            raise DifferenceError("an argument that is no parameter")
        return self.names[e[1]]

    def formula(self, e: Node, context: Context) -> Formula | None:
        """A condition on sizes; None for one on other numbers."""
        match e:
            case ("op", "<=", left, ("num", float() as limit), _) if limit <= BEYOND:
                # In floating point, with much more room than it rounds away.
                return at_least(constant(int(BEYOND)), self.sizes.rough(left))
            case ("op", op, left, right, _) if op in _COMPARED:
                if not (self.sizes.in_(left) or self.sizes.in_(right)):
                    return None
                return _COMPARED[op](self.sizes.number(left, context), self.sizes.number(right, context))
            case ("op", "!", inner, None, _):
                f = self.formula(inner, context)
                return None if f is None else negation(f)
            case _:
                return None

    def _same_conditions(self, wanted: Sequence[Term], asked: Sequence[Formula], data: list[Node]) -> None:
        """Each follows from the others, whichever way they are written."""
        left = list(data)
        formulas: list[Formula] = []
        for t in wanted:
            found = next((e for e in left if self._same_data(e, t)), None)
            if found is not None:
                left.remove(found)
                continue
            formulas.append(kernel_condition(self.state, t, {}, self.context))
        if left:
            raise DifferenceError("the launch asks what no kernel needs")
        given, needed = self.context.given(*asked), self.context.given(*formulas)
        for f in formulas:
            if not given.holds(f):
                raise happens(given, negation(f), "the launch does not ask what a kernel needs")
        for f in asked:
            beyond = isinstance(f, Compare) and f.poly.constant == int(BEYOND)
            if not beyond and not needed.holds(f):
                raise happens(needed, negation(f), "the launch asks more than the kernels need")

    def _same_data(self, e: Node, t: Term) -> bool:
        """Whether a condition on a parameter that is no size is the kernel's."""
        match e, t:
            case ("op", op, ("name", key, _), number, _), Binary(lhs=Var(name), rhs=Const(value)):
                same = {"==": BinaryOp.EQ, "!=": BinaryOp.NE, "<": BinaryOp.LT, "<=": BinaryOp.LE}
                same |= {">": BinaryOp.GT, ">=": BinaryOp.GE}
                plain = number[2] if number[0] == "cast" else number
                return bool(self.names.get(key) == name and same.get(op) is t.op and plain == ("num", value))
            case _:
                return False

    def _same_pairs(
        self, variant: Variant, pairs: dict[frozenset[str], tuple[Poly, Poly]], context: Context
    ) -> None:
        """Each two arrays of which one is written lie apart, as far as a parameter says how long they are."""
        written = {x.buffer for k in variant.kernels for x, _ in leaves(k.body)}
        implied = {s.name for s in self.module.scalars if s.implied}
        lengths: dict[str, Poly] = {}
        for buffer in self.module.buffers:
            length = constant(buffer.dtype.size)
            for x in buffer.extents:
                length = length * kernel_index(self.state, x, {}, context)
            if not {a.name for a in length.atoms()} & implied and buffer.name in self.module.params:
                lengths[buffer.name] = length
        for a, b in combinations(sorted(lengths), 2):
            if not {a, b} & written:
                continue
            found = pairs.get(frozenset((a, b)))
            if found is None:
                raise DifferenceError(f"{a} and {b} are not asked to be apart")
            for p, q in zip(found, (lengths[a], lengths[b]), strict=True):
                if not context.same(p, q):
                    raise unequal(context, p, q, f"{a} and {b} are longer than is asked")


def _marks(variant: Variant, made: RenderedVariant) -> set[tuple[object, ...]]:
    """What a variant needs besides: arrays that are aligned or there, shared memory that the driver gives."""
    aligned: dict[str, int] = {}
    for p in (p for x in made.launches for p in x.params if p.aligned):
        if not p.is_scratch:
            aligned[p.name] = max(p.aligned, aligned.get(p.name, 0))
        elif p.aligned > ALIGNED:
            raise DifferenceError(f"{p.name} needs more alignment than it has")
    return {
        *(("aligned", n, size) for n, size in aligned.items()),
        *(("there", f.buffer) for f in variant.flagged),
        *(("allowed", x.kernel, x.shared_bytes) for x in made.launches if x.shared_bytes),
    }


def conditions(e: Node) -> list[Node]:
    """The operands of a conjunction."""
    if e[0] == "op" and e[1] == "&&":
        return [*conditions(e[2]), *conditions(e[3])]
    return [e]


def _is_one(e: Node) -> bool:
    return e in (("num", 1), ("cast", "long long", ("num", 1)))
