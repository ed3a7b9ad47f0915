"""Clocks and what holds them down, from NVML through cuda-bindings. Says nothing where NVML is absent."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from evolve.devices.cuda.messages import Clocks

_GRAPHICS, _SM, _MEMORY = 0, 1, 2
_GPU_SENSOR = 0
_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal, by software",
    0x40: "thermal, by hardware",
    0x80: "power brake",
    0x100: "display clocks",
}


class Nvml:
    """Readings of one GPU. Never raises: a reading that fails is None."""

    def __init__(self, pci_bus_id: str, nvml: Any = None) -> None:
        self._nvml: Any = None
        try:
            library = nvml or import_module("cuda.bindings.nvml")
            library.init_v2()
            self._device = library.device_get_handle_by_pci_bus_id_v2(pci_bus_id)
            self._nvml = library
        except Exception:
            # No library, no permission, an older binding: each with an error of its own.
            return

    def read(self) -> Clocks | None:
        """The clocks now."""
        sm, memory = self._get("device_get_clock_info", _SM), self._get("device_get_clock_info", _MEMORY)
        if sm is None or memory is None:
            return None
        power = self._get("device_get_power_usage")
        mask = self._get("device_get_current_clocks_event_reasons")
        temperature = self._get("device_get_temperature_v", _GPU_SENSOR)
        return Clocks(
            int(sm),
            int(memory),
            None if temperature is None else int(temperature),
            None if power is None else int(power) / 1000,
            tuple(name for bit, name in _REASONS.items() if int(mask or 0) & bit),
        )

    def _get(self, name: str, *args: int) -> Any:
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, name)(self._device, *args)
        except Exception:
            return None
