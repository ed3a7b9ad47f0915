"""Clocks, and that their absence is silent."""

from __future__ import annotations

from typing import Any

from evolve.devices.cuda.nvml import Nvml


class Library:
    def __init__(self, missing: tuple[str, ...] = ()) -> None:
        self.missing = missing

    def __getattr__(self, name: str) -> Any:
        if name in self.missing:
            raise AttributeError(name)
        return {
            "init_v2": lambda: None,
            "device_get_handle_by_pci_bus_id_v2": lambda bus: 7,
            "device_get_clock_info": lambda device, kind: {1: 1980, 2: 3201}[kind],
            "device_get_power_usage": lambda device: 350_500,
            "device_get_current_clocks_event_reasons": lambda device: 0x4 | 0x20,
            "device_get_temperature_v": lambda device, sensor: 44,
        }[name]


def test_a_reading() -> None:
    c = Nvml("0000:00:00.0", Library()).read()
    assert c is not None and (c.sm_mhz, c.memory_mhz, c.temperature_c, c.power_w) == (1980, 3201, 44, 350.5)
    assert c.reasons == ("power cap", "thermal, by software")


def test_what_is_missing_is_none() -> None:
    c = Nvml("x", Library(("device_get_power_usage", "device_get_current_clocks_event_reasons"))).read()
    assert c is not None and c.power_w is None and c.reasons == ()
    assert Nvml("x", Library(("device_get_clock_info",))).read() is None
    assert Nvml("x", Library(("init_v2",))).read() is None
