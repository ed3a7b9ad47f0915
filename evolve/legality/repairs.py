"""The nearest change that would be legal, by code, where a check has nothing more exact to say."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import Diagnostic

REPAIRS = {
    "E-BARRIER": "make the threads agree: specialize the size so that the guard disappears, "
    "or bind the guarded loop to the grid",
    "E-BIND": "bind nested loops to different axes",
    "E-BOUNDS": "guard the access, or specialize the size to a multiple of the tile",
    "E-CACHE": "leave the array's loads as they are",
    "E-COMBINE": "give all loops bound to thread.x the same extent, and reduce over all of it",
    "E-COVERAGE": "cover the whole extent: guard the last tile instead of dropping it",
    "E-DATA-LOOP": "leave the loop whose length is read from memory as it is, or split it and keep its guard",
    "E-FLOW": "keep the order of the statements that write and read this array",
    "E-GRID": "bind an outer loop with an extent over the sizes alone",
    "E-LIMIT": "specialize the sizes, or use fewer nested splits",
    "E-NONAFFINE": "specialize the sizes that multiply one another",
    "E-OWNER": "split the loops that fill and read the registers alike, and bind the same part of each "
    "to the same thread axis",
    "E-RACE": "bind a loop that does not carry the dependence, or stage the data in shared memory",
    "E-REDUCTION": "finish the reduction before its result is read, and reduce across threads "
    "with warp_reduce or block_reduce",
    "E-SHARED-SIZE": "use smaller tiles",
    "E-THREADS": "split the loop and bind the smaller part",
    "E-UNINIT": "let the copy cover all that is read from the window",
    "E-VECTOR": "vectorize a loop whose iterations are independent",
}


def repaired(d: Diagnostic) -> Diagnostic:
    """The diagnostic with a repair, its own if it has one."""
    return d if d.repair else replace(d, repair=REPAIRS.get(d.code))
