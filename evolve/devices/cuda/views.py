"""Kernels as the driver describes them, on the GPU that is there: registers, memory, blocks an SM.

The image is loaded once more, through cuda-bindings, since PyCUDA does not ask for occupancy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from evolve.codegen.launch import ConcreteLaunch
from evolve.devices.cuda.faults import BadImageError
from evolve.devices.cuda.launching import SHARED_WITHOUT_OPT_IN
from evolve.toolchain.agreement import DriverView


def driver_views(driver: Any, cubin: bytes, launches: Sequence[ConcreteLaunch]) -> tuple[DriverView, ...]:
    """What the driver says of each launch's kernel, with the blocks of that launch that an SM holds at once.

    `driver` is `cuda.bindings.driver`, with a current context. Raises BadImageError when a call is refused.
    """

    def call(name: str, *args: Any) -> Any:
        code, *results = getattr(driver, name)(*args)
        if int(code) != 0:
            raise BadImageError(f"{name}: {getattr(code, 'name', code)} ({int(code)})")
        return results[0] if results else None

    def view(launch: ConcreteLaunch) -> DriverView:
        function = call("cuModuleGetFunction", module, launch.kernel.encode())
        of = driver.CUfunction_attribute
        if launch.shared_bytes > SHARED_WITHOUT_OPT_IN:
            most = of.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call("cuFuncSetAttribute", function, most, launch.shared_bytes)
        threads = prod(launch.block)
        asked = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        blocks = call(asked, function, threads, launch.shared_bytes)
        return DriverView.read(
            lambda name: int(call("cuFuncGetAttribute", getattr(of, f"CU_FUNC_ATTRIBUTE_{name}"), function)),
            int(blocks),
        )

    module = call("cuModuleLoadData", cubin)
    try:
        return tuple(view(launch) for launch in launches)
    finally:
        call("cuModuleUnload", module)
