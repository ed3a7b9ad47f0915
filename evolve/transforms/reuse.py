"""reuse: what one buffer has is read from there, instead of being computed into another."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.effects import effects
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Buffer, Reduce, Store
from evolve.ir.types import Space
from evolve.ir.visit import Site
from evolve.transforms.call import Call, Result, transform
from evolve.transforms.edit import all_sites, loops_gone, without_buffer
from evolve.transforms.rewriting import with_loads


@transform("reuse")
def reuse(call: Call) -> Result:
    """See dsl_spec/reuse.yaml."""
    kernel, kept, dropped = call.kernel, call.buffer("buffer"), call.buffer("instead_of")
    check_alike(kept, dropped)
    _check_in_scope(kernel, kept, dropped)

    bare = without_buffer(kernel.body, dropped.name)
    body = with_loads(bare, dropped.name, lambda x: replace(x, buffer=kept.name))
    result = replace(kernel, body=body)
    return result, call.names.without_loops(loops_gone(kernel, result), f"gone with {dropped.name}")


def check_alike(kept: Buffer, dropped: Buffer) -> None:
    """Raises RefusedError unless the one can stand for the other."""
    if kept.name == dropped.name:
        raise RefusedError("E-NO-CHANGE", f"{kept.name} is read already")
    if Space.GLOBAL in (kept.space, dropped.space):
        raise RefusedError("E-REUSE", f"{kept.name} and {dropped.name} are not both in registers or shared")
    if kept.dtype is not dropped.dtype or kept.extents != dropped.extents:
        raise RefusedError(
            "E-REUSE",
            f"{kept.name} and {dropped.name} are not of one type and extent",
            repair="split and distribute the loops that compute them alike",
        )


def _check_in_scope(kernel: Kernel, kept: Buffer, dropped: Buffer) -> None:
    """Raises RefusedError unless `kept` has been computed, in the same block or around, before each read."""
    sites = all_sites(kernel)
    declared = next(s for s in sites if isinstance(s.stmt, Alloc) and s.stmt.buffer.name == kept.name)
    last = max((n for n, s in enumerate(sites) if _writes(s, kept.name)), default=-1)
    for n, s in enumerate(sites):
        if not isinstance(s.stmt, Store | Reduce) or s.stmt.buffer == dropped.name:
            continue
        if any(a.buffer == dropped.name for a in effects(s.stmt).accesses) and (
            n < last or s.path[: len(declared.path)] != declared.path
        ):
            raise RefusedError(
                "E-REUSE",
                f"{dropped.name} is read where {kept.name} is not there, or not yet",
                repair=f"join the loops around {kept.name} and {dropped.name}",
            )


def _writes(site: Site, buffer: str) -> bool:
    return isinstance(site.stmt, Store | Reduce) and site.stmt.buffer == buffer
