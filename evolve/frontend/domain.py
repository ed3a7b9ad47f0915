"""Thread indices and guards become parallel loops.

A guard `index < n` around everything a thread does bounds the grid-wide index; `index / cols` and
`index % cols` split it in two; a guard away from the border shifts the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial, variable
from evolve.frontend.prove import Known, facts_of, negate, nonnegative, simplify, variable_atom
from evolve.frontend.refuse import RefusalError
from evolve.frontend.tidy import substitute, tidy, used
from evolve.ir.expr import Binary, BinaryOp, Expr, Var, compare
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Block, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import loads, map_stmt_exprs, subexpressions, walk

_AXIS_NAMES = tuple(f"${what}.{a}" for what in ("blockIdx", "global", "threadIdx") for a in "zyx")
"""Indices that can be loops, outermost first: of blocks, of threads in the grid, of threads in a block."""


@dataclass(frozen=True)
class Axis:
    """A parallel loop: internal variable name, extent, and the axis (2 = z … 0 = x) it came from."""

    name: str
    extent: Poly
    axis: int


@dataclass
class Domain:
    """Parallel loops, outermost first; what the thread variables are in terms of them; what is left to do.

    reach    how many values each index takes (`$global.x`, …), as a polynomial over the scalars
    implied  indices that only a guard bounds which moves with loops
    """

    loops: list[Axis]
    substitution: dict[str, Poly]
    body: list[Stmt]
    known: Known
    reach: dict[str, Poly] = field(default_factory=dict)
    implied: set[str] = field(default_factory=set)


def domain_of(
    body: list[Stmt],
    lowest: tuple[tuple[str, int], ...],
    registers: frozenset[str],
    line: int,
    launched: Mapping[str, Poly],
) -> Domain:
    """Find the domain.

    `launched` says how many values an index takes where the launch tells it: it bounds an index without a
    guard. Raises UnboundedError when nothing bounds an index that is used, RefusalError for other reasons.
    """
    conds, inner = _peel(body, registers)
    if not any(
        isinstance(s.stmt, Store | Reduce) and s.stmt.buffer not in registers
        for s in walk(Block(tuple(inner)))
    ):
        raise RefusalError(line, "kernel", "it writes no memory")
    facts = [_Condition(c, facts_of(c)) for c in conds]
    facts += [_Condition(c, facts_of(c), True, moves) for c, moves in _implied(inner, registers)]
    names = used([*inner, *(If(c, Block(())) for c in conds)])
    for name in sorted(n for n in names if n.startswith("$")):
        whole = f"$global.{name[-1]}"
        if name not in _AXIS_NAMES or (name != whole and whole in names):
            raise RefusalError(line, name[1:], "it is used other than in blockIdx * blockDim + threadIdx")
    known = Known(lowest=lowest)
    domain = Domain([], {}, inner, known)
    for name in _AXIS_NAMES:
        if name in names:
            _bound_axis(domain, name, facts, line, launched)
    _tighten(domain, facts)
    known = Known(lowest=lowest)
    for loop in domain.loops:
        known = known.inside(loop.name, loop.extent)
    domain.known = known
    rest = [c.expr for c in facts if not c.spent and not c.implied]
    left = _substitute_all(domain.body, domain.substitution)
    for cond in reversed([substitute(c, domain.substitution) for c in rest]):
        left = [If(cond, Block(tuple(left)))]
    domain.body = list(tidy(Block(tuple(left)), known).stmts)
    return domain


class UnboundedError(RefusalError):
    """Nothing says how many values the index `name` takes."""

    def __init__(self, line: int, name: str) -> None:
        what = f"the thread index in {name[-1]}" if name.startswith("$global") else name[1:]
        how = "compare it with a size, or have a <<<>>> in the file whose sizes are the kernel's parameters"
        super().__init__(line, "kernel", f"no guard bounds {what}: {how}")
        self.name = name


@dataclass
class _Condition:
    """`implied`: by a guard inside of loops; `moves`: that one says different things in their iterations."""

    expr: Expr
    facts: tuple[Poly, ...]
    implied: bool = False
    moves: bool = False
    spent: bool = False


def _peel(body: list[Stmt], registers: frozenset[str]) -> tuple[list[Expr], list[Stmt]]:
    """Guards around everything that touches memory, and what they guard.

    Statements beside a guard that only set registers move inside: nobody sees them outside.
    """
    conds: list[Expr] = []
    while True:
        at = [k for k, s in enumerate(body) if not _private(s, registers)]
        if len(at) != 1:
            return conds, body
        guard = body[at[0]]
        if not isinstance(guard, If) or loads(guard.cond):
            return conds, body
        then, orelse, cond = guard.body, guard.orelse, guard.cond
        if not then.stmts and orelse.stmts:
            then, orelse, cond = orelse, then, negate(cond)
        if orelse.stmts and not all(_private(s, registers) for s in orelse.stmts):
            return conds, body
        conds += conjuncts((cond,))
        body = [*body[: at[0]], *then.stmts, *body[at[0] + 1 :]]


def _implied(body: list[Stmt], registers: frozenset[str]) -> list[tuple[Expr, bool]]:
    """What a thread that touches memory must satisfy when all it does is loops around a guard.

    With each whether the guard moves with a loop.

    `for k in 0..4: if 4*i + k < n` does something only where `4*i < n`.
    """
    active = [s for s in body if not _private(s, registers)]
    if len(active) != 1 or not isinstance(active[0], For):
        return []
    loop = active[0]
    conds, inner = _peel(list(loop.body.stmts), registers)
    out: list[tuple[Expr, bool]] = []
    for cond, moves in [*((c, False) for c in conds), *_implied(inner, registers)]:
        for fact in facts_of(cond):
            if fact.reads:
                continue
            parts = fact.coefficient(variable_atom(loop.var))
            slope = parts[0].constant if parts is not None else None
            if parts is None or slope is None:
                continue
            best = parts[1] if slope <= 0 else parts[1] + parts[0] * (polynomial(loop.extent) - ONE)
            out.append((compare(BinaryOp.GE, expression(best), 0), moves or slope != 0))
    return out


def _private(s: Stmt, registers: frozenset[str]) -> bool:
    """Whether a statement reads and writes nothing but registers (its loops run over registers only)."""
    for site in walk(Block((s,))):
        if isinstance(site.stmt, Store | Reduce) and site.stmt.buffer not in registers:
            return False
    return True


def _all_exprs(stmts: Iterable[Stmt]) -> list[Expr]:
    out: list[Expr] = []

    def keep(e: Expr) -> Expr:
        out.append(e)
        return e

    for s in stmts:
        map_stmt_exprs(s, keep)
    return out


def _bound_axis(
    domain: Domain, name: str, conds: list[_Condition], line: int, launched: Mapping[str, Poly]
) -> None:
    axis = "xyz".index(name[-1])
    splits = _boundaries(name, [*domain.body, *(If(c.expr, Block(())) for c in conds)], line)
    top = splits[-1] if splits else None
    best: tuple[_Condition, Poly] | None = None
    for c in conds:
        bound = _upper(name, c)
        if bound is None:
            continue
        if best is None or (
            top is not None and best[1].divide(top)[1].terms and not bound.divide(top)[1].terms
        ):
            best = (c, bound)
    if best is not None and best[0].moves:
        domain.implied.add(name)
        if name.startswith("$threadIdx") and _is_less(launched.get(name), best[1], domain.known):
            # Loops take the block further, as their guard, which stays, says.
            best = None
    if best is not None:
        best[0].spent = True
        extent = best[1]
    elif name in launched:
        extent = launched[name]
    else:
        raise UnboundedError(line, name)
    domain.reach[name] = extent
    sizes: list[Poly] = []
    for low, high in pairwise([ONE, *splits, extent]):
        size, rest = high.divide(low)
        if rest.terms:
            raise RefusalError(
                line,
                "division of a thread index",
                f"the number of threads, {_show(extent)}, is not a multiple of {_show(low)} that can be seen",
            )
        sizes += _factors(size, [n for n, _ in domain.known.lowest])
    if len(sizes) == 1:
        domain.loops.append(Axis(name, extent, axis))
        domain.substitution[name] = variable(name)
        return
    total, stride = Poly(()), ONE
    made: list[Axis] = []
    for k, size in enumerate(sizes):
        if size != ONE:
            digit = f"{name}.{k}"
            made.append(Axis(digit, size, axis))
            total = total + variable(digit) * stride
        stride = stride * size
    domain.loops += reversed(made)
    domain.substitution[name] = total


def _is_less(block: Poly | None, bound: Poly, known: Known) -> bool:
    """Whether a block of a known number of threads may have fewer than `bound`."""
    return block is not None and block.constant is not None and not nonnegative(block - bound, known)


def _factors(size: Poly, scalars: list[str]) -> list[Poly]:
    """Loops with as many iterations as a product of scalars, innermost first: later parameters vary faster.

    One loop over a product is nothing that can be proved about: its accesses are not affine.
    """
    if len(size.terms) != 1:
        return [size]
    atoms, factor = size.terms[0]
    names = [a.name for a in atoms if isinstance(a, Var) and a.name in scalars]
    if len(names) < 2 or len(names) != len(atoms) or factor < 1:
        return [size]
    inner, *outer = sorted(names, key=scalars.index, reverse=True)
    return [variable(inner) * constant(factor), *(variable(n) for n in outer)]


def _show(p: Poly) -> str:
    from evolve.ir.printer import print_expr

    return print_expr(expression(p))


def _upper(name: str, c: _Condition) -> Poly | None:
    """The U of a condition that says name < U."""
    if len(c.facts) != 1 or c.facts[0].reads:
        return None
    fact = c.facts[0]
    parts = fact.coefficient(variable_atom(name))
    if parts is not None and parts[0].terms:
        slope, rest = parts
        if name in rest.names() or any(n.startswith("$") for n in rest.names()):
            return None
        k = slope.constant
        if k is None or k >= 0:
            return None
        if k == -1:
            return rest + ONE
        quotient = Binary(BinaryOp.FLOORDIV, expression(rest), expression(constant(-k)), DType.INDEX)
        return polynomial(quotient) + ONE
    for a in fact.atoms():
        if isinstance(a, Binary) and a.op is BinaryOp.FLOORDIV and a.lhs == Var(name, DType.INDEX):
            found = fact.coefficient(a)
            if found is None or found[0] != -ONE or any(n.startswith("$") for n in found[1].names()):
                continue
            return (found[1] + ONE) * polynomial(a.rhs)
    return None


def _boundaries(name: str, stmts: list[Stmt], line: int) -> list[Poly]:
    """The strides at which divisions cut the index, smallest first."""
    found: list[Poly] = []
    for e in _all_exprs(stmts):
        for x in subexpressions(e):
            if isinstance(x, Binary) and x.op in (BinaryOp.FLOORDIV, BinaryOp.MOD):
                stride = _stride(x.lhs, name)
                if stride is not None:
                    cut = stride * polynomial(x.rhs)
                    if (
                        cut not in found
                        and cut.constant != 1
                        and not any(n.startswith("$") for n in cut.names())
                    ):
                        found.append(cut)
    chain: list[Poly] = []
    while found:
        for candidate in found:
            if all(not other.divide(candidate)[1].terms for other in found):
                chain.append(candidate)
                found.remove(candidate)
                break
        else:
            raise RefusalError(
                line, "division of a thread index", "the divisors are not multiples of each other"
            )
    return chain


def _stride(e: Expr, name: str) -> Poly | None:
    match e:
        case Var():
            return ONE if e.name == name else None
        case Binary(op=BinaryOp.FLOORDIV):
            inner = _stride(e.lhs, name)
            return None if inner is None else inner * polynomial(e.rhs)
        case Binary(op=BinaryOp.MOD):
            return _stride(e.lhs, name)
        case _:
            return None


def _tighten(domain: Domain, conds: list[_Condition]) -> None:
    """Conditions on one parallel variable narrow its loop, from above and from below."""
    known = Known(lowest=domain.known.lowest)
    for loop in domain.loops:
        known = known.inside(loop.name, loop.extent)
    facts = {id(c): tuple(simplify(f.substitute(domain.substitution), known) for f in c.facts) for c in conds}
    shifts: dict[str, Poly] = {}
    for at, loop in enumerate(domain.loops):
        extent, low = loop.extent, Poly(())
        for c in conds:
            if c.spent or len(facts[id(c)]) != 1:
                continue
            parts = facts[id(c)][0].coefficient(variable_atom(loop.name))
            if parts is None or parts[1].reads or any(n.startswith("$") for n in parts[1].names()):
                continue
            slope = parts[0].constant
            if slope == -1:
                if nonnegative(extent - (parts[1] + ONE), Known(lowest=known.lowest)):
                    extent, c.spent = parts[1] + ONE, True
                elif nonnegative(parts[1] + ONE - extent, Known(lowest=known.lowest)):
                    c.spent = True
            elif slope == 1:
                start = -parts[1]
                if nonnegative(-start, Known(lowest=known.lowest)):
                    c.spent = True
                elif not low.terms and nonnegative(start, Known(lowest=known.lowest)):
                    low, c.spent = start, True
        if low.terms:
            shifts[loop.name] = variable(loop.name) + low
        domain.loops[at] = Axis(loop.name, extent - low, loop.axis)
    domain.substitution = {k: p.substitute(shifts) for k, p in domain.substitution.items()}


def _substitute_all(stmts: list[Stmt], by: dict[str, Poly]) -> list[Stmt]:
    return [map_stmt_exprs(s, lambda e: substitute(e, by)) for s in stmts]
