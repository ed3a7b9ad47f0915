"""Which CUDA the driver here knows, and what follows for the machine code that NVRTC makes.

Only the version is asked for: no context is made and no device is touched.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Literal

from evolve.ir.errors import EvolveError

LIBRARY = "libcuda.so.1"
"""The driver's library, by the name that everything linked against it asks for."""

Version = tuple[int, int]
Standing = Literal["same", "newer-driver", "newer-compiler", "too-old"]


@dataclass(frozen=True)
class Match:
    """How a driver and a compiler go together: whether cubins load, and in words why."""

    standing: Standing
    text: str

    @property
    def loads(self) -> bool:
        """Whether the driver loads this compiler's cubins."""
        return self.standing != "too-old"


def driver_version() -> Version:
    """The CUDA version that the driver supports, (13, 0) for CUDA 13.0.

    Raises EvolveError `no-driver` when its library is not there or does not answer.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
        found = ctypes.c_int(0)
        status = int(library.cuDriverGetVersion(ctypes.byref(found)))
    except (OSError, AttributeError) as error:
        raise EvolveError(
            "no-driver",
            f"{LIBRARY} cannot be loaded, so no NVIDIA driver is installed here",
            hint="measuring needs one; estimates do not",
        ) from error
    if status != 0:
        raise EvolveError("no-driver", f"the driver does not tell its version: CUDA error {status}")
    return found.value // 1000, found.value % 1000 // 10


def match(driver: Version, compiler: Version) -> Match:
    """Whether cubins of `compiler` (NVRTC's or nvcc's version) load on `driver`.

    After NVIDIA's CUDA compatibility guide: a driver loads the machine code of every toolkit of its own
    major version, newer minor versions included, and of those before; PTX of a newer minor version it would
    not translate, but none is made here. Machine code of a newer major version it rejects.
    """
    said = f"the driver knows CUDA {_dotted(driver)}, the compiler is {_dotted(compiler)}"
    if driver[0] < compiler[0]:
        return Match(
            "too-old",
            f"{said}: machine code of a newer major version does not load; "
            f"install a driver for CUDA {compiler[0]}.0 or later",
        )
    if driver[0] > compiler[0]:
        return Match("newer-driver", f"{said}: a newer driver loads what older compilers make")
    if driver[1] < compiler[1]:
        return Match(
            "newer-compiler",
            f"{said}: same major version, so its machine code loads (PTX might not, and none is made)",
        )
    return Match("same", f"{said}: its machine code loads")


def require(driver: Version, compiler: Version) -> Match:
    """As `match`; raises EvolveError `driver-too-old` when the cubins would not load."""
    found = match(driver, compiler)
    if not found.loads:
        raise EvolveError("driver-too-old", found.text)
    return found


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
