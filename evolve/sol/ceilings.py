"""Rates that a program can reach on a GPU: measured where the profile has measurements.

Without one, the stated fraction of the data-sheet peak is used. The fractions are the middle of what public
benchmarks reach on V100, A100, H100, L40 and RTX 3090: DRAM reads 87 to 98 %, write streams 97 to 99 %,
copies and triads 86 to 95 %; FMA chains 96 % (one H200).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from evolve.target.profile import Measured, Measurement, Profile

READ_FRACTION = 0.93
COPY_FRACTION = 0.88
WRITE_FRACTION = 0.96
FP32_FRACTION = 0.95
SFU_FRACTION = 0.95
TENSOR_FRACTION = 0.80
LAUNCH_S = 5e-6
"""An empty kernel between two events where nobody measured it (7.5 us on one H200, 2 to 5 elsewhere)."""


def dram_ceiling(profile: Profile, read: float, written: float) -> float:
    """Attainable DRAM bytes per second for this mix of bytes read and written.

    The time per byte is interpolated linearly in the written share between what was measured: reads alone
    (0), triad (1/3), copy with 16-byte accesses (1/2), writes alone (1).
    """
    points = [
        (0.0, _rate(profile, lambda m: m.read_gbs, READ_FRACTION)),
        (0.5, _rate(profile, lambda m: m.copy_16b_gbs, COPY_FRACTION)),
        (1.0, _rate(profile, lambda m: m.write_gbs, WRITE_FRACTION)),
    ]
    if profile.measured is not None and profile.measured.triad_gbs is not None:
        points.insert(1, (1 / 3, profile.measured.triad_gbs.mid * 1e9))
    share = written / (read + written) if read + written > 0 else 0.0
    for (a, rate_a), (b, rate_b) in pairwise(points):
        if share <= b:
            t = (share - a) / (b - a)
            return 1.0 / ((1 - t) / rate_a + t / rate_b)
    return points[-1][1]


def _rate(profile: Profile, pick: Callable[[Measured], Measurement | None], fraction: float) -> float:
    found = pick(profile.measured) if profile.measured is not None else None
    return found.mid * 1e9 if found is not None else fraction * profile.memory.dram_bytes_per_s


def fp32_rate(profile: Profile) -> float:
    """Attainable fp32 instructions of one lane (an FMA, an addition, …) per second."""
    measured = profile.measured.fp32_tflops if profile.measured is not None else None
    if measured is not None:
        return measured.mid * 1e12 / 2
    return FP32_FRACTION * profile.peaks.fp32_tflops * 1e12 / 2


def fp64_rate(profile: Profile) -> float:
    """Attainable fp64 instructions of one lane per second."""
    return FP32_FRACTION * profile.peaks.fp64_tflops * 1e12 / 2


def sfu_rate(profile: Profile) -> float:
    """Attainable special-function results per second."""
    measured = profile.measured.ex2_gops if profile.measured is not None else None
    if measured is not None:
        return measured.mid * 1e9
    return SFU_FRACTION * profile.per_second(profile.rates.mufu)


def int_rate(profile: Profile) -> float:
    """Integer instructions of one lane per second; half the fp32 rate where the profile does not say."""
    return profile.per_second(profile.rates.int_add or profile.rates.fp32_fma / 2)


def launch_floor(profile: Profile) -> float:
    """Seconds between two events around an empty kernel."""
    measured = profile.measured.launch_us if profile.measured is not None else None
    return measured.mid * 1e-6 if measured is not None else LAUNCH_S


def tensor_rate(profile: Profile, *, attainable: bool) -> float | None:
    """Multiply-adds per second of the matrix units at 16 bits or TF32; None without such units."""
    peaks = [profile.peaks.tensor[t] for t in ("tf32", "fp16", "bf16") if t in profile.peaks.tensor]
    if not peaks:
        return None
    peak = max(peaks) * 1e12 / 2
    # The listed peak holds at the tensor clock; the boost clock may beat it.
    return (
        TENSOR_FRACTION * peak
        if attainable
        else peak * max(1.0, profile.clocks.boost_mhz / profile.clocks.tensor_mhz)
    )
