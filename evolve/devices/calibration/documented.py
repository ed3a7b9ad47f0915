"""What is documented for an architecture, read off the profiles of GPUs that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from evolve.target.profile import Profile, Rates

_LIMITS = ("register_unit", "registers_per_thread", "schedulers")
_MEMORY = ("shared_unit_bytes", "shared_banks", "l1_shared_bytes_per_sm")
_CONSTANT = (*_LIMITS, "shared_unit_bytes", "shared_banks")
_CONSTANT_SINCE = (8, 0)


@dataclass(frozen=True)
class Documented:
    """What no driver tells.

    source       in words: whose figures these are; `constants_source` for the constants
    rates        per SM and clock, by the field's name in `Rates`, `tensor_flop` apart
    tensor_flop  operations per SM and clock by type
    constants    of `Limits` (register_unit, registers_per_thread, schedulers) and of `Memory`
                 (shared_unit_bytes, shared_banks, l1_shared_bytes_per_sm)
    """

    source: str
    constants_source: str
    rates: Mapping[str, float] = field(default_factory=dict)
    tensor_flop: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)


def documented(capability: tuple[int, int], profiles: Sequence[Profile], base: Profile | None) -> Documented:
    """What the listed GPUs of this compute capability agree on; with `base`, this GPU's profile, only that.

    For a compute capability that no listed GPU has, no rates are known; of the constants, those that are the
    same on all listed NVIDIA GPUs from 8.0 on, as NVIDIA's occupancy tables have it.
    """
    alike = [base] if base is not None else [p for p in profiles if p.compute_capability == capability]
    name = "{}.{}".format(*capability)
    if not alike:
        later = [p for p in profiles if (p.compute_capability or (0, 0)) >= _CONSTANT_SINCE]
        constants = {n: v for n, v in _constants(later).items() if n in _CONSTANT}
        if capability < _CONSTANT_SINCE:
            constants = {}
        text = "the same on all listed GPUs from compute capability 8.0 on"
        return Documented("not listed", text, constants=constants)
    source = base.stem if base is not None else f"listed GPUs of compute capability {name}"
    names = [f.name for f in fields(Rates) if f.name != "tensor_flop"]
    rates = {name: _common(getattr(p.rates, name) for p in alike) for name in names}
    tensor = {
        kind: _common(p.rates.tensor_flop.get(kind) for p in alike)
        for kind in dict.fromkeys(k for p in alike for k in p.rates.tensor_flop)
    }
    return Documented(source, source, _known(rates), _known(tensor), _constants(alike))


def _constants(profiles: Sequence[Profile]) -> dict[str, int]:
    return _known(
        {n: _common(getattr(p.limits, n) for p in profiles) for n in _LIMITS}
        | {n: _common(getattr(p.memory, n) for p in profiles) for n in _MEMORY}
    )


def _common(values: Iterable[Any]) -> Any:
    """The value that all have, else None."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
