"""Samples to figures, each judged against what the GPU could do at most. Needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles

from evolve.devices.calibration.attributes import Attributes
from evolve.devices.calibration.benches import CHASES, LOOPS, STREAMS, Loop
from evolve.devices.calibration.samples import Pair, Samples
from evolve.sol.ceilings import L2_PORT_BYTES

PLAUSIBLE = (0.3, 1.02)
"""Fractions of the product of units, rate and clock. Less means that something else was measured, more that
less work was done than was counted, or that the clock ran above what the driver says."""

STEADY = 0.2
"""How far the quartiles of a rate may lie apart. On an idle GPU they lie within a few per cent."""

LATENCIES = {
    "shared_clocks": (10, 100),
    "l1_clocks": (10, 100),
    "l2_clocks": (120, 1000),
    "dram_ns": (150, 3000),
}
"""Wide windows around what is published for V100 to B200 (shared 19 to 30 clocks, L1 28 to 45, L2 190 to 360,
DRAM 300 to 900 ns): a chase outside of its window saw another level."""

_WARP_LEVEL_IS_FASTEST = {7, 8, 12}
"""Major compute capabilities whose matrix units have no faster instructions than the warp-level ones."""

_UNITS = {"gbs": "GB/s", "tflops": "TFLOP/s", "gops": "G/s", "us": "us", "clocks": "clocks", "ns": "ns"}


@dataclass(frozen=True)
class Figure:
    """One measured quantity, named as the profile's field.

    low, high   the middle half of the samples
    per_clock   results per SM and clock as `target.profile.Rates` counts them, None where that means nothing
    clock_mhz   the SM clock that follows from both, None without
    most        what the GPU could do at most, in the same unit; None where that is not known
    kernel      the microbenchmark behind it
    doubt       why it is not believed; empty when it is
    """

    name: str
    low: float
    high: float
    kernel: str
    per_clock: float | None = None
    clock_mhz: float | None = None
    most: float | None = None
    doubt: str = ""

    @property
    def mid(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2

    @property
    def unit(self) -> str:
        """The unit that the name's ending stands for."""
        return _UNITS[self.name.rsplit("_", 1)[1]]

    @property
    def fraction(self) -> float | None:
        """Of what the GPU could do at most."""
        return None if self.most is None else self.mid / self.most


def rates_of(pair: Pair) -> tuple[float, float] | None:
    """Quartiles of added work per added second over the pairs of samples; None when time does not grow."""
    added = [(b - a) * 1e-6 for a, b in zip(pair.few_us, pair.many_us, strict=False)]
    if len(added) < 2 or median(added) <= 0:
        return None
    first, _, third = quantiles(added, n=4, method="inclusive")
    # Where noise swamps the difference the quartile may not be positive; the median then stands for both.
    slowest, fastest = third, first if first > 0 else median(added)
    return (pair.many - pair.few) / slowest, (pair.many - pair.few) / fastest


def per_clock(pair: Pair, blocks: int) -> float | None:
    """Added work per SM and added SM clock, of the middle block; None without clocks."""
    if not pair.few_clocks or not pair.many_clocks:
        return None
    added = median(pair.many_clocks) - median(pair.few_clocks)
    return (pair.many - pair.few) / blocks / added if added > 0 else None


def work_out(samples: Samples, gpu: Attributes, rates: Mapping[str, float]) -> tuple[Figure, ...]:
    """All figures that the samples give, in the order of the benches; doubtful ones say why.

    `rates` are documented rates per SM and clock by the field's name in `Rates`; `tensor_fp16` in operations.
    """
    found: list[Figure] = []
    for name in dict.fromkeys(stream.figure for stream in STREAMS):
        best = _fastest([s.kernel for s in STREAMS if s.figure == name], samples)
        if best is not None:
            kernel, (low, high) = best
            found.append(_judged(Figure(name, low / 1e9, high / 1e9, kernel, most=gpu.dram_gbs or None)))
    read = next((f.mid for f in found if f.name == "read_gbs" and not f.doubt), None)
    for loop in LOOPS:
        pair = samples.pairs.get(loop.kernel)
        if pair is not None:
            found.append(_loop(loop, pair, gpu, rates, read))
    if len(samples.launch_us) >= 2:
        first, _, third = quantiles(samples.launch_us, n=4, method="inclusive")
        doubt = "" if first > 0 else "it takes no time"
        found.append(Figure("launch_us", first, third, "empty", doubt=doubt))
    return (*found, *_latencies(samples))


