"""What machine code and trace say about a launch beyond times: the facts that tell causes apart.

`evidence` turns the counts that an estimate rests on into the facts that `causes` reads. All are fractions
unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from evolve.target.limits import Occupancy

_SHARES: Mapping[str, tuple[str, ...]] = {
    "fp32_share": ("fp32_fma", "fp32_add", "fp32_mul", "fp16"),
    "compare_share": ("fp32_other",),
    "integer_share": ("int", "imad"),
    "special_share": ("mufu",),
    "conversion_share": ("conversion",),
    "double_share": ("fp64",),
    "shuffle_share": ("shfl", "vote"),
    "barrier_share": ("bar",),
    "atomic_share": ("atomic",),
}


class Accesses(Protocol):
    """Accesses of one kind, summed over a block: active lanes, bytes they move, 32-byte sectors touched and
    those that the same bytes fill."""

    @property
    def lanes(self) -> float: ...
    @property
    def bytes(self) -> float: ...
    @property
    def sectors(self) -> float: ...
    @property
    def ideal_sectors(self) -> float: ...


def evidence(
    instructions: Mapping[str, float],
    held: Occupancy,
    loads: Accesses,
    stores: Accesses,
    *,
    shuffles: float,
    shared_wavefronts: float,
    atomic_sectors: float,
    l2_sectors: float,
    waits: float,
) -> dict[str, float]:
    """Facts for a breakdown.

    `instructions`: warp instructions by kind (`toolchain.instructions`); `loads`, `stores`: global accesses
    of the compiled code; `shuffles`, `shared_wavefronts`: clocks of the shared-memory path; `atomic_sectors`
    of the `l2_sectors` that L2 serves; `waits`: how often, one after the other, a warp waits for memory.

    Gives `*_share` of the instructions, `load_coalescing`, `store_coalescing`, `access_bytes` (bytes a lane
    moves at a time), `limited_by_*` (1 for what limits the occupancy), `shuffle_shared`, `atomic_l2` and
    `waits`.
    """
    total = sum(instructions.values())
    facts = {
        name: sum(instructions.get(kind, 0.0) for kind in kinds) / total if total else 0.0
        for name, kinds in _SHARES.items()
    }
    lanes = loads.lanes + stores.lanes
    path = shuffles + shared_wavefronts
    return facts | {
        "load_coalescing": _full(loads),
        "store_coalescing": _full(stores),
        "access_bytes": (loads.bytes + stores.bytes) / lanes if lanes else 0.0,
        "shuffle_shared": shuffles / path if path else 0.0,
        "atomic_l2": atomic_sectors / l2_sectors if l2_sectors else 0.0,
        "waits": waits,
        f"limited_by_{held.limiter.replace('-', '_')}": 1.0,
    }


def _full(accesses: Accesses) -> float:
    return min(1.0, accesses.ideal_sectors / accesses.sectors) if accesses.sectors else 1.0
