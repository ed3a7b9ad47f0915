"""Attributes, documented constants and measured figures to a profile. Needs no GPU.

Nothing is guessed: a field is an attribute of the driver, documented for the architecture, measured, or the
product of such; `provenance` says which. Where a peak is not documented, the rate per SM and clock is the
power of two above the measured one, which hardware rates are, and only when the measurement comes near it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields

from evolve.devices.calibration.attributes import Attributes
from evolve.devices.calibration.documented import Documented
from evolve.devices.calibration.figures import Figure
from evolve.ir.errors import EvolveError
from evolve.target.profile import (
    Clocks,
    Latency,
    Limits,
    Measured,
    Measurement,
    Memory,
    Peaks,
    Profile,
    Rates,
)

NEAR = 0.85
"""A measured rate this close to a power of two shows that power; below, nothing is concluded."""

_RATES = {
    "fp32_fma": "fp32_tflops",
    "fp64_fma": "fp64_tflops",
    "mufu": "ex2_gops",
    "shared_bytes": "shared_gbs",
    "int_add": "int_add_gops",
    "imad": "imad_gops",
}
_NEEDED = ("fp32_fma", "fp64_fma", "mufu", "shared_bytes")
_WARP_LEVEL_MAJORS = (8, 12)

_HINT = "see the table for what was measured; a profile can also be written by hand into ./hardware"


def stem_of(name: str) -> str:
    """A profile's stem from the driver's name of the GPU: `NVIDIA H200` gives `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "gpu"


def describe(
    gpu: Attributes,
    figures: Sequence[Figure],
    known: Documented,
    base: Profile | None,
    taken: str,
) -> Profile:
    """The profile of this GPU.

    `taken` says when and with what the figures were measured; `base` is the listed profile of this GPU, None
    when there is none. Raises EvolveError `cannot-describe` when the driver does not say what a profile needs
    or nothing tells a peak.
    """
    _require_attributes(gpu, known)
    found = {f.name: f for f in figures if not f.doubt}
    where: dict[str, str] = {"calibrated": taken}
    rates = _rates(found, known, where)
    tensor = _tensor(gpu, found, known, where)
    clocks = _clocks(gpu, base, where)
    memory = _memory(gpu, known, base, where)
    limits = _limits(gpu, known, where)
    where["sms"] = "driver attribute"
    where["peaks"] = "SMs x rate x clock, an FMA counting two; fp64 tensor at the boost clock"
    per_second = gpu.sms * gpu.clock_mhz * 1e6
    return Profile(
        stem=stem_of(gpu.name),
        name=gpu.name,
        vendor="nvidia",
        arch=gpu.arch,
        compute_capability=gpu.compute_capability,
        sms=gpu.sms,
        clocks=clocks,
        peaks=Peaks(
            round(2 * rates["fp32_fma"] * per_second / 1e12, 3),
            round(2 * rates["fp64_fma"] * per_second / 1e12, 3),
            {
                kind: round(
                    flop * gpu.sms * (clocks.boost_mhz if kind == "fp64" else clocks.tensor_mhz) / 1e6, 1
                )
                for kind, flop in tensor.items()
            },
        ),
        memory=memory,
        limits=limits,
        rates=Rates(
            fp32_fma=rates["fp32_fma"],
            fp64_fma=rates["fp64_fma"],
            mufu=rates["mufu"],
            shared_bytes=rates["shared_bytes"],
            fp16_fma=rates.get("fp16_fma"),
            int_add=rates.get("int_add"),
            imad=rates.get("imad"),
            shuffle_lanes=rates.get("shuffle_lanes"),
            load_store_lanes=rates.get("load_store_lanes"),
            tensor_flop=tensor,
        ),
        latency=_latency(found, where),
        measured=_measured(found, taken),
        provenance=where,
    )


def _require_attributes(gpu: Attributes, known: Documented) -> None:
    needed = {
        "the memory clock and bus width": gpu.dram_gbs,
        "the SM clock": gpu.clock_mhz,
        "the size of L2": gpu.l2_bytes,
        "the number of blocks an SM holds": gpu.blocks_per_sm,
    }
    for what, value in needed.items():
        if not value:
            raise EvolveError("cannot-describe", f"the driver does not say {what} of {gpu.name}", hint=_HINT)
    constants = ("register_unit", "registers_per_thread", "schedulers", "shared_unit_bytes", "shared_banks")
    missing = [name for name in constants if name not in known.constants]
    if missing:
        text = f"{', '.join(missing)} of {gpu.name} are neither measured nor documented"
        raise EvolveError("cannot-describe", text, hint=_HINT)


def _rates(found: Mapping[str, Figure], known: Documented, where: dict[str, str]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for name in dict.fromkeys([*_RATES, *known.rates]):
        figure = found.get(_RATES.get(name, ""))
        seen = None if figure is None else figure.per_clock
        said = "" if seen is None else f"; measured {seen:.1f}"
        if name in known.rates:
            rates[name] = known.rates[name]
            where[f"rates.{name}"] = f"documented: {known.source}{said}"
            continue
        power = None if seen is None else next_power(seen)
        if power is not None:
            rates[name] = power
            where[f"rates.{name}"] = f"the power of two above what was measured{said}"
        elif name in _NEEDED:
            raise EvolveError(
                "cannot-describe", f"the rate {name} is not documented and not clear{said}", hint=_HINT
            )
    return rates


def next_power(rate: float) -> float | None:
    """The power of two that a measured rate per SM and clock comes near from below, None when none."""
    # A hundredth above a power is noise of the clock, not the next power.
    power: float = 2.0 ** math.ceil(math.log2(rate / 1.01)) if rate > 0 else 0.0
    return power if power and rate >= NEAR * power else None


def _tensor(
    gpu: Attributes, found: Mapping[str, Figure], known: Documented, where: dict[str, str]
) -> dict[str, float]:
    tensor = dict(known.tensor_flop)
    if tensor:
        where["rates.tensor_flop"] = f"documented: {known.source}"
    figure = found.get("fp16_mma_tflops")
    warp_level = gpu.compute_capability[0] in _WARP_LEVEL_MAJORS
    if "fp16" not in tensor and warp_level and figure is not None and figure.per_clock is not None:
        power = next_power(figure.per_clock)
        if power is not None:
            tensor["fp16"] = power
            said = f"measured {figure.per_clock:.1f}"
            where["rates.tensor_flop.fp16"] = f"the power of two above what was measured; {said}"
    return tensor


def _clocks(gpu: Attributes, base: Profile | None, where: dict[str, str]) -> Clocks:
    where["clocks.boost_mhz"] = "driver attribute"
    if base is not None and abs(base.clocks.boost_mhz / gpu.clock_mhz - 1) < 0.01:
        where["clocks.tensor_mhz"] = f"documented: {base.stem}"
        return Clocks(gpu.clock_mhz, base.clocks.tensor_mhz)
    where["clocks.tensor_mhz"] = "the boost clock"
    return Clocks(gpu.clock_mhz, gpu.clock_mhz)


def _memory(gpu: Attributes, known: Documented, base: Profile | None, where: dict[str, str]) -> Memory:
    where["memory"] = "driver attributes"
    where["memory.dram_gbs"] = (
        f"driver attributes: 2 x {gpu.memory_clock_mhz:g} MHz x {gpu.memory_bus_bits} bits / 8"
    )
    for name in ("shared_unit_bytes", "shared_banks", "l1_shared_bytes_per_sm"):
        if name in known.constants:
            where[f"memory.{name}"] = f"documented: {known.constants_source}"
    if base is not None:
        where["memory.kind"] = f"documented: {base.stem}"
    return Memory(
        kind=base.memory.kind if base is not None else "not known",
        dram_gbs=round(gpu.dram_gbs, 1),
        l2_bytes=gpu.l2_bytes,
        shared_bytes_per_sm=gpu.shared_bytes_per_sm,
        shared_bytes_per_block=gpu.shared_bytes_per_block,
        shared_bytes_per_block_optin=gpu.shared_bytes_per_block_optin,
        shared_reserved_per_block=gpu.shared_reserved_per_block,
        shared_unit_bytes=known.constants["shared_unit_bytes"],
        shared_banks=known.constants["shared_banks"],
        l1_shared_bytes_per_sm=known.constants.get("l1_shared_bytes_per_sm"),
        constant_bytes=gpu.constant_bytes or None,
        last_level_bytes=None,
    )


def _limits(gpu: Attributes, known: Documented, where: dict[str, str]) -> Limits:
    where["limits"] = "driver attributes"
    for name in ("register_unit", "registers_per_thread", "schedulers"):
        where[f"limits.{name}"] = f"documented: {known.constants_source}"
    return Limits(
        warp=gpu.warp,
        threads_per_block=gpu.threads_per_block,
        threads_per_sm=gpu.threads_per_sm,
        blocks_per_sm=gpu.blocks_per_sm,
        registers_per_sm=gpu.registers_per_sm,
        registers_per_block=gpu.registers_per_block,
        registers_per_thread=known.constants["registers_per_thread"],
        register_unit=known.constants["register_unit"],
        schedulers=known.constants["schedulers"],
    )


def _latency(found: Mapping[str, Figure], where: dict[str, str]) -> Latency:
    values = {f.name: round(found[f.name].mid, 1) if f.name in found else None for f in fields(Latency)}
    for name, value in values.items():
        if value is not None:
            where[f"latency.{name}"] = "measured: pointer chase of one thread"
    return Latency(**values)


def _measured(found: Mapping[str, Figure], taken: str) -> Measured:
    return Measured(
        **{
            f.name: Measurement(_short(found[f.name].low), _short(found[f.name].high), taken)
            for f in fields(Measured)
            if f.name in found
        }
    )


def _short(value: float) -> float:
    """Five significant digits."""
    return float(f"{value:.5g}")
