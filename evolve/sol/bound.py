"""Bounds on a kernel's time, from its meaning and the GPU alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evolve.features.extract import extract
from evolve.features.model import Features
from evolve.ir.kernel import Kernel
from evolve.sol import ceilings
from evolve.sol.ceilings import Ceiling
from evolve.sol.cost import SOFTWARE_EXP, Cost, least, usual
from evolve.sol.hierarchy import least_traffic
from evolve.sol.units import microseconds, size, unit
from evolve.target.profile import Profile
from evolve.workload.model import Contract, Sizes
from evolve.workload.structure import IndexArrays

_WHAT = re.compile(r"^[^(]*?: ")
"""What a rate was measured on, before where the figure comes from: `copies: measured (...)`."""

_VECTOR_BYTES = 16
"""What one lane moves at most with one instruction."""
_SAME = 0.95
"""An arithmetic pipe that takes this share of the issue slots' time is what binds, not the slots."""


THIS_INPUT = "for this input: traffic and work were counted on the values of its index arrays"
"""What a report says of bounds that depend on what index arrays hold."""


@dataclass(frozen=True)
class Bound:
    """How fast the kernel could run.

    time_s        attainable: the largest of `terms`; guides the search and is what fitness divides by
    hard_time_s   no correct run is faster: data-sheet peaks, what fits in L2 not written back; for integrity
    binding       the name of the largest attainable term: dram, l2, shared, fp32, fp64, sfu, int, tensor,
                  issue or launch (`int` counts comparisons, minima and maxima too)
    bytes_read, bytes_written   compulsory traffic, bytes
    operations    lane instructions by pipe in the attainable bound
    l2_resident   everything the kernel touches fits L2 at once: a warm run may beat the dram term
    warm_time_s   the attainable bound when L2 holds everything beforehand; `time_s` when it does not fit
    terms, hard_terms   seconds by name
    sources       where each term's rate comes from
    least_fp32    fp32 lane instructions that no program of the plain pipe gets below, whole launch
    exact         false: some traffic could only be estimated; it is then left out of the hard bound
    this_input    traffic or work was counted on the index arrays of one input: the bound holds for that input
    """

    time_s: float
    hard_time_s: float
    binding: str
    hard_binding: str
    bytes_read: int
    bytes_written: int
    operations: Mapping[str, float] = field(hash=False)
    l2_resident: bool
    terms: Mapping[str, float] = field(hash=False)
    hard_terms: Mapping[str, float] = field(hash=False)
    contract: Contract
    exact: bool
    least_fp32: float = 0.0
    warm_time_s: float = 0.0
    this_input: bool = False
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data, with the text."""
        return asdict(self) | {"text": self.lines()}

    def lines(self) -> list[str]:
        """For people: the bound, each level's part of it, what to know about them."""
        hard = f"no run below {microseconds(self.hard_time_s)} (data sheet, {unit(self.hard_binding)})"
        out = [f"{microseconds(self.time_s)} attainable, bound by {unit(self.binding)}; {hard}"]
        for name, seconds in sorted(self.terms.items(), key=lambda item: -item[1]):
            what = ""
            if name == "dram":
                what = f": {size(self.bytes_read)} read, {size(self.bytes_written)} written"
            elif name in self.operations:
                what = f": {self.operations[name]:.3g} lane instructions"
            # Where and how it was measured is in `sources`.
            source = _WHAT.sub("", self.sources[name])
            rate = "measured" if source.startswith("measured") else source
            out.append(f"{microseconds(seconds):>8}  {unit(name)}{what}; rate {rate}")
        if self.l2_resident:
            out.append(f"all data fits L2: a warm run may take {microseconds(self.warm_time_s)}")
        if self.this_input:
            out.append(THIS_INPUT)
        if not self.exact:
            out.append("some of the traffic is an estimate and left out of the hard bound")
        return out


def bound(
    kernel: Kernel,
    scalars: Sizes,
    profile: Profile,
    contract: Contract = "reassociate",
    contents: IndexArrays | None = None,
) -> Bound:
    """The bounds of a lifted kernel at these sizes, with the index arrays `contents` if it reads any.

    Raises EvolveError `missing-size` as `extract` does.
    """
    return bound_of(extract(kernel, scalars, contents), profile, contract)


