"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def microseconds(value: float | None) -> str:
    """A time in a unit that suits it."""
    if value is None:
        return "-"
    if value >= 1e6:
        return f"{value / 1e6:.3g} s"
    if value >= 1e3:
        return f"{value / 1e3:.3g} ms"
    return f"{value:.3g} us" if value < 100 else f"{value:.1f} us"


def sizes(values: Mapping[str, Any]) -> str:
    """Sizes in words: rows=8192, cols=8192."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def harmless(text: str) -> str:
    """Text from elsewhere (a program, a model's note, a log) without what could steer a terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def duration(seconds: float) -> str:
    """A wait: 42 s, 3 min 10 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
