"""Text and kernel in step.

The text may do three things that the kernel does not say: ask a condition twice to give each side code of its
own, leave out what never happens at a place, and run the lanes of a vector statement by statement. Under each
condition that it asks, what follows is compared with the kernel under that condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evolve.ir.printer import print_stmt
from evolve.ir.stmt import (
    Barrier,
    Commit,
    For,
    If,
    Leaf,
    Wait,
)
from evolve.ir.types import DType, LoopKind
from evolve.validation.collectives import added, combined, scanned
from evolve.validation.coordinates import COORDINATES, coordinate
from evolve.validation.forms import first_conjunct, first_of_kernel, flat, without_conversion
from evolve.validation.formula import (
    Compare,
    Every,
    Formula,
    Some,
    at_least,
    atoms,
    equal,
    is_opaque,
    negation,
)
from evolve.validation.items import Item, Run, Total
from evolve.validation.lanes import expanded
from evolve.validation.meaning import check_fits, check_readable, condition, index, kernel_index
from evolve.validation.polynomial import constant
from evolve.validation.runs import begins_run, gathered_items, updated_by_run
from evolve.validation.state import AXES, Alias, Index, Local, Place, Shared
from evolve.validation.statements import bind_vector, copied, matched, touched_by_call
from evolve.validation.text import (
    Assign,
    Branch,
    Declare,
    Evaluate,
    Invoke,
    Lane,
    Loop,
    Name,
    Number,
    Operation,
    Stmt,
    Vector,
)
from evolve.validation.upcoming import Upcoming
from evolve.validation.values import same_value
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.witness import unequal, unshown, witness

_BARRIER = "__syncthreads"
_ALL = frozenset(AXES)


class Walk(Upcoming):
    """Compares statements of the text with items of the kernel. Raises DifferenceError and UnreadError."""

    # ---- sequences

    def exact(self, text: Sequence[Stmt], items: Sequence[Item], place: Place) -> None:
        """The text does what the items do, and no more."""
        done = self.consume(text, items, place)
        for rest in items[done:]:
            self._must_be_dead(rest, place)

    def consume(self, text: Sequence[Stmt], items: Sequence[Item], place: Place) -> int:
        """How many of the items the text does; all of the text must be found in them."""
        left = [replace(x, root=i) for i, x in enumerate(items)]
        used = -1
        for s in flat(text):
            used = max(used, self.statement(s, left, replace(place, line=s.line)))
        while left and left[0].root <= used:
            self._must_be_dead(left.pop(0), place)
        return used + 1

    def _must_be_dead(self, item: Item, place: Place) -> None:
        if not self.dead(item, place.context):
            found = self.alive(item, place.context)
            reason = f"the text lacks {_said(item)}"
            if found is None:
                raise unshown(place.context, reason, place.line)
            raise DifferenceError(f"{reason}{found.at()}", place.line)

    def statement(self, s: Stmt, left: list[Item], place: Place) -> int:
        """Finds one statement in the items that are left. The root of the last that was used, -1 for none."""
        match s:
            case Declare():
                return self.declaration(s, left, place)
            case Assign(target=Lane(vector=Name() as name)):
                self._lane(s, name, place)
                return -1
            case Assign():
                return self.leaf(s, left, place)
            case Evaluate(expr=Invoke(name="__syncthreads")):
                return self.barrier(left, place)
            case Evaluate(expr=Invoke()):
                return self.leaf(s, left, place)
            case Branch():
                return self.branch(s, left, place)
            case Loop():
                return self.loop(s, left, place)
            case _:
                raise UnreadError(f"a {type(s).__name__.lower()}", place.line)

    # ---- declarations

    def declaration(self, s: Declare, left: list[Item], place: Place) -> int:
        st = self.state
        if s.shared:
            st.names[s.key] = Shared(s)
            return -1
        if isinstance(s.type, Vector):
            bind_vector(st, s, place)
            return -1
        if s.init is None or not s.const:
            st.names[s.key] = Local(s, place.loops)
            if s.init is None:
                return -1
            target = Name(s.key, s.name, s.type)
            return self.leaf(Assign("", target, s.init, s.line), left, place)
        if st.is_warps and s.name in COORDINATES:
            st.names[s.key] = Index(coordinate(st, s, place))
            return -1
        if s.type in (DType.I32, DType.I64):
            try:
                value = index(st, s.init, place)
                if not any(a.kind == "read" for a in value.atoms()):
                    st.names[s.key] = Index(value)
                    return -1
            except UnreadError:
                pass
        st.names[s.key] = st.alias([s.init], place, is_vector=False)
        return -1

    def _lane(self, s: Assign, name: Name, place: Place) -> None:
        held = self.state.binding(name, place.line)
        assert isinstance(s.target, Lane)
        if not isinstance(held, Alias) or s.op or not held.is_vector or held.place is None:
            raise UnreadError(f"{name.name} is changed", place.line)
        if (held.loops, held.place.conditions) != (place.loops, place.conditions):
            raise UnreadError(f"{name.name} is changed", place.line)
        if held.values[s.target.lane] is not None:
            raise UnreadError(f"a lane of {name.name} is set twice", place.line)
        self.state.check_given(s.value, place)
        held.values[s.target.lane] = s.value
        held.reads |= frozenset(self.state.read_by(s.value))

    # ---- barriers

    def barrier(self, left: list[Item], place: Place) -> int:
        # Two barriers on two sides of a condition are not one that all threads reach.
        if place.divergent:
            raise DifferenceError("a barrier that not all threads reach", place.line)
        head = self.expose(left, place)
        while head is not None and not isinstance(head.stmt, Barrier) and self.drop_dead(left, place):
            head = self.expose(left, place)
        self.state.met()
        if head is not None and isinstance(head.stmt, Barrier) and not head.guards:
            return left.pop(0).root
        return -1

    # ---- conditions

    def branch(self, s: Branch, left: list[Item], place: Place) -> int:
        f = condition(self.state, s.cond, place)
        reads = any(a.kind == "read" for a in atoms(f))
        if not is_opaque(f) and not (reads and isinstance(f, Every)):
            check_readable(self.state, f, place)
            return self._asked(s, f, left, place)
        first, rest = first_conjunct(s.cond)
        if rest is not None and not s.orelse:
            inner = Branch(rest, s.then, (), s.line)
            return self.branch(Branch(first, (inner,), (), s.line), left, place)
        return self._of_data(s, left, place)

    def _asked(self, s: Branch, f: Formula, left: list[Item], place: Place) -> int:
        """Either side is compared with the same items."""
        divergent = place.divergent | _axes(f)
        self.expose(left, place)
        under = self._side(replace(place, context=place.context.given(f), divergent=divergent))
        other = self._side(replace(place, context=place.context.given(negation(f)), divergent=divergent))
        done = self.consume(s.then, left, under)
        if not done and s.orelse:
            done = self.consume(s.orelse, left, other)
            for x in left[:done]:
                self._must_be_dead(x, under)
        else:
            self.exact(s.orelse, left[:done], other)
        root = left[done - 1].root if done else -1
        del left[:done]
        return root

    def _side(self, place: Place) -> Place:
        """One side of a condition."""
        self.state.serial += 1
        return replace(place, conditions=(*place.conditions, self.state.serial))

    def _of_data(self, s: Branch, left: list[Item], place: Place) -> int:
        """A condition on data must be the kernel's own."""
        st = self.state
        head = self.expose(left, place)
        while head is not None and not isinstance(head.stmt, If) and self.drop_dead(left, place):
            head = self.expose(left, place)
        if head is None or not isinstance(head.stmt, If) or head.guards:
            raise UnreadError("a condition on data that the kernel does not have here", place.line)
        inner = replace(place, divergent=_ALL)
        cond = head.stmt.cond
        first, rest = first_of_kernel(cond)
        if rest is not None and not head.stmt.orelse.stmts and not s.orelse:
            same_value(st, s.cond, first, head.env, place)
            then = [replace(head, stmt=replace(head.stmt, cond=rest))]
        else:
            same_value(st, s.cond, cond, head.env, place)
            then = [replace(head, stmt=head.stmt.body)]
        self.exact(s.then, then, self._side(inner))
        self.exact(s.orelse, [replace(head, stmt=head.stmt.orelse)], self._side(inner))
        return left.pop(0).root

    # ---- loops

    def loop(self, s: Loop, left: list[Item], place: Place) -> int:
        st, name = self.state, Name(s.var.key, s.var.name, s.var.type)
        plain = (
            s.var.init == Number(0, s.var.type)  # type: ignore[arg-type]
            and s.step.op == "+"
            and s.step.target == name
            and s.step.value == Number(1, DType.I32)
            and isinstance(s.cond, Operation)
            and s.cond.op == "<"
            and s.var.type in (DType.I32, DType.I64)
        )
        if not plain or not isinstance(s.cond, Operation) or without_conversion(s.cond.args[0]) != name:
            raise UnreadError("a loop of another form", place.line)
        bound = index(st, s.cond.args[1], place)
        check_readable(st, Compare(bound, ">="), place)
        check_fits(st, bound, s.var.type, place)
        if place.context.holds(at_least(constant(0), bound)):
            return -1  # Nothing of it happens, whatever the kernel has.
        head = self.expose(left, place)
        while head is not None and not _is_loop(head) and self.drop_dead(left, place):
            head = self.expose(left, place)
        if head is not None and begins_run(s) and (items := gathered_items(st, head, place)) is not None:
            left[:1] = items
            head = self.expose(left, place)
        if head is None or not isinstance(head.stmt, For) or head.guards or head.stmt.kind.is_combine:
            if place.context.holds(equal(bound, constant(1))):
                return self._once(s, left, place)
            reason = f"a loop over {s.var.name}, where the kernel has {_said(head)}"
            raise self.unmatched(head, place, reason, negation(equal(bound, constant(1))))
        ctx = place.context
        extent = kernel_index(st, head.stmt.extent, head.env, ctx)
        nothing = Every((at_least(constant(0), bound), at_least(constant(0), extent)))
        if not ctx.same(bound, extent) and not ctx.holds(Some((equal(bound, extent), nothing))):
            if self.dead(head, ctx):
                left.pop(0)
                return self.loop(s, left, place)
            if ctx.holds(equal(bound, constant(1))):
                return self._once(s, left, place)
            reason = f"{s.var.name} counts to {bound.text}, {head.stmt.var} to {extent.text}"
            if self.alive(head, ctx) is None or witness(ctx, negation(equal(bound, constant(1)))) is None:
                raise unshown(ctx, reason, place.line)
            raise unequal(ctx, bound, extent, reason, place.line, negation(nothing))
        v, inner = self.counted(s.var.name, extent, ctx)
        st.names[s.var.key] = Index(v)
        differs = _axes(Compare(bound, ">="))
        body = replace(head, stmt=head.stmt.body, env={**head.env, head.stmt.var: v}, settled=False)
        below_place = replace(
            place, context=inner, loops=(*place.loops, v.text), divergent=place.divergent | differs
        )
        self.exact(s.body, [body], below_place)
        return left.pop(0).root

    def _once(self, s: Loop, left: list[Item], place: Place) -> int:
        """A loop of one iteration: the kernel's are taken apart too where they are met."""
        self.state.names[s.var.key] = Index(constant(0))
        return max((self.statement(x, left, replace(place, line=x.line)) for x in flat(s.body)), default=-1)

    # ---- statements that write

    def leaf(self, s: Assign | Evaluate, left: list[Item], place: Place) -> int:
        st = self.state
        while True:
            head = self.expose(left, place)
            if head is not None and _is_loop(head) and _is_vector(head):
                left[:1] = expanded(st, head, place)
                continue
            if head is not None and not head.guards:
                if isinstance(head.stmt, For) and head.stmt.kind.is_scan:
                    return self._scan(s, left, place)
                if isinstance(head.stmt, Run):
                    updated_by_run(st, s, head, place)
                    self._wrote(s)
                    return left.pop(0).root
                if isinstance(head.stmt, Total) and added(st, s, head, head.stmt, place):
                    self._wrote(s)
                    return left.pop(0).root
                if isinstance(head.stmt, For) and head.stmt.kind.is_combine:
                    combined(st, s, head, place)
                    self._wrote(s)
                    return left.pop(0).root
                if isinstance(head.stmt, Leaf):
                    root = matched(st, s, left, place, lambda: self.expose(left, place))
                    self._wrote(s)
                    return root
                if isinstance(head.stmt, Commit | Wait) and copied(s, head.stmt):
                    st.met()
                    return left.pop(0).root
            if not self.drop_dead(left, place):
                raise self.unmatched(head, place, f"the text does what {_said(head)} does not")

    def _scan(self, s: Assign | Evaluate, left: list[Item], place: Place) -> int:
        """The first half of a scan; the second is to be found next."""
        head = left[0]
        left[0] = replace(head, stmt=scanned(self.state, s, head, place), settled=True)
        self._wrote(s)
        return head.root

    def _wrote(self, s: Assign | Evaluate) -> None:
        for key in touched_by_call(s):
            self.state.wrote(key)


def _is_loop(item: Item) -> bool:
    return isinstance(item.stmt, For) and not item.stmt.kind.is_combine and not item.guards


def _is_vector(item: Item) -> bool:
    return isinstance(item.stmt, For) and item.stmt.kind is LoopKind.VECTOR


def _said(item: Item | None) -> str:
    if item is None:
        return "nothing more"
    s = item.stmt
    s = s.step if isinstance(s, Total) else s.update if isinstance(s, Run) else s
    return f"`{print_stmt(s).strip().splitlines()[0]}`"


def _axes(f: Formula) -> frozenset[LoopKind]:
    """Thread axes along which a condition may differ."""
    names = {a.name for a in atoms(f)}
    return frozenset(a for a in AXES if a.value in names)
