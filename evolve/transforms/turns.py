"""serpentine: a nest that goes back the way it came."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.expr import add, index, mul, sub, var
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Block
from evolve.ir.visit import substitute_block, variables
from evolve.transforms.call import Call, Checked, transform
from evolve.transforms.edit import constant_extent, renamed, replace_loop
from evolve.transforms.iteration import guarded, perfect_nest
from evolve.transforms.names import taken_names
from evolve.transforms.taken import Taken, taken_by


@transform("serpentine")
def serpentine(call: Call) -> Checked:
    """See dsl_spec/serpentine.yaml."""
    loops = call.loops("loops")
    if len(loops) < 2:
        raise RefusedError("E-NEST", "serpentine needs a loop and at least one inside it")
    chain = perfect_nest(call, loops)
    outer, *inner = chain.loops
    extent = constant_extent(call.kernel, outer.var)
    if extent is None or extent % 2:
        raise RefusedError(
            "E-EXTENT",
            f"every other iteration of {outer.var} turns back, and it has {print_expr(outer.extent)}",
            repair=f"split {outer.var} by an even number",
        )
    for x in inner:
        around = variables(x.extent) & set(loops)
        if around:
            raise RefusedError("E-REORDER-BOUND", f"the extent of {x.var} depends on {min(around)}")
    if taken_by(chain.body.stmts) == Taken():
        yield None
    back = guarded(chain.conditions, chain.body)
    for x in reversed(inner):
        from_the_end = sub(sub(x.extent, 1), var(x.var))
        back = Block((replace(x, body=substitute_block(back, {x.var: from_the_end}), note=call.note),))
    back = renamed(back, "back", taken_names(call.kernel))
    # The loop over one pair has no part in any subscript: it would be no digit of what registers hold.
    pair = mul(var(outer.var), 2) if extent > 2 else index(0)
    both = (
        *substitute_block(outer.body, {outer.var: pair}).stmts,
        *substitute_block(back, {outer.var: add(pair, 1)}).stmts,
    )
    result = replace(outer, extent=index(extent // 2), body=Block(both), note=call.note)
    return replace_loop(call.kernel, outer.var, lambda _: result), call.names
