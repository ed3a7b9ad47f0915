"""jam and distribute: joining neighbouring nests and taking one apart."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import linear, simplify
from evolve.ir.expr import Const, Expr, Var, add, index, mul, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import (
    fresh,
    leaves,
    rewrite,
    substitute_block,
    variables,
)
from evolve.transforms.call import Call, Checked, Result, loop_of, transform
from evolve.transforms.edit import conflict, extent_at, loop_at, replace_loop, sites, touched
from evolve.transforms.loops import Chain, build_chain, chain_from, outermost_of, with_inner_guards
from evolve.transforms.names import taken_names
from evolve.transforms.rewriting import loading, rewrite_naming


@transform("jam")
def jam(call: Call) -> Checked:
    """See dsl_spec/jam.yaml."""
    kernel = call.kernel
    first, second = loop_of(call.site("first")), loop_of(call.site("second"))
    path = sites(kernel)[first.var].path
    if first.kind is not second.kind or first.kind not in (
        LoopKind.SERIAL,
        LoopKind.PARALLEL,
        LoopKind.UNROLL,
    ):
        raise RefusedError(
            "E-LOOP-KIND", f"{first.var} is {first.kind.value} and {second.var} is {second.kind.value}"
        )
    block = path[-1].body if path else kernel.body
    if not all(any(s is x for s in block.stmts) for x in (first, second)):
        raise RefusedError("E-JAM-APART", f"{first.var} and {second.var} are not side by side in one block")
    a, b = ([s is x for s in block.stmts].index(True) for x in (first, second))
    if b < a:
        raise RefusedError("E-JAM-APART", f"{second.var} comes before {first.var}")
    ea, eb = extent_at(kernel, first.var), extent_at(kernel, second.var)
    if ea != eb:
        raise RefusedError(
            "E-JAM-EXTENT", f"{first.var} runs to {print_expr(ea)}, {second.var} to {print_expr(eb)}"
        )
    between = Block(block.stmts[a + 1 : b])
    clash = conflict(between, Block((first,)))
    if clash is not None:
        raise RefusedError(
            "E-JAM-APART",
            f"statements between {first.var} and {second.var} touch {clash}, as {first.var} does",
        )
    yield None
    moved = substitute_block(second.body, {second.var: var(first.var)})
    joined = replace(first, body=Block((*first.body.stmts, *moved.stmts)), note=call.note)
    stmts = (*block.stmts[:a], *between.stmts, joined, *block.stmts[b + 1 :])
    kernel = _with_block(kernel, path, Block(stmts), block)
    return kernel, call.names.without_loop(second.var, f"jammed into {first.var}")


def _with_block(kernel: Kernel, path: tuple[For | If, ...], new: Block, old: Block) -> Kernel:
    """The kernel with the body `old` of the last container in `path` (or the kernel's) replaced."""
    if not path:
        return replace(kernel, body=new)

    def swap(s: Stmt) -> Stmt | None:
        if isinstance(s, For | If) and s.body is old:
            return replace(s, body=new)
        return None

    return replace(kernel, body=rewrite(kernel.body, swap))


@transform("distribute")
def distribute(call: Call) -> Result:
    """See dsl_spec/distribute.yaml."""
    kernel = call.kernel
    loops = call.loops("loops")
    outermost = outermost_of(kernel, loops)
    chain = with_inner_guards(chain_from(outermost, frozenset(loops)))
    for x in chain.loops:
        if x.var not in loops:
            raise RefusedError("E-NEST", f"{x.var} stands between the loops and must be listed too")
        if x.kind.is_grid or x.kind.is_combine or x.kind is LoopKind.VECTOR:
            raise RefusedError("E-LOOP-KIND", f"loop {x.var} is {x.kind.value} and cannot be distributed")
    pieces = [s for s in chain.body.stmts if not isinstance(s, Alloc)]
    if len(pieces) < 2:
        raise RefusedError("E-NO-CHANGE", f"{chain.loops[-1].var} holds one statement: nothing to distribute")
    allocs = [s.buffer for s in chain.body.stmts if isinstance(s, Alloc)]
    _, site = loop_at(kernel, outermost.var)
    used = frozenset().union(*(set().union(*touched(Block((p,)))) for p in pieces), frozenset())
    hoisted: list[Stmt] = []
    body = Block(tuple(pieces))
    for b in allocs:
        if b.name not in used:
            continue
        wide, subscripts = _expanded(kernel, chain, b, site.path)
        hoisted.append(Alloc(wide))
        body = with_leading(body, b.name, subscripts)
    taken = taken_names(kernel) - {x.var for x in chain.loops}
    nests = []
    for number, piece in enumerate(body.stmts):
        new = {x.var: fresh(f"{x.var}.{number}", taken) for x in chain.loops}
        taken |= set(new.values())
        nests.append(_copy_of(chain, piece, new, call.note))
    result = (*hoisted, *nests)
    names = call.names
    for x in chain.loops:
        made = ", ".join(f"{x.var}.{n}" for n in range(len(nests)))
        names = names.without_loop(x.var, f"distributed into {made}")
    return replace_loop(kernel, outermost.var, lambda _: result), names


def _copy_of(chain: Chain, piece: Stmt, new: dict[str, str], note: str) -> Stmt:
    nest = build_chain(Chain(chain.loops, chain.conditions, Block((piece,))), chain.loops)
    by: dict[str, Expr] = {old: var(name) for old, name in new.items()}
    renamed = substitute_block(Block((nest,)), by)

    def with_name(s: Stmt) -> Stmt | None:
        return replace(s, var=new[s.var], note=note) if isinstance(s, For) and s.var in new else None

    (only,) = rewrite(renamed, with_name).stmts
    return only


def _expanded(
    kernel: Kernel, chain: Chain, buffer: Buffer, path: tuple[For | If, ...]
) -> tuple[Buffer, tuple[Expr, ...]]:
    """The buffer with one element for each iteration of the chain, and the subscripts put in front."""
    if buffer.space is not Space.REGISTER:
        raise RefusedError(
            "E-EXPAND", f"{buffer.name} is {buffer.space.value}: only register buffers are expanded"
        )
    ranges = ranges_at(kernel, path)
    extents: dict[str, int] = {}
    for x in chain.loops:
        extent = simplify(x.extent, ranges)
        if not isinstance(extent, Const):
            raise RefusedError(
                "E-EXTENT",
                f"{buffer.name} needs one element for each iteration, {x.var} has {print_expr(extent)}",
                repair=f"split({x.var}, 32) and distribute the inner loop",
            )
        extents[x.var] = int(extent.value)
    dims = _coordinates(kernel, chain, extents, path) or [[(x.var, 1)] for x in chain.loops]
    sizes = []
    subscripts: list[Expr] = []
    for digits in dims:
        size, total = 1, None
        for name, stride in digits:
            size *= extents[name]
            term = var(name) if stride == 1 else mul(var(name), stride)
            total = term if total is None else add(total, term)
        assert total is not None
        sizes.append(index(size))
        subscripts.append(total)
    wide = replace(buffer, extents=(*sizes, *buffer.extents), padding=(0,) * len(sizes) + buffer.padding)
    return replace(wide, padding=wide.padding if any(wide.padding) else ()), tuple(subscripts)


def _coordinates(
    kernel: Kernel, chain: Chain, extents: dict[str, int], path: tuple[For | If, ...]
) -> list[list[tuple[str, int]]] | None:
    """The chain's loops grouped by the source coordinate that they are digits of.

    i = i.o*128 + i.i.o*8 + i.i.i gives one dimension of [(i.i.o, 8), (i.i.i, 1)]. None when some
    loop is not a digit of exactly one coordinate.
    """
    ranges = ranges_at(kernel, (*path, *chain.loops))
    found = next((leaf for leaf, _ in leaves(chain.body) if leaf.origin is not None), None)
    if found is None or found.origin is None:
        return None
    dims: list[list[tuple[str, int]]] = []
    seen: set[str] = set()
    for coordinate in found.origin.instance:
        digits = []
        for atom, c in linear(coordinate, ranges).terms:
            if isinstance(atom, Var) and atom.name in extents:
                digits.append((atom.name, c))
            elif variables(atom) & extents.keys():
                return None
        if not digits:
            continue
        digits.sort(key=lambda d: -d[1])
        stride = 1
        for name, c in reversed(digits):
            if c != stride or name in seen:
                return None
            seen.add(name)
            stride *= extents[name]
        dims.append(digits)
    return dims if seen == extents.keys() else None


def with_leading(block: Block, buffer: str, subscripts: tuple[Expr, ...]) -> Block:
    """Every access to `buffer` with `subscripts` in front of its own."""

    def one(s: Stmt) -> Stmt:
        if isinstance(s, Store | Reduce) and s.buffer == buffer:
            s = replace(s, indices=(*subscripts, *s.indices))
        return loading(s, buffer, lambda x: replace(x, indices=(*subscripts, *x.indices)))

    return rewrite_naming(block, buffer, one)
