"""`--device`: which device a text names, and its profile."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from evolve.ir.errors import EvolveError
from evolve.search.problem import Device
from evolve.target.match import match_profile
from evolve.target.profile import Profile, load_profile

DEFAULT_PROFILE = "h100-sxm"
"""What `auto` estimates for where there is no GPU."""


def choose_device(text: str) -> tuple[Device, Profile]:
    """The device that `auto`, `sim`, `sim:PROFILE`, `cuda` or `cuda:N` names, and its profile.

    Raises EvolveError `unknown-device`, `unknown-profile`, `no-cuda`.
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
        "unknown-device", f"there is no device {text!r}", hint="auto, sim:PROFILE, cuda or cuda:N"
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


def _cuda(ordinal: str) -> tuple[Device, Profile]:
    if not ordinal.isdigit():
        raise EvolveError("unknown-device", f"cuda:{ordinal}: the part after the colon is a number")
    if not has_gpu():
        raise EvolveError(
            "no-cuda",
            "--device cuda needs PyCUDA and a CUDA GPU, and here is none",
            hint="see `evolve doctor`; without a GPU use --device sim:h200-sxm",
        )
    import pycuda.driver as cuda

    if int(ordinal) >= cuda.Device.count():
        raise EvolveError("unknown-device", f"there is no cuda:{ordinal}; devices: {cuda.Device.count()}")
    device = cuda.Device(int(ordinal))
    profile = match_profile(
        device.name(), int(device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT))
    )
    return Device("cuda", profile.stem, "measured", int(ordinal)), profile
