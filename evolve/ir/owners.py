"""An access to distributed registers that the wrong thread makes, as an example with numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evolve.ir.affine import Ranges
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.ir.stmt import For
from evolve.ir.types import LoopKind


def wrong_thread(
    buffer: str, indices: Sequence[Expr], owner: Expr, axis: LoopKind, path: Sequence[For], ranges: Ranges
) -> str | None:
    """Loop variables at which a thread touches an element that another one holds.

    `owner` is the number of the thread along `axis` that holds the element. None where no small numbers show
    it.
    """
    mine = next((x.var for x in path if x.kind is axis), None)
    start = {x.var: 0 for x in path}
    for loop in (None, *(x.var for x in path)):
        high = ranges.of(loop)[1] if loop is not None else 0
        for value in (1, high or 1):
            at = start if loop is None else {**start, loop: value}
            if loop is not None and high is not None and value > high:
                continue
            try:
                holds = int(evaluate(owner, at))
                element = "".join(f"[{int(evaluate(i, at))}]" for i in indices)
            except EvolveError:
                return None
            # Where no loop is along the axis each of its threads does it.
            thread = at[mine] if mine is not None else int(holds == 0)
            if thread != holds:
                shown = ", ".join(f"{n}={v}" for n, v in at.items() if v) or "the first iteration"
                word = axis.value
                return f"at {shown}, {word} {thread} touches {buffer}{element}, which {word} {holds} holds"
    return None
