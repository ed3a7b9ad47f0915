"""A variant's time and how the GPU's units share it: what the gap report starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Timing = Literal["measured", "estimated"]


@dataclass(frozen=True)
class Breakdown:
    """A variant's time and what is known of it.

    time_s   seconds; `timing` says whether measured or estimated
    terms    seconds that each unit is busy: dram, l2, l1, shared, issue, fp32, alu, sfu, fp64, latency,
             dispatch (starting blocks)
    shares   seconds of the time that each unit accounts for; idle, tail and launch too; may sum to less than
             `time_s`, then the rest is unexplained. Empty when there is only a time.
    facts    dram_read, dram_written, l2_bytes, global_bytes (asked for by threads), in bytes; coalescing,
             conflict_free, occupancy, busy_sms (fractions); spill_share of the instructions, spill_l1,
             spill_l2 and spill_dram of these terms, spill_wait and barrier_wait of a block's clocks;
             instructions a warp, block_clocks;
             waves; trips_scaled, arithmetic_share (see `devices.work`); those of `evidence`; and where the
             GPU counted, those of `counters`
    """

    time_s: float
    timing: Timing
    terms: Mapping[str, float] = field(default_factory=dict, hash=False)
    shares: Mapping[str, float] = field(default_factory=dict, hash=False)
    facts: Mapping[str, float] = field(default_factory=dict, hash=False)
