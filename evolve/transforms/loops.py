"""split, tile, reorder: one nest of loops, the same instances in another order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import simplify
from evolve.ir.data import reads_only_indices
from evolve.ir.expr import Expr, add, ceildiv, index, mod, mul, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.scope import conjuncts, ranges_at
from evolve.ir.stmt import Block, For, If, Stmt
from evolve.ir.types import LoopKind
from evolve.ir.visit import fresh, substitute_block, variables
from evolve.transforms.call import Call, Checked, Result, transform
from evolve.transforms.edit import less, loop_at, replace_loop, sites
from evolve.transforms.names import NameTable, claim, taken_names

SPLITTABLE = (LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.UNROLL)


def split_loop(kernel: Kernel, loop: str, factor: int, outer: str, inner: str, note: str) -> Kernel:
    """`for loop` becomes `for outer: for inner` with loop = outer*factor + inner.

    The inner body is guarded unless `factor` provably divides the extent. Raises RefusedError E-LOOP-KIND.
    """
    check_splittable(kernel, loop)
    found, site = loop_at(kernel, loop)
    ranges = ranges_at(kernel, site.path)
    extent = simplify(found.extent, ranges)
    whole = add(mul(var(outer), factor), var(inner))
    body = substitute_block(found.body, {loop: whole})
    if simplify(mod(extent, factor), ranges) != index(0):
        body = Block((If(less(whole, extent), body),))
    inner_loop = For(inner, index(factor), found.kind, body, note, found.span)
    outer_loop = For(
        outer, simplify(ceildiv(extent, factor), ranges), found.kind, Block((inner_loop,)), note, found.span
    )
    return replace_loop(kernel, loop, lambda _: outer_loop)


def check_splittable(kernel: Kernel, loop: str) -> None:
    """Raises RefusedError E-LOOP-KIND."""
    found, _ = loop_at(kernel, loop)
    if found.kind not in SPLITTABLE:
        raise RefusedError(
            "E-LOOP-KIND",
            f"loop {loop} is already {found.kind.value}",
            repair=f"split {loop} before it is bound",
        )


def check_results(kernel: Kernel, loop: str, targets: tuple[str, ...]) -> None:
    """Raises RefusedError E-NAME unless its results may have these names, one of them the loop's own."""
    for t in targets:
        if t != loop:
            claim(kernel, t)


def split_named(
    kernel: Kernel, names: NameTable, loop: str, factor: int, targets: tuple[str, ...], note: str
) -> tuple[Kernel, NameTable, str, str]:
    """Splits and names the results: `targets`, else the path names `<loop>.o` and `<loop>.i`."""
    taken = taken_names(kernel) - {loop}
    if targets:
        check_results(kernel, loop, targets)
        outer, inner = targets
    else:
        outer, inner = fresh(f"{loop}.o", taken), fresh(f"{loop}.i", taken)
    if loop in (outer, inner):
        # The old name comes back for a result: a placeholder keeps the substitution apart from it.
        kernel = split_loop(kernel, loop, factor, f"{outer}'", f"{inner}'", note)
        kernel = rename_loops(kernel, {f"{outer}'": outer, f"{inner}'": inner})
    else:
        kernel = split_loop(kernel, loop, factor, outer, inner, note)
    return kernel, names.without_loop(loop, f"split into {outer} and {inner}"), outer, inner


def rename_loops(kernel: Kernel, new: dict[str, str]) -> Kernel:
    """Loops renamed; the new names must be free."""
    for old, name in new.items():

        def renamed(loop: For, name: str = name, old: str = old) -> For:
            return replace(loop, var=name, body=substitute_block(loop.body, {old: var(name)}))

        kernel = replace_loop(kernel, old, renamed)
    return kernel


