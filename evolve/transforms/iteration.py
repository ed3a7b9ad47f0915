"""shift, skew, collapse, peel: the same iterations in the same order, in other numbers or other loops."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import simplify
from evolve.ir.expr import (
    BinaryOp,
    Const,
    Expr,
    add,
    compare,
    conjunction,
    floordiv,
    index,
    mod,
    mul,
    sub,
    var,
)
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Block, For, If, Stmt
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import fresh, substitute_block, variables
from evolve.transforms.call import Call, Checked, Result, transform
from evolve.transforms.edit import less, loop_at, renamed, replace_loop
from evolve.transforms.loops import SPLITTABLE, Chain, chain_from, outermost_of
from evolve.transforms.names import claim, taken_names
from evolve.transforms.taken import Taken, taken_by


def check_free(loop: For) -> None:
    """Raises RefusedError E-LOOP-KIND for a loop that is bound, vectorized or a combine loop."""
    if loop.kind not in SPLITTABLE:
        raise RefusedError(
            "E-LOOP-KIND", f"loop {loop.var} is already {loop.kind.value}", repair="do this before binding it"
        )


@transform("shift")
def shift(call: Call) -> Result:
    """See dsl_spec/shift.yaml."""
    by = call.integer("by")
    assert by is not None
    kernel = call.kernel
    for name in call.loops("loop"):
        loop, _ = loop_at(kernel, name)
        check_free(loop)
        moved = substitute_block(loop.body, {name: sub(var(name), by)})
        body = Block((If(compare(BinaryOp.GE, var(name), by), moved),))
        shifted = replace(loop, extent=add(loop.extent, by), body=body, note=call.note)
        kernel = replace_loop(kernel, name, lambda _, new=shifted: new)  # type: ignore[misc]
    return kernel, call.names


@transform("skew")
def skew(call: Call) -> Checked:
    """See dsl_spec/skew.yaml."""
    by = call.integer("by")
    assert by is not None
    chain = perfect_nest(call, call.loops("loops"))
    if len(chain.loops) != 2:
        raise RefusedError("E-NEST", f"skew takes two loops, not {len(chain.loops)}")
    outer, inner = chain.loops
    if outer.var in variables(inner.extent):
        raise RefusedError(
            "E-SKEW-EXTENT", f"the extent {print_expr(inner.extent)} of {inner.var} depends on {outer.var}"
        )
    yield None
    ahead = mul(var(outer.var), by)
    plain: Expr = sub(var(inner.var), ahead)
    there = (compare(BinaryOp.GE, plain, 0), less(plain, inner.extent))
    body = substitute_block(guarded(chain.conditions, chain.body), {inner.var: plain})
    extent = add(inner.extent, mul(sub(outer.extent, 1), by))
    skewed = replace(inner, extent=extent, body=Block((If(conjunction(there), body),)), note=call.note)
    result = replace(outer, body=Block((skewed,)), note=call.note)
    return replace_loop(call.kernel, outer.var, lambda _: result), call.names


@transform("collapse")
def collapse(call: Call) -> Checked:
    """See dsl_spec/collapse.yaml."""
    kernel, loops = call.kernel, call.loops("loops")
    if len(loops) < 2:
        raise RefusedError("E-NEST", "collapse needs at least two loops")
    chain = perfect_nest(call, loops)
    outermost, *inner = chain.loops
    taken = taken_names(kernel) - set(loops)
    targets = call.statement.targets
    name = targets[0] if targets else fresh(".".join(loops), taken)
    if name not in loops:
        claim(kernel, name)
    _, site = loop_at(kernel, outermost.var)
    rest: Expr = var(name)
    by: dict[str, Expr] = {}
    total = 1
    for x in reversed(inner):
        extent = simplify(x.extent, ranges_at(kernel, site.path))
        if not isinstance(extent, Const):
            raise RefusedError(
                "E-EXTENT",
                f"{x.var} has {print_expr(extent)} iterations, and only quotients by constants are followed",
                repair=_fixing(extent),
            )
        by[x.var] = mod(rest, int(extent.value))
        rest = floordiv(var(name), total := total * int(extent.value))
    by[outermost.var] = rest
    yield None
    kinds = {x.kind for x in chain.loops}
    body = substitute_block(guarded(chain.conditions, chain.body), by)
    joined = For(
        name,
        mul(outermost.extent, total),
        kinds.pop() if len(kinds) == 1 else LoopKind.SERIAL,
        body,
        call.note,
        outermost.span,
    )
    names = call.names
    for x in chain.loops:
        names = names.without_loop(x.var, f"collapsed into {name}")
    return replace_loop(kernel, outermost.var, lambda _: joined), names


@transform("peel")
def peel(call: Call) -> Checked:
    """See dsl_spec/peel.yaml."""
    first, last = call.integer("first"), call.integer("last")
    assert first is not None and last is not None
    kernel, site = call.kernel, call.site("loop")
    loop = site.stmt
    assert isinstance(loop, For)
    check_free(loop)
    if not first + last:
        raise RefusedError("E-NO-CHANGE", "no iteration is to be peeled off: say first= or last=")
    wanted = [n for n, there in (("first", first), ("main", 1), ("last", last)) if there]
    targets = call.statement.targets
    if targets and len(targets) != len(wanted):
        raise RefusedError("E-RESULTS", f"{len(wanted)} loops come of it, {len(targets)} are named")
    others = taken_names(kernel) - {loop.var}
    names = {n: fresh(f"{loop.var}.{n}", others) for n in wanted}
    for n, target in zip(wanted, targets, strict=False):
        names[n] = target if target == loop.var else claim(kernel, target)
    if taken_by(loop.body.stmts) == Taken():
        yield None
    pieces: list[Stmt] = []
    for n, name in names.items():
        extent, start = {
            "first": (index(first), index(0)),
            "main": (sub(loop.extent, first + last), index(first)),
            "last": (index(last), sub(loop.extent, last)),
        }[n]
        number = add(start, var(name))
        # Of fewer iterations than are peeled off, each is in one piece only.
        there = {
            "first": less(number, loop.extent),
            "main": Const(True, DType.BOOL),
            "last": compare(BinaryOp.GE, number, first),
        }[n]
        body = loop.body if n == "main" else renamed(loop.body, n, others)
        inside = Block((If(there, substitute_block(body, {loop.var: number})),))
        pieces.append(replace(loop, var=name, extent=extent, body=inside, note=call.note))
    made = ", ".join(names.values())
    return (
        replace_loop(kernel, loop.var, lambda _: tuple(pieces)),
        call.names.without_loop(loop.var, f"peeled into {made}"),
    )


def perfect_nest(call: Call, loops: tuple[str, ...]) -> Chain:
    """The listed loops, each directly inside the one before, with nothing but guards between.

    Raises RefusedError E-NEST or E-LOOP-KIND.
    """
    chain = chain_from(outermost_of(call.kernel, loops), frozenset(loops))
    if [x.var for x in chain.loops] != list(loops):
        inside = ", ".join(x.var for x in chain.loops)
        raise RefusedError("E-NEST", f"list the loops outermost first and without gaps: {inside}")
    for x in chain.loops:
        check_free(x)
    return chain


def guarded(conditions: tuple[Expr, ...], body: Block) -> Block:
    """The body under the conditions, if there are any."""
    return Block((If(conjunction(conditions), body),)) if conditions else body


def _fixing(extent: Expr) -> str | None:
    sizes = sorted(variables(extent))
    return f"specialize({sizes[0]} == ...)" if sizes else None
