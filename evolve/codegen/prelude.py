"""Constants that NVRTC does not define: a text that uses one brings it along."""

from __future__ import annotations

import re

_CONSTANTS = {
    "INFINITY": "__int_as_float(0x7f800000)",
    "NAN": "__int_as_float(0x7fffffff)",
}


def prelude(text: str) -> str:
    """Definitions of the constants that `text` mentions; they yield to definitions made before."""
    out = "".join(
        f"#ifndef {name}\n#define {name} {value}\n#endif\n"
        for name, value in _CONSTANTS.items()
        if re.search(rf"\b{name}\b", text)
    )
    return out + "\n" if out else ""