def bound_of(features: Features, profile: Profile, contract: Contract = "reassociate") -> Bound:
    """The bounds that follow from features.

    Hard DRAM time is (bytes read + max(0, bytes written - L2)) / data-sheet bandwidth, because lines may stay
    dirty in L2 when the kernel ends. Attainable DRAM time is all bytes at the best that was measured for
    their read:write mix. Arithmetic counts distinct values (`features.operations`). L2, shared memory and
    integers have no hard term: no data sheet gives the first two rates, and one integer instruction may do
    the work of several operations.
    """
    read, written = features.bytes_read, features.bytes_written
    need = _sum(features, lambda kind: usual(kind, contract))
    on_tensor = _matrix_work(features, contract)
    need["fp32"] -= on_tensor
    levels = least_traffic(features, profile)
    # Every lane instruction takes an issue slot, and so does every 16 bytes of a lane's loads and stores.
    others = sum(n for name, n in need.items() if name != "fp32")
    slots = need["fp32"] / _packed(profile) + others + (read + written) / _VECTOR_BYTES
    amounts: dict[str, tuple[float, Ceiling | None]] = {
        "dram": (read + written, ceilings.best_dram(profile, read, written)),
        "l2": (levels.l2, ceilings.l2_ceiling(profile)),
        "shared": (levels.shared, ceilings.shared_ceiling(profile)),
        "fp32": (need["fp32"], ceilings.fp32_ceiling(profile)),
        "fp64": (need["fp64"], ceilings.fp64_ceiling(profile)),
        "sfu": (need["sfu"], ceilings.sfu_ceiling(profile)),
        "int": (need["int"], ceilings.int_ceiling(profile)),
        "tensor": (on_tensor, ceilings.tensor_ceiling(profile, attainable=True)),
        "issue": (slots, ceilings.issue_ceiling(profile)),
        "launch": (1.0, ceilings.least_launch(profile)),
    }
    terms = {n: a / c.rate for n, (a, c) in amounts.items() if a and c is not None}
    hard, least_fp32 = _hard(features, profile, contract, on_tensor)
    resident = read + written <= profile.memory.l2_bytes
    cold = max(terms.values())
    warm = max(t for n, t in terms.items() if n != "dram")
    hard_binding = max(hard, key=lambda name: hard[name])
    return Bound(
        time_s=cold,
        hard_time_s=hard[hard_binding],
        binding=_binding(terms),
        hard_binding=hard_binding,
        bytes_read=read,
        bytes_written=written,
        operations={name: n for name, n in need.items() if n},
        l2_resident=resident,
        terms=terms,
        hard_terms={name: t for name, t in hard.items() if t},
        contract=contract,
        exact=features.exact,
        this_input=features.this_input,
        least_fp32=least_fp32,
        warm_time_s=warm if resident else cold,
        sources={n: amounts[n][1].source for n in terms},  # type: ignore[union-attr]
    )


def _binding(terms: Mapping[str, float]) -> str:
    """The largest term; the pipe that fills the issue slots rather than they."""
    name = max(terms, key=lambda n: terms[n])
    if name != "issue":
        return name
    pipes = {
        n: t for n, t in terms.items() if n in ("fp32", "fp64", "sfu", "int") and t >= _SAME * terms[name]
    }
    return max(pipes, key=lambda n: pipes[n]) if pipes else name


def _hard(
    features: Features, profile: Profile, contract: Contract, on_tensor: float
) -> tuple[dict[str, float], float]:
    """Seconds by name at the peaks, and the fp32 lane instructions that no program gets below."""
    floor = _sum(features, lambda kind: least(kind, contract))
    sure_read = sum(b.read_bytes for b in features.buffers if b.exact)
    sure_written = sum(b.written_bytes for b in features.buffers if b.exact)
    kept = min(sure_written, profile.memory.l2_bytes)
    fp32_peak = profile.peaks.fp32_tflops * 1e12 / 2
    fp64_peak = profile.peaks.fp64_tflops * 1e12 / 2
    if features.structure == "contraction" and contract != "exact":
        # Matrix units add in double precision too.
        fp64_peak = max(fp64_peak, profile.peaks.tensor.get("fp64", 0.0) * 1e12 / 2)
    comparisons = sum(n for name, n in features.operations.items() if name == "f32.minmax")
    plain = floor["fp32"] - on_tensor
    hard = {
        "dram": (sure_read + sure_written - kept) / profile.memory.dram_bytes_per_s,
        # Minima and maxima have a pipe of their own; only an issue slot is sure to go to them.
        "fp32": (plain - comparisons) / fp32_peak,
        "fp64": floor["fp64"] / fp64_peak,
        "sfu": floor["sfu"] / (profile.per_second(profile.rates.mufu) + fp32_peak / SOFTWARE_EXP),
        "issue": (plain / _packed(profile) + floor["sfu"]) / max(fp32_peak, ceilings.issue_peak(profile)),
        "tensor": 0.0,
    }
    peak = ceilings.tensor_ceiling(profile, attainable=False)
    if on_tensor and peak is not None:
        hard["tensor"] = on_tensor / peak.rate
    return hard, plain


def _packed(profile: Profile) -> float:
    """Fp32 results of one lane's instruction at most: two from compute capability 10.0 on (FFMA2)."""
    return 2.0 if (profile.compute_capability or (0, 0)) >= (10, 0) else 1.0


def _sum(features: Features, cost_of: Callable[[str], Cost]) -> dict[str, float]:
    out = {"fp32": 0.0, "fp64": 0.0, "sfu": 0.0, "int": 0.0}
    for name, times in features.operations.items():
        dtype, _, kind = name.partition(".")
        cost = cost_of(kind)
        pipe = {"f32": "fp32", "f64": "fp64"}.get(dtype, "int")
        out[pipe] += cost.plain * times
        # There are no special functions in double precision: they are polynomials on the plain pipe.
        out[pipe if dtype == "f64" and kind != "convert" else "sfu"] += cost.special * times
        out["int"] += cost.integer * times
    return out


def _matrix_work(features: Features, contract: Contract) -> float:
    """Multiply-adds that the matrix units may take: only `mixed` lets a contraction lose precision."""
    if contract != "mixed" or features.structure != "contraction":
        return 0.0
    return features.operations.get("f32.fma", 0.0)
