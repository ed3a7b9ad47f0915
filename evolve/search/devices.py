"""`--device`: which device a text names, and its profile."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.search.problem import Device
from evolve.target.match import match_profile
from evolve.target.profile import Profile, load_profile
from evolve.toolchain.driver import driver_version, require
from evolve.toolchain.nvrtc import nvrtc_version

DEFAULT_PROFILE = "h200-sxm"
"""What `auto` estimates for where there is no GPU: the one on which estimates were checked."""


def choose_device(text: str) -> tuple[Device, Profile]:
    """The device that `auto`, `sim`, `sim:PROFILE`, `cuda` or `cuda:N,M` names, and its profile.

    Raises EvolveError `unknown-device`, `unknown-profile`, `no-cuda`, `driver-too-old` where NVRTC's major
    version is newer than the driver's.
    """
    kind, _, rest = text.partition(":")
    if kind == "auto" and not rest:
        if has_gpu():
            return _cuda("0")
        device, profile = _sim(DEFAULT_PROFILE)
        return replace(device, reason="no CUDA GPU was found"), profile
    if kind == "sim":
        return _sim(rest or DEFAULT_PROFILE)
    if kind == "cuda":
        return _cuda(rest or "0")
    raise EvolveError(
        "unknown-device", f"there is no device {text!r}", hint="auto, sim:PROFILE, cuda or cuda:N,M"
    )


def has_gpu() -> bool:
    """Whether PyCUDA and a driver with a device are there; creates no context."""
    if find_spec("pycuda") is None:
        return False
    try:
        import pycuda.driver as cuda

        cuda.init()
        return int(cuda.Device.count()) > 0
    except Exception:
        # PyCUDA raises its own errors, ImportError without a driver library, and more.
        return False


def _sim(stem: str) -> tuple[Device, Profile]:
    # One that NVRTC has no target for still has bounds; scoring on it raises `unsupported-arch`.
    return Device("sim", stem, "estimated"), load_profile(stem)


def _cuda(ordinals: str) -> tuple[Device, Profile]:
    numbers = ordinals.split(",")
    if not all(n.isdigit() for n in numbers) or len({int(n) for n in numbers}) < len(numbers):
        raise EvolveError(
            "unknown-device", f"cuda:{ordinals}: after the colon come different numbers, such as 0,1"
        )
    if not has_gpu():
        raise EvolveError(
            "no-cuda",
            "--device cuda needs PyCUDA and a CUDA GPU, and here is none",
            hint="see `evolve doctor`; without a GPU use --device sim:h200-sxm",
        )
    # Machine code that the driver does not load would cost every candidate, one by one.
    require(driver_version(), nvrtc_version())
    import pycuda.driver as cuda

    found = [int(n) for n in numbers]
    for n in found:
        if n >= cuda.Device.count():
            raise EvolveError("unknown-device", f"there is no cuda:{n}; devices: {cuda.Device.count()}")
    first, *others = [_profile(cuda.Device(n)) for n in found]
    for n, other in zip(found[1:], others, strict=True):
        if other.stem != first.stem:
            what = f"cuda:{n} is {other.name} and cuda:{found[0]} is {first.name}"
            raise EvolveError("unknown-device", f"{what}: their times cannot be compared")
    return Device("cuda", first.stem, "measured", tuple(found)), first


def _profile(device: Any) -> Profile:
    import pycuda.driver as cuda

    multiprocessors = int(device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT))
    return match_profile(device.name(), multiprocessors)
