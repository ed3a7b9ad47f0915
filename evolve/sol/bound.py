"""Bounds on a kernel's time, from its meaning and the GPU alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evolve.features.extract import extract
from evolve.features.model import Features
from evolve.ir.kernel import Kernel
from evolve.sol import ceilings
from evolve.sol.cost import SOFTWARE_EXP, Cost, least, usual
from evolve.target.profile import Profile
from evolve.workload.model import Contract, Sizes


@dataclass(frozen=True)
class Bound:
    """How fast the kernel could run.

    time_s        attainable: the largest of `terms`; guides the search and is what fitness divides by
    hard_time_s   no correct run is faster: data-sheet peaks, what fits in L2 not written back; for integrity
    binding       the name of the largest attainable term: dram, fp32, fp64, sfu, int, tensor or launch
    bytes_read, bytes_written   compulsory traffic, bytes
    operations    lane instructions by pipe in the attainable bound
    l2_resident   everything the kernel touches fits L2 at once: a warm run may beat the dram term
    terms, hard_terms   seconds by name
    least_fp32    fp32 lane instructions that no program of the plain pipe gets below, whole launch
    exact         false: some traffic could only be estimated; it is then left out of the hard bound
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

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return asdict(self)


def bound(kernel: Kernel, scalars: Sizes, profile: Profile, contract: Contract = "reassociate") -> Bound:
    """The bounds of a lifted kernel at these sizes. Raises EvolveError `missing-size` as `extract` does."""
    return bound_of(extract(kernel, scalars), profile, contract)


def bound_of(features: Features, profile: Profile, contract: Contract = "reassociate") -> Bound:
    """The bounds that follow from features.

    Hard DRAM time is (bytes read + max(0, bytes written - L2)) / data-sheet bandwidth, because lines may stay
    dirty in L2 when the kernel ends. Attainable DRAM time is all bytes at the measured ceiling of their
    read:write mix. Arithmetic counts distinct values (`features.operations`).
    """
    read, written = features.bytes_read, features.bytes_written
    use, floor = _pipes(features, contract), _least_pipes(features)
    tensor_macs = _matrix_work(features, contract)
    terms = {
        "dram": (read + written) / ceilings.dram_ceiling(profile, read, written),
        "launch": ceilings.launch_floor(profile),
        "fp32": (use["fp32"] - tensor_macs) / ceilings.fp32_rate(profile),
        "fp64": use["fp64"] / ceilings.fp64_rate(profile),
        "sfu": use["sfu"] / ceilings.sfu_rate(profile),
        "int": use["int"] / ceilings.int_rate(profile),
        "tensor": 0.0,
    }
    sure_read = sum(b.read_bytes for b in features.buffers if b.exact)
    sure_written = sum(b.written_bytes for b in features.buffers if b.exact)
    kept = min(sure_written, profile.memory.l2_bytes)
    fp32_peak = profile.peaks.fp32_tflops * 1e12 / 2
    sfu_peak = profile.per_second(profile.rates.mufu)
    hard = {
        "dram": (sure_read + sure_written - kept) / profile.memory.dram_bytes_per_s,
        "fp32": (floor["fp32"] - tensor_macs) / fp32_peak,
        "fp64": floor["fp64"] / (profile.peaks.fp64_tflops * 1e12 / 2),
        "sfu": floor["sfu"] / (sfu_peak + fp32_peak / SOFTWARE_EXP),
        "tensor": 0.0,
    }
    if tensor_macs:
        attainable, peak = (ceilings.tensor_rate(profile, attainable=a) for a in (True, False))
        if attainable is not None and peak is not None:
            terms["tensor"], hard["tensor"] = tensor_macs / attainable, tensor_macs / peak
    binding = max(terms, key=lambda name: terms[name])
    hard_binding = max(hard, key=lambda name: hard[name])
    return Bound(
        time_s=terms[binding],
        hard_time_s=hard[hard_binding],
        binding=binding,
        hard_binding=hard_binding,
        bytes_read=read,
        bytes_written=written,
        operations={name: n for name, n in use.items() if n},
        l2_resident=read + written <= profile.memory.l2_bytes,
        terms={name: t for name, t in terms.items() if t},
        hard_terms={name: t for name, t in hard.items() if t},
        contract=contract,
        exact=features.exact,
        least_fp32=floor["fp32"] - tensor_macs,
    )


def _pipes(features: Features, contract: Contract) -> dict[str, float]:
    return _sum(features, {name: usual(name.partition(".")[2], contract) for name in features.operations})


def _least_pipes(features: Features) -> dict[str, float]:
    return _sum(features, {name: least(name.partition(".")[2]) for name in features.operations})


def _sum(features: Features, costs: Mapping[str, Cost]) -> dict[str, float]:
    out = {"fp32": 0.0, "fp64": 0.0, "sfu": 0.0, "int": 0.0}
    for name, times in features.operations.items():
        cost = costs[name]
        dtype = name.partition(".")[0]
        pipe = {"f32": "fp32", "f64": "fp64"}.get(dtype, "int")
        out[pipe] += cost.plain * times
        out["sfu" if dtype == "f32" else pipe] += cost.special * times
        out["int"] += cost.integer * times
    return out


def _matrix_work(features: Features, contract: Contract) -> float:
    """Multiply-adds that the matrix units may take: only `mixed` lets a contraction lose precision."""
    if contract != "mixed" or features.structure != "contraction":
        return 0.0
    return features.operations.get("f32.fma", 0.0)