@transform("split")
def split(call: Call) -> Checked:
    """See dsl_spec/split.yaml."""
    factor = call.integer("factor")
    assert factor is not None
    kernel, names = call.kernel, call.names
    targets = call.statement.targets
    if call.is_single("loop"):
        (loop,) = call.loops("loop")
        check_results(kernel, loop, targets)
        check_splittable(kernel, loop)
        yield None
        kernel, names, _, _ = split_named(kernel, names, loop, factor, targets, call.note)
        return kernel, names
    outers, inners = [], []
    for loop in call.loops("loop"):
        kernel, names, outer, inner = split_named(kernel, names, loop, factor, (), call.note)
        outers.append(outer)
        inners.append(inner)
    names = name_groups(kernel, names, targets, (outers, inners))
    yield None
    return kernel, names


def name_groups(
    kernel: Kernel, names: NameTable, targets: tuple[str, ...], groups: tuple[list[str], ...]
) -> NameTable:
    """The groups under the names that the statement gives them."""
    for target, group in zip(targets, groups, strict=False):
        # A group is only ever looked up among loops: a buffer of that name is no confusion.
        if target in sites(kernel):
            raise RefusedError(
                "E-NAME", f"the name {target} is already a loop", repair="give the group another name"
            )
        names = names.with_group(target, group)
    return names


@dataclass(frozen=True)
class Chain:
    """Loops one directly inside the other, outermost first; guards between them; the innermost body."""

    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    body: Block


def chain_from(outermost: For, until: frozenset[str]) -> Chain:
    """The chain from a loop down to the last of `until`.

    Raises RefusedError E-NEST when something is between.
    Guards without `else` that read no memory, index arrays apart, do not break a chain.
    """
    loops = [outermost]
    conditions: list[Expr] = []
    left = until - {outermost.var}
    body = outermost.body
    while left:
        if len(body.stmts) != 1:
            raise RefusedError(
                "E-NEST",
                f"loop {loops[-1].var} holds more than one statement, so {', '.join(sorted(left))} "
                f"is not perfectly nested in it",
                repair=f"distribute({loops[-1].var}) first",
            )
        (only,) = body.stmts
        if isinstance(only, For):
            loops.append(only)
            left -= {only.var}
        elif isinstance(only, If) and not only.orelse.stmts and reads_only_indices(only.cond):
            conditions += conjuncts((only.cond,))
        elif not isinstance(only, Block):
            head = print_stmt(only).splitlines()[0]
            raise RefusedError("E-NEST", f"`{head}` stands between {loops[-1].var} and the loops inside it")
        body = only.body if isinstance(only, For | If) else only
    return Chain(tuple(loops), tuple(conditions), body)


def with_inner_guards(chain: Chain) -> Chain:
    """The chain with guards around all of its innermost body taken into its conditions."""
    conditions, body = list(chain.conditions), chain.body
    while len(body.stmts) == 1:
        (only,) = body.stmts
        if not isinstance(only, If) or only.orelse.stmts or not reads_only_indices(only.cond):
            break
        conditions += conjuncts((only.cond,))
        body = only.body
    return Chain(chain.loops, tuple(conditions), body)


def build_chain(chain: Chain, order: tuple[For, ...]) -> Stmt:
    """The nest in a new order, each guard directly inside the last loop that it depends on."""
    body = chain.body
    pending = list(chain.conditions)
    # Innermost first: a guard goes around what is inside the innermost loop that it mentions.
    result: Stmt | None = None
    for loop in reversed(order):
        here = [c for c in pending if loop.var in variables(c)]
        pending = [c for c in pending if loop.var not in variables(c)]
        inside = body if result is None else Block((result,))
        for c in reversed(here):
            inside = Block((If(c, inside),))
        result = replace(loop, body=inside)
    assert result is not None
    for c in reversed(pending):
        result = If(c, Block((result,)))
    return result


def outermost_of(kernel: Kernel, loops: tuple[str, ...]) -> For:
    """The loop of the list that encloses all others. Raises RefusedError E-NEST when none does."""
    for name in loops:
        found, _ = loop_at(kernel, name)
        if all(n == name or any(p.var == name for p in loop_at(kernel, n)[1].loops) for n in loops):
            return found
    raise RefusedError("E-NEST", f"loops {', '.join(loops)} are not nested in one another")