def _fastest(kernels: Sequence[str], samples: Samples) -> tuple[str, tuple[float, float]] | None:
    found = {k: rates_of(samples.pairs[k]) for k in kernels if k in samples.pairs}
    known = {k: r for k, r in found.items() if r is not None}
    if not known:
        return None
    best = max(known, key=lambda k: sum(known[k]))
    return best, known[best]


def _loop(loop: Loop, pair: Pair, gpu: Attributes, rates: Mapping[str, float], read: float | None) -> Figure:
    speed = rates_of(pair)
    if speed is None:
        return Figure(loop.figure, 0.0, 0.0, loop.kernel, doubt="more work takes no more time")
    low, high = speed[0] / loop.unit, speed[1] / loop.unit
    clocked = per_clock(pair, gpu.sms)
    lanes = None if clocked is None else clocked / loop.results * loop.lanes
    mhz = None if clocked is None else (speed[0] + speed[1]) / 2 / clocked / gpu.sms / 1e6
    per_second = gpu.sms * gpu.clock_mhz * 1e6 / loop.unit
    figure = Figure(loop.figure, low, high, loop.kernel, lanes, mhz)
    if loop.figure == "l2_read_gbs":
        return _judged_l2(figure, L2_PORT_BYTES * per_second, read)
    if loop.figure == "fp16_mma_tflops":
        # Where faster instructions exist the listed rate is theirs: a bound, and a loose one.
        listed = rates.get("tensor_fp16")
        major = gpu.compute_capability[0]
        if listed is None:
            return _steady(figure)
        least = PLAUSIBLE[0] if major in _WARP_LEVEL_IS_FASTEST or major == 9 else 0.0
        return _judged(replace(figure, most=listed * per_second), least)
    rate = rates.get(loop.rate or "")
    if rate is None:
        return _steady(figure)
    return _judged(replace(figure, most=rate * per_second * loop.results / loop.lanes))


def _judged(figure: Figure, least: float = PLAUSIBLE[0]) -> Figure:
    part = figure.fraction
    if part is None or least <= part <= PLAUSIBLE[1]:
        return _steady(figure)
    doubt = f"{100 * part:.0f} % of what {figure.most:.4g} {figure.unit} would be"
    return replace(figure, doubt=doubt)


def _steady(figure: Figure) -> Figure:
    apart = figure.high / figure.low - 1
    if apart <= STEADY:
        return figure
    return replace(figure, doubt=f"samples lie {100 * apart:.0f} % apart: is the GPU in use?")


def _judged_l2(figure: Figure, most: float, read: float | None) -> Figure:
    figure = _judged(replace(figure, most=most), 0.0)
    if not figure.doubt and read is not None and figure.mid < read:
        return replace(figure, doubt=f"slower than DRAM with {read:.4g} {figure.unit}")
    return figure


def _latencies(samples: Samples) -> list[Figure]:
    """Each within what its level can be; and DRAM slower than L2 in the same clocks."""
    found: list[Figure] = []
    clocks: dict[str, float] = {}
    for chase in CHASES:
        got = samples.chases.get(chase.latency)
        if got is None:
            continue
        clocks[chase.latency] = got.clocks / got.hops
        value = got.ns / got.hops if chase.latency.endswith("_ns") else clocks[chase.latency]
        doubt = "" if got.arrived else "the chase did not end where its ring says"
        least, most = LATENCIES[chase.latency]
        if not doubt and not least <= value <= most:
            doubt = f"outside of {least:g} to {most:g}, where every GPU lies"
        cached = clocks.get("l2_clocks", 0.0)
        if not doubt and chase.latency == "dram_ns" and clocks["dram_ns"] < 1.2 * cached:
            doubt = "no slower than L2"
        found.append(Figure(chase.latency, value, value, chase.kernel, doubt=doubt))
    return found
