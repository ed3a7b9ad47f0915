"""What the driver says of a GPU. Creates no context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolve.ir.errors import EvolveError


@dataclass(frozen=True)
class Attributes:
    """Sizes in bytes, clocks in MHz, as the driver's attributes of the device give them.

    `clock_mhz` is the highest SM clock. 0 for what this driver does not say. `cuda` is the newest CUDA that
    the driver supports, `driver` its own version, empty where NVML does not tell.
    """

    name: str
    compute_capability: tuple[int, int]
    sms: int
    clock_mhz: float
    memory_clock_mhz: float
    memory_bus_bits: int
    memory_bytes: int
    l2_bytes: int
    constant_bytes: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_per_block_optin: int
    shared_reserved_per_block: int
    warp: int
    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    registers_per_block: int
    cuda: str
    driver: str

    @property
    def arch(self) -> str:
        """How NVRTC spells it, such as sm_90."""
        return "sm_{}{}".format(*self.compute_capability)

    @property
    def dram_gbs(self) -> float:
        """Peak DRAM bandwidth, 1e9 bytes per second: two transfers a memory clock on each line of the bus."""
        return 2 * self.memory_clock_mhz * 1e6 * self.memory_bus_bits / 8 / 1e9


_NAMES = {
    "sms": "MULTIPROCESSOR_COUNT",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "l2_bytes": "L2_CACHE_SIZE",
    "constant_bytes": "TOTAL_CONSTANT_MEMORY",
    "shared_bytes_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "shared_bytes_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_bytes_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_reserved_per_block": "RESERVED_SHARED_MEMORY_PER_BLOCK",
    "warp": "WARP_SIZE",
    "threads_per_block": "MAX_THREADS_PER_BLOCK",
    "threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
    "blocks_per_sm": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "registers_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "registers_per_block": "MAX_REGISTERS_PER_BLOCK",
}


def read_attributes(ordinal: int) -> Attributes:
    """Asks the driver. Raises EvolveError `no-cuda` without a driver or such a device."""
    try:
        from cuda.bindings import driver

        _call(driver.cuInit(0))
        device = _call(driver.cuDeviceGet(ordinal))
        # The binding gives the whole buffer; what follows the end of the text is not part of it.
        name = _call(driver.cuDeviceGetName(128, device)).split(b"\0", 1)[0].decode(errors="replace").strip()
        memory = int(_call(driver.cuDeviceTotalMem(device)))
        version = int(_call(driver.cuDriverGetVersion()))
    except Exception as error:  # the binding's loader has exception classes of its own
        raise EvolveError(
            "no-cuda", f"CUDA device {ordinal} cannot be asked: {error}", hint="see `evolve doctor`"
        ) from error

    def get(attribute: str) -> int:
        key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}")
        status, value = driver.cuDeviceGetAttribute(key, device)
        return int(value) if status == driver.CUresult.CUDA_SUCCESS else 0

    return Attributes(
        name=name,
        compute_capability=(get("COMPUTE_CAPABILITY_MAJOR"), get("COMPUTE_CAPABILITY_MINOR")),
        clock_mhz=get("CLOCK_RATE") / 1000,
        memory_clock_mhz=get("MEMORY_CLOCK_RATE") / 1000,
        memory_bytes=memory,
        cuda=f"{version // 1000}.{version % 1000 // 10}",
        driver=_driver_version(),
        **{field: get(attribute) for field, attribute in _NAMES.items()},
    )


def _call(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call that answers (status, value)."""
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(getattr(status, "name", str(status)))
    return values[0] if values else None


def _driver_version() -> str:
    try:
        from cuda.bindings import nvml

        nvml.init_v2()
        try:
            return str(nvml.system_get_driver_version())
        finally:
            nvml.shutdown()
    except Exception:  # only a label; NVML may be missing, or its binding
        return ""
