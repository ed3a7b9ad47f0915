"""Quantities with their units, and the units of a GPU in words."""

from __future__ import annotations

_UNITS = {
    "dram": "DRAM",
    "l1": "L1",
    "l2": "L2",
    "shared": "shared memory",
    "issue": "issue slots",
    "alu": "integer pipe",
    "int": "integer pipe",
    "fp32": "fp32 pipe",
    "fp64": "fp64 pipe",
    "sfu": "special functions",
    "tensor": "matrix units",
    "launch": "launch",
}


def unit(name: str) -> str:
    """A unit of the GPU in words."""
    return _UNITS.get(name, name)


_TITLES = {
    "redundant_dram": "redundant DRAM traffic",
    "redundant_l2": "redundant L2 traffic",
    "global_accesses": "repeated global accesses",
    "idle_sms": "idle SMs",
    "shared_traffic": "shared-memory traffic",
}


def title(cause: str) -> str:
    """A cause's name for people."""
    return _TITLES.get(cause, cause.replace("_", " "))


def microseconds(seconds: float) -> str:
    """With three figures and the unit that suits: `7.50 us`, `133 us`, `5.24 ms`."""
    us = seconds * 1e6
    return f"{_figures(us / 1e3)} ms" if us >= 999.5 else f"{_figures(us)} us"


def size(count: float) -> str:
    """Bytes with three figures, in decimal units as bandwidths have."""
    for scale, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= 0.9995 * scale:
            return f"{_figures(count / scale)} {name}"
    return f"{count:.0f} B"


def percent(fraction: float) -> str:
    """Whole per cent; tenths below one."""
    return f"{fraction:.1%}" if 0 < fraction < 0.00995 else f"{fraction:.0%}"


def _figures(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
