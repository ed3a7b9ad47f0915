"""Traffic that a matrix product cannot avoid between the levels of a GPU's memory.

A classical product of W multiply-adds on a processor whose fast memory holds S elements moves at least
2 W / sqrt(S) - 2 S elements in and out of it (Hong and Kung 1981 with the constant of Smith, Lowery, Langou
and van de Geijn 2019, arXiv 1702.02017). With the work spread over P processors the formula, which is linear
in W, holds for their sum with 2 P S in place of 2 S. Other kernels have no such bound here: each byte must
move once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from evolve.features.model import Features
from evolve.target.profile import Profile

_REGISTER_BYTES = 4


@dataclass(frozen=True)
class LevelBytes:
    """Bytes of a whole launch: `l2` between L2 and the SMs, `shared` between an SM's shared memory or L1 and
    its registers, all SMs together."""

    l2: float
    shared: float


def least_traffic(features: Features, profile: Profile) -> LevelBytes:
    """What no program gets below.

    An SM keeps data in its registers and in what L1 and shared memory share. Sharing among threads through
    shuffles would pass by shared memory; they use the same data path.
    """
    once = float(features.bytes_read + features.bytes_written)
    registers = profile.limits.registers_per_sm * _REGISTER_BYTES
    on_chip = registers + (profile.memory.l1_shared_bytes_per_sm or profile.memory.shared_bytes_per_sm)
    return LevelBytes(
        max(once, _product(features, on_chip, profile.sms)), _product(features, registers, profile.sms)
    )


def _product(features: Features, fast_bytes: float, sms: int) -> float:
    if not features.products:
        return 0.0
    size = min(b.element_bytes for b in features.buffers)
    held = fast_bytes / size
    return max(0.0, 2.0 * features.products / sqrt(held) - 2.0 * held * sms) * size
