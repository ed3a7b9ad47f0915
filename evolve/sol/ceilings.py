"""Rates that a program can reach on a GPU: measured where the profile has measurements.

Two readings of each. The usual rate is the middle of what was measured and serves estimates. The ceiling is
the top of it and serves bounds, which no honest kernel may beat. Without a measurement, a stated fraction of
the data-sheet peak is taken. The fractions are the middle and the top of what public benchmarks reach on
V100, A100, H100, L40 and RTX 3090: DRAM reads 87 to 98 %, write streams 97 to 99 %, copies and triads 86 to
95 %; FMA chains 96 % (one H200); L2 reads 60 % of what the SMs' ports take together (GH200: 9.7 to 10.2 of
16.7 TB/s); L1 and shared memory 126 of 128 bytes a clock (H100, A100, V100).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from evolve.target.profile import Measured, Measurement, Profile

READ_FRACTION = 0.93
COPY_FRACTION = 0.88
WRITE_FRACTION = 0.96
BEST_READ, BEST_COPY, BEST_WRITE = 0.98, 0.95, 0.99
FP32_FRACTION = 0.95
SFU_FRACTION = 0.95
TENSOR_FRACTION = 0.80
SHARED_FRACTION = 0.98
LAUNCH_S = 3e-6
"""An empty kernel between two events where nobody measured it: that of one H200 (elsewhere 2 to 5 us)."""
LEAST_LAUNCH_S = 2e-6

L2_PORT_BYTES = 64.0
"""Bytes an SM exchanges with L2 per clock (V100 to H200: the width of the port)."""
L2_SHARE = 0.6
"""L2's bandwidth as a share of what all ports together could take (GH200: 9.7 to 10.2 of 16.7 TB/s; A100: 5.4
of 9.7)."""
GRAPHICS_L2_SHARE = 0.25
"""The same on GPUs of the graphics line, whose L2 has fewer slices for as many SMs (L40: 5.1 to 5.3 of
22.6 TB/s)."""
_GRAPHICS = ((7, 5), (8, 6), (8, 9), (12, 0))


@dataclass(frozen=True)
class Ceiling:
    """A rate (bytes, results or operations per second) and where it comes from."""

    rate: float
    source: str


def dram_ceiling(profile: Profile, read: float, written: float) -> float:
    """DRAM bytes per second that programs usually reach with this mix of bytes read and written."""
    return _mixed(profile, read, written, best=False).rate


def best_dram(profile: Profile, read: float, written: float) -> Ceiling:
    """The most DRAM bytes per second that any program reached with this mix, or that nearby mixes allow."""
    return _mixed(profile, read, written, best=True)


def _mixed(profile: Profile, read: float, written: float, *, best: bool) -> Ceiling:
    """The time per byte is interpolated linearly in the written share between what was measured: reads alone
    (0), triad (1/3), copy with 16-byte accesses (1/2), writes alone (1)."""
    m = profile.measured or Measured()
    read_part, copy_part, write_part = (
        (BEST_READ, BEST_COPY, BEST_WRITE) if best else (READ_FRACTION, COPY_FRACTION, WRITE_FRACTION)
    )
    points = [(0.0, _dram(profile, m.read_gbs, read_part, "reads", best))]
    if m.triad_gbs is not None:
        points.append((1 / 3, _dram(profile, m.triad_gbs, copy_part, "two reads a write", best)))
    # A triad moves nearly the mix of a copy, so it tells more about one than a fraction of the peak.
    points.append((0.5, _dram(profile, m.copy_16b_gbs or m.triad_gbs, copy_part, "copies", best)))
    points.append((1.0, _dram(profile, m.write_gbs, write_part, "writes", best)))
    share = written / (read + written) if read + written > 0 else 0.0
    for (a, low), (b, high) in pairwise(points):
        if share <= b:
            t = (share - a) / (b - a)
            rate = 1.0 / ((1 - t) / low.rate + t / high.rate)
            if t < 0.01 or t > 0.99:
                return Ceiling(rate, (low if t < 0.5 else high).source)
            return Ceiling(rate, f"between {low.source} and {high.source}")
    return points[-1][1]


def _dram(profile: Profile, found: Measurement | None, fraction: float, what: str, best: bool) -> Ceiling:
    if found is None:
        return Ceiling(
            fraction * profile.memory.dram_bytes_per_s, f"{what}: {fraction:.0%} of the data sheet (assumed)"
        )
    return Ceiling((found.high if best else found.mid) * 1e9, f"{what}: measured ({found.source})")


def _measured(
    profile: Profile, pick: Callable[[Measured], Measurement | None], scale: float, assumed: Ceiling
) -> Ceiling:
    found = pick(profile.measured) if profile.measured is not None else None
    return assumed if found is None else Ceiling(found.high * scale, f"measured ({found.source})")


def _usual(
    profile: Profile,
    pick: Callable[[Measured], Measurement | None],
    scale: float,
    ceiling: Callable[[Profile], Ceiling],
) -> float:
    found = pick(profile.measured) if profile.measured is not None else None
    return ceiling(profile).rate if found is None else found.mid * scale


def _assumed(fraction: float, peak: float, of: str) -> Ceiling:
    return Ceiling(fraction * peak, f"{fraction:.0%} of {of} (assumed)")


def l2_ceiling(profile: Profile) -> Ceiling:
    """Bytes per second between L2 and all SMs."""
    ports = profile.per_second(L2_PORT_BYTES)
    share = GRAPHICS_L2_SHARE if profile.compute_capability in _GRAPHICS else L2_SHARE
    return _measured(profile, lambda m: m.l2_read_gbs, 1e9, _assumed(share, ports, "the SMs' ports"))


def l2_rate(profile: Profile) -> float:
    """Bytes per second between L2 and all SMs that programs usually reach."""
    return _usual(profile, lambda m: m.l2_read_gbs, 1e9, l2_ceiling)


def shared_ceiling(profile: Profile) -> Ceiling:
    """Bytes per second of all SMs' shared memories."""
    peak = profile.per_second(profile.rates.shared_bytes)
    return _measured(profile, lambda m: m.shared_gbs, 1e9, _assumed(SHARED_FRACTION, peak, "the peak"))