def reorder_loops(kernel: Kernel, loops: tuple[str, ...]) -> Kernel:
    """The listed loops in the listed order; others of the chain stay where they are.

    Raises RefusedError E-NEST, E-LOOP-KIND or E-REORDER-BOUND.
    """
    chain, order = ordered_chain(kernel, loops)
    return replace_loop(kernel, chain.loops[0].var, lambda _: build_chain(chain, order))


def ordered_chain(kernel: Kernel, loops: tuple[str, ...]) -> tuple[Chain, tuple[For, ...]]:
    """The chain of the listed loops, and its loops in the order that the listed ones are to have.

    Raises RefusedError as `reorder_loops` does.
    """
    outermost = outermost_of(kernel, loops)
    chain = with_inner_guards(chain_from(outermost, frozenset(loops)))
    by_name = {x.var: x for x in chain.loops}
    for x in chain.loops:
        if x.var in loops and (x.kind.is_grid or x.kind.is_combine or x.kind is LoopKind.VECTOR):
            raise RefusedError(
                "E-LOOP-KIND",
                f"loop {x.var} is {x.kind.value} and keeps its place",
                repair="reorder before binding and vectorizing",
            )
    supply = iter(loops)
    order = tuple(by_name[next(supply)] if x.var in loops else x for x in chain.loops)
    above: set[str] = set()
    inside = {x.var for x in order}
    for x in order:
        missing = (variables(x.extent) & inside) - above
        if missing:
            raise RefusedError(
                "E-REORDER-BOUND",
                f"the extent {print_expr(x.extent)} of {x.var} depends on {min(missing)}, "
                f"which would come inside it",
            )
        above.add(x.var)
    return chain, order


@transform("reorder")
def reorder(call: Call) -> Checked:
    """See dsl_spec/reorder.yaml."""
    loops = call.loops("loops")
    if len(loops) < 2:
        raise RefusedError("E-REORDER-ONE", "reorder needs at least two loops")
    chain, order = ordered_chain(call.kernel, loops)
    yield None
    return replace_loop(call.kernel, chain.loops[0].var, lambda _: build_chain(chain, order)), call.names


@transform("tile")
def tile(call: Call) -> Result:
    """See dsl_spec/tile.yaml."""
    loops, sizes = call.loops("loops"), call.integers("sizes")
    if len(loops) != len(sizes):
        raise RefusedError("E-TILE-SIZES", f"{len(loops)} loops and {len(sizes)} sizes")
    outermost = outermost_of(call.kernel, loops)
    chain = chain_from(outermost, frozenset(loops))
    if [x.var for x in chain.loops if x.var in loops] != list(loops):
        raise RefusedError(
            "E-NEST", f"list the loops outermost first: {', '.join(x.var for x in chain.loops)}"
        )
    for x in chain.loops:
        between = variables(x.extent) & {y.var for y in chain.loops}
        if between:
            raise RefusedError(
                "E-REORDER-BOUND", f"the extent {print_expr(x.extent)} of {x.var} depends on {min(between)}"
            )
    targets = call.statement.targets
    if targets and len(targets) != 2 * len(loops):
        raise RefusedError("E-TILE-SIZES", f"{2 * len(loops)} results, {len(targets)} named")
    kernel, names = call.kernel, call.names
    outers, inners = [], []
    for position, (loop, size) in enumerate(zip(loops, sizes, strict=True)):
        pair = (targets[position], targets[len(loops) + position]) if targets else ()
        kernel, names, outer, inner = split_named(kernel, names, loop, size, pair, call.note)
        outers.append(outer)
        inners.append(inner)
    if len(loops) == 1:
        return kernel, names
    return reorder_loops(kernel, (*outers, *inners)), names
