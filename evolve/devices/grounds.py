"""What an estimate for a GPU rests on: which figures someone measured on it, which are only carried over.

The time model was made and checked on an H200. For another GPU it takes what the profile has; what it lacks
is a stated fraction of the data sheet or the H200's own figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evolve.devices.estimate import DRAM_NS, L1_CLOCKS, L2_CLOCKS
from evolve.ir.errors import EvolveError
from evolve.sol.ceilings import (
    COPY_FRACTION,
    FP32_FRACTION,
    LAUNCH_S,
    READ_FRACTION,
    WRITE_FRACTION,
    l2_ceiling,
)
from evolve.target.profile import Measured, Measurement, Profile, load_profile

Evidence = Literal["calibrated", "published", "data sheet", "fitted", "carried over"]
"""`calibrated`: measured by `evolve calibrate`; `published`: by others, on this GPU or one that is named;
`fitted`: chosen so that estimates agree with times on this GPU; `carried over`: from others, mostly one
H200."""

_TITLES: tuple[tuple[Evidence, str], ...] = (
    ("calibrated", "measured by evolve calibrate"),
    ("published", "published measurements"),
    ("data sheet", "data sheet"),
    ("fitted", "chosen on this GPU"),
    ("carried over", "carried over from other GPUs"),
)


@dataclass(frozen=True)
class Ground:
    """A figure (or several) of the time model and what stands behind it."""

    figure: str
    evidence: Evidence
    detail: str


@dataclass(frozen=True)
class Grounds:
    """All figures behind the estimates for one GPU; `validated` names what they were checked against, None
    where nobody checked any."""

    gpu: str
    validated: str | None
    figures: tuple[Ground, ...]

    def of(self, evidence: Evidence) -> tuple[Ground, ...]:
        """Those with this evidence."""
        return tuple(g for g in self.figures if g.evidence == evidence)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return asdict(self)

    def short(self) -> str:
        """In half a line."""
        if self.validated is not None:
            return f"checked on such a GPU ({self.validated})"
        counts = [
            f"{evidence} {len(found)}"
            for evidence, _ in _TITLES
            if evidence != "data sheet" and (found := self.of(evidence))
        ]
        return f"nobody has checked one; figures beside the data sheet: {', '.join(counts)}"

    def lines(self) -> list[str]:
        """For people: whether anyone checked; if not, the figures by evidence."""
        if self.validated is not None:
            return [f"estimates for {self.gpu} were checked on one ({self.validated})"]
        out = [
            f"estimates for {self.gpu}: nobody has checked one on such a GPU; "
            "the model was made and checked on an H200"
        ]
        for evidence, title in _TITLES:
            found = self.of(evidence)
            if found:
                out += [f"  {title}", *(f"    {g.figure}: {g.detail}" for g in found)]
        return out


def grounds(profile: Profile) -> Grounds:
    """What estimates for this GPU rest on."""
    return Grounds(profile.name, profile.validated, tuple(_figures(profile)))


def grounds_of(stem: str) -> Grounds | None:
    """The same by a profile's name; None where that profile is not here (any more)."""
    try:
        return grounds(load_profile(stem))
    except EvolveError:
        return None


def unchecked(timing: str, stem: str) -> str:
    """What is said after `estimated` of a GPU on which nobody has checked estimates; nothing of others."""
    found = grounds_of(stem) if timing == "estimated" else None
    return " (not checked on such a GPU)" if found is not None and found.validated is None else ""


def _figures(profile: Profile) -> Iterator[Ground]:
    calibrated = bool(profile.provenance)
    yield Ground(
        "clocks, sizes, limits, rates per clock",
        "calibrated" if calibrated else "data sheet",
        "driver attributes, and what is documented for the architecture"
        if calibrated
        else "the vendor's, checked against SMs x rate x clock",
    )
    m = profile.measured or Measured()
    fraction = "{:.0%} of the data sheet, as other GPUs reach".format
    yield _rate(profile, "DRAM reads", m.read_gbs, "GB/s", fraction(READ_FRACTION))
    copies = "DRAM copies" if m.copy_16b_gbs or not m.triad_gbs else "DRAM copies, as two reads a write"
    yield _rate(profile, copies, m.copy_16b_gbs or m.triad_gbs, "GB/s", fraction(COPY_FRACTION))
    yield _rate(profile, "DRAM writes", m.write_gbs, "GB/s", fraction(WRITE_FRACTION))
    yield _rate(profile, "L2", m.l2_read_gbs, "GB/s", l2_ceiling(profile).source.removesuffix(" (assumed)"))
    yield _rate(profile, "fp32", m.fp32_tflops, "TFLOP/s", fraction(FP32_FRACTION))
    yield _rate(profile, "launch", m.launch_us, "us", f"{LAUNCH_S * 1e6:.3g} us, as on one H200")
    yield from _latencies(profile)
    yield Ground(
        "starting blocks, requests and partial writes to L2, overlap of units",
        "carried over" if profile.validated is None else "fitted",
        "chosen on one H200" if profile.validated is None else profile.validated,
    )
    yield Ground("atomics of one address", "carried over", "one a clock, as documented for Kepler")


def _rate(profile: Profile, figure: str, found: Measurement | None, unit: str, otherwise: str) -> Ground:
    if found is None:
        return Ground(figure, "carried over", otherwise)
    same = f"{found.low:g}" == f"{found.high:g}"
    value = f"{found.low:g}" if same else f"{found.low:g} to {found.high:g}"
    ours = profile.provenance or _is_ours(found.source)
    return Ground(figure, "calibrated" if ours else "published", f"{value} {unit} ({found.source})")


def _is_ours(source: str) -> bool:
    return source.startswith("evolve calibrate")


def _latencies(profile: Profile) -> Iterator[Ground]:
    """Those with one source together."""
    have = profile.latency
    figures = (
        ("L1", "l1_clocks", have.l1_clocks, L1_CLOCKS, "clocks"),
        ("L2", "l2_clocks", have.l2_clocks, L2_CLOCKS, "clocks"),
        ("DRAM", "dram_ns", have.dram_ns, DRAM_NS, "ns"),
    )
    grouped: dict[tuple[Evidence, str], list[tuple[str, str]]] = {}
    for level, name, value, otherwise, unit in figures:
        ours = profile.provenance.get(f"latency.{name}")
        told = profile.sources.get(f"latency.{name}", profile.sources.get("latency"))
        behind: tuple[Evidence, str] = ("carried over", "about those of an A100, H100 or H200")
        if value is not None and (ours or told):
            source = ours or told or ""
            behind = ("calibrated" if ours or _is_ours(source) else "published", source)
        known = otherwise if value is None else value
        grouped.setdefault(behind, []).append((level, f"{known:g} {unit}"))
    for (evidence, source), found in grouped.items():
        levels = ", ".join(level for level, _ in found)
        yield Ground(f"latency of {levels}", evidence, f"{', '.join(v for _, v in found)} ({source})")
