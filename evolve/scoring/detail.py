"""What a score says about the code that was timed and the runs that were checked, JSON data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from evolve.codegen.rendered import Rendered
from evolve.ir.printer import print_expr
from evolve.scoring.task import size_key
from evolve.toolchain.cubin import Cubin
from evolve.workload.model import Sizes


def describe(
    rendered: Rendered, cubin: Cubin, variants: Sequence[int], runs: int, shapes: Iterable[Sizes]
) -> dict[str, Any]:
    """`variants`: the one that runs at each timed size, from 0, below 0 for the original; `runs` that were
    checked, at these `shapes`.

    Gives timed_variants, conditions (of all variants), registers a thread, shared_bytes a block and
    local_bytes a thread (at each timed size; of several launches the most), runs_checked, shapes_checked.
    """
    used = [(rendered.original,) if v < 0 else rendered.variants[v].launches for v in variants]
    resources = [[cubin.kernels[x.kernel] for x in launches] for launches in used]
    dynamic = {x.kernel: x.shared_bytes for launches in used for x in launches}
    return {
        "timed_variants": list(variants),
        "conditions": [print_expr(v.guard) for v in rendered.variants],
        "registers": [max(r.registers for r in rs) for rs in resources],
        "shared_bytes": [max(r.shared_bytes + dynamic[r.name] for r in rs) for rs in resources],
        "local_bytes": [max(r.stack_bytes for r in rs) for rs in resources],
        "runs_checked": runs,
        "shapes_checked": [dict(s) for s in {size_key(s): s for s in shapes}.values()],
    }


class Spent:
    """Where the time of a score went, milliseconds by the host's clock."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._last = time.perf_counter()

    def on(self, what: str) -> None:
        """The time since the last call, or since the beginning, was for this."""
        now = time.perf_counter()
        self.ms[what] = self.ms.get(what, 0.0) + round(1e3 * (now - self._last), 3)
        self._last = now