def issue_ceiling(profile: Profile) -> Ceiling:
    """Lane instructions of any kind per second: a warp instruction a clock and scheduler, at the pace that
    chains of FMA keep up."""
    pace = fp32_ceiling(profile).rate / (profile.peaks.fp32_tflops * 1e12 / 2)
    return Ceiling(pace * issue_peak(profile), f"{pace:.0%} of the peak, as for fp32")


def issue_peak(profile: Profile) -> float:
    """Lane instructions per second that the schedulers issue at the boost clock."""
    return profile.per_second(profile.limits.schedulers * profile.limits.warp)


def fp32_ceiling(profile: Profile) -> Ceiling:
    """Fp32 instructions of one lane (an FMA, an addition, …) per second."""
    peak = profile.peaks.fp32_tflops * 1e12 / 2
    return _measured(
        profile, lambda m: m.fp32_tflops, 1e12 / 2, _assumed(FP32_FRACTION, peak, "the data sheet")
    )


def fp32_rate(profile: Profile) -> float:
    """Fp32 instructions of one lane per second that programs usually reach."""
    return _usual(profile, lambda m: m.fp32_tflops, 1e12 / 2, fp32_ceiling)


def fp64_ceiling(profile: Profile) -> Ceiling:
    """Fp64 instructions of one lane per second, without the matrix units."""
    peak = profile.peaks.fp64_tflops * 1e12 / 2
    return _measured(
        profile, lambda m: m.fp64_tflops, 1e12 / 2, _assumed(FP32_FRACTION, peak, "the data sheet")
    )


def sfu_ceiling(profile: Profile) -> Ceiling:
    """Special-function results per second."""
    peak = profile.per_second(profile.rates.mufu)
    return _measured(profile, lambda m: m.ex2_gops, 1e9, _assumed(SFU_FRACTION, peak, "the peak"))


def int_ceiling(profile: Profile) -> Ceiling:
    """Integer and comparison instructions of one lane per second; half the fp32 rate where the profile does
    not say."""
    peak = profile.per_second(profile.rates.int_add or profile.rates.fp32_fma / 2)
    return _measured(profile, lambda m: m.int_add_gops, 1e9, Ceiling(peak, "the peak"))


def launch_floor(profile: Profile) -> float:
    """Seconds that usually pass between two events around an empty kernel."""
    measured = profile.measured.launch_us if profile.measured is not None else None
    return measured.mid * 1e-6 if measured is not None else LAUNCH_S


def least_launch(profile: Profile) -> Ceiling:
    """The same at its least, as launches per second."""
    measured = profile.measured.launch_us if profile.measured is not None else None
    if measured is None:
        return Ceiling(1.0 / LEAST_LAUNCH_S, "the shortest seen on any GPU (assumed)")
    return Ceiling(1e6 / measured.low, f"measured ({measured.source})")


def tensor_ceiling(profile: Profile, *, attainable: bool) -> Ceiling | None:
    """Multiply-adds per second of the matrix units at 16 bits or TF32; None without such units."""
    peaks = [profile.peaks.tensor[t] for t in ("tf32", "fp16", "bf16") if t in profile.peaks.tensor]
    if not peaks:
        return None
    peak = max(peaks) * 1e12 / 2
    if not attainable:
        # The listed peak holds at the tensor clock; the boost clock may beat it.
        return Ceiling(peak * max(1.0, profile.clocks.boost_mhz / profile.clocks.tensor_mhz), "the peak")
    assumed = _assumed(TENSOR_FRACTION, peak, "the data sheet")
    found = _measured(profile, lambda m: m.bf16_gemm_tflops, 1e12 / 2, assumed)
    return max(found, assumed, key=lambda c: c.rate)
