"""shift: the iterations of a loop under other numbers."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.expr import BinaryOp, add, compare, sub, var
from evolve.ir.stmt import Block, For, If
from evolve.ir.visit import substitute_block
from evolve.transforms.call import Call, Result, transform
from evolve.transforms.edit import loop_at, replace_loop
from evolve.transforms.loops import SPLITTABLE


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
