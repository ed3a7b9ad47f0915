"""A process that launches a cubin once and ends, for tools that watch a whole process.

`python -m evolve.devices.cuda.launch_once FOLDER` carries out `FOLDER/job.json`, which `alone` writes, and
says in `FOLDER/ended.json` what became of it. It needs the driver and cuda-bindings, not PyCUDA: the fewer
calls, the less there is that a tool could blame on a candidate. Every array is an allocation of its own, of
its exact size, so that a tool sees where it ends; nothing is written to arrays that the kernel must fill, and
nothing is read back.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_SHARED_WITHOUT_OPT_IN = 48 * 1024
_TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
}
JOB = "job.json"
CUBIN = "image.cubin"
ENDED = "ended.json"


class DriverError(Exception):
    """A call of the driver did not succeed."""


class _Driver:
    """`cuda.bindings.driver` with result codes as exceptions."""

    def __init__(self, driver: Any) -> None:
        self.api = driver

    def __call__(self, name: str, *args: Any) -> Any:
        """The only result of a call, None without one. Raises DriverError."""
        code, *results = getattr(self.api, name)(*args)
        if int(code) != 0:
            raise DriverError(f"{name}: {getattr(code, 'name', code)} ({int(code)})")
        return results[0] if results else None


def launch(folder: Path, driver: Any) -> None:
    """Carries out the job in a folder. `driver`: `cuda.bindings.driver`. Raises DriverError."""
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    call = _Driver(driver)
    call("cuInit", 0)
    context = call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", job["ordinal"]))
    call("cuCtxSetCurrent", context)
    image = np.frombuffer((folder / CUBIN).read_bytes(), np.uint8)
    module = call("cuModuleLoadData", image.ctypes.data)
    for run in job["runs"]:
        arrays = {name: _array(call, folder, source) for name, source in run["arrays"].items()}
        for one in run["launches"]:
            _launch(call, module, one, arrays)
        call("cuCtxSynchronize")
        for pointer in arrays.values():
            call("cuMemFree", pointer)


def _array(call: _Driver, folder: Path, source: str | int) -> Any:
    """The address of an array: a number of bytes, or the contents of a file."""
    if isinstance(source, int):
        return call("cuMemAlloc", max(source, 1))
    contents = np.ascontiguousarray(np.load(folder / source, mmap_mode="r"))
    pointer = call("cuMemAlloc", max(contents.nbytes, 1))
    if contents.nbytes:
        call("cuMemcpyHtoD", pointer, contents.ctypes.data, contents.nbytes)
    return pointer


def _launch(call: _Driver, module: Any, one: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    function = call("cuModuleGetFunction", module, one["kernel"].encode())
    shared = one["shared_bytes"]
    if shared > _SHARED_WITHOUT_OPT_IN:
        attribute = call.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call("cuFuncSetAttribute", function, attribute, shared)
    if one["carveout"] is not None:
        attribute = call.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        call("cuFuncSetAttribute", function, attribute, one["carveout"])
    values = [_value(arg, arrays) for arg in one["args"]]
    addresses = np.array([v.ctypes.data for v in values], np.uint64)
    call("cuLaunchKernel", function, *one["grid"], *one["block"], shared, 0, addresses.ctypes.data, 0)


def _value(arg: Sequence[Any], arrays: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """An argument as it lies in memory. `arg`: a type and a value, or `buffer` and an array's name."""
    kind, value = arg
    if kind == "buffer":
        return np.array([int(arrays[value])], np.uint64)
    return np.array([value], _TYPES[kind])


def main(argv: Sequence[str]) -> int:
    """The process."""
    folder = Path(argv[0])
    error: str | None = None
    try:
        from cuda.bindings import driver

        launch(folder, driver)
    except Exception as e:  # whatever it is, the parent says it
        error = f"{type(e).__name__}: {e}"
    (folder / ENDED).write_text(json.dumps({"error": error}), encoding="utf-8")
    # Not a status of its own: compute-sanitizer would count it among its findings.
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
