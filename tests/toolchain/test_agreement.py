"""Every difference between the driver's view of a kernel and the image's is named, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evolve.ir.errors import EvolveError
from evolve.target.match import match_profile
from evolve.target.profile import load_profile
from evolve.toolchain.agreement import DriverView, disagreements, most_threads
from evolve.toolchain.cubin import KernelResources, read_cubin
from evolve.toolchain.driver import driver_version
from evolve.toolchain.nvrtc import compile_cuda

H200 = load_profile("h200-sxm")
# On this GPU 64 registers: 65536 / (64 * 32) = 32 warps, so 4 blocks of 8 warps.
KERNEL = KernelResources("k", 64, 4096, 16, None, 24, b"", (), 32)
SAME = DriverView(64, 4096, 16, 1024, 32, 4)


def named(driver: DriverView, kernel: KernelResources = KERNEL, threads: int = 256) -> tuple[str, ...]:
    return disagreements(kernel, driver, H200, threads)


def test_a_driver_that_sees_the_same_is_content() -> None:
    assert named(SAME) == ()
    assert named(replace(SAME, max_blocks_per_multiprocessor=None)) == ()
    assert named(replace(SAME, const_bytes=0)) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"registers": 72}, "k: 64 registers a thread in the image, 72 by the driver"),
        ({"shared_bytes": 5120}, "k: 4096 bytes of static shared memory in the image, 5120 by the driver"),
        ({"local_bytes": 0}, "k: 16 bytes of local memory a thread in the image, 0 by the driver"),
        ({"const_bytes": 64}, "k: 32 bytes of constants in the image, 64 by the driver"),
        ({"max_threads": 512}, "k: 1024 threads a block at most by our limits, 512 by the driver"),
        (
            {"max_blocks_per_multiprocessor": 3},
            "k: 4 blocks of 256 threads an SM by our occupancy (limited by registers), 3 by the driver",
        ),
    ],
)
def test_each_difference_is_named_alone(change: dict[str, int], said: str) -> None:
    assert named(replace(SAME, **change)) == (said,)


def test_all_differences_are_named_at_once() -> None:
    assert len(named(DriverView(65, 4097, 17, 1023, 33, 5))) == 6


def test_a_launch_that_the_driver_does_not_admit_is_named() -> None:
    said = named(replace(SAME, max_threads=128), replace(KERNEL, max_threads=128))
    assert said == ("k: the driver admits 128 threads a block, the launch has 256",)


def test_dynamic_shared_memory_counts_for_occupancy() -> None:
    # 233472 bytes an SM; 4096 + 100000 and the system's 1024 fit twice.
    fits_twice = replace(SAME, max_blocks_per_multiprocessor=2)
    assert disagreements(KERNEL, fits_twice, H200, 256, 100_000) == ()
    (said,) = disagreements(KERNEL, SAME, H200, 256, 100_000)
    assert "2 blocks of 256 threads an SM by our occupancy (limited by shared), 4 by the driver" in said


@pytest.mark.parametrize(
    ("registers", "bounds", "most"),
    [(32, None, 1024), (64, None, 1024), (65, None, 896), (128, None, 512), (255, None, 256), (32, 100, 100)],
)
def test_the_most_threads_follow_from_registers_and_bounds(
    registers: int, bounds: int | None, most: int
) -> None:
    assert most_threads(replace(KERNEL, registers=registers, max_threads=bounds), H200) == most


def test_a_gpu_whose_registers_are_not_known_is_not_compared() -> None:
    other = load_profile("mi300x")
    assert most_threads(KERNEL, other) is None
    assert disagreements(KERNEL, replace(SAME, max_blocks_per_multiprocessor=7), other, 256) == ()


def test_the_driver_is_asked_by_its_names() -> None:
    values = {
        "NUM_REGS": 1,
        "SHARED_SIZE_BYTES": 2,
        "LOCAL_SIZE_BYTES": 3,
        "MAX_THREADS_PER_BLOCK": 4,
        "CONST_SIZE_BYTES": 5,
    }
    assert DriverView.read(values.__getitem__, 6) == DriverView(1, 2, 3, 4, 5, 6)
    from cuda.bindings import driver

    for name in values:
        assert hasattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")


CONSTANTS = """
__constant__ float table[6];
extern "C" __global__ void with(float *x) { x[threadIdx.x] = table[threadIdx.x % 6]; }
"""


def test_the_images_constants_are_read(cubins: dict[str, bytes]) -> None:
    built = compile_cuda(CONSTANTS)
    assert read_cubin(built.cubin or b"").kernels["with"].constant_bytes == 24
    assert read_cubin(cubins["sm_90"]).kernels["row"].constant_bytes == 0


@pytest.mark.gpu
def test_the_driver_here_sees_what_the_images_say(cubins: dict[str, bytes]) -> None:
    from cuda.bindings import driver

    def call(name: str, *arguments: Any) -> Any:
        status, *rest = getattr(driver, name)(*arguments)
        assert status == driver.CUresult.CUDA_SUCCESS, (name, status)
        return rest[0] if rest else None

    try:
        driver_version()
        call("cuInit", 0)
    except (EvolveError, AssertionError) as error:
        pytest.skip(f"no CUDA device here: {error}")
    device = call("cuDeviceGet", 0)

    def fact(name: str) -> int:
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call("cuDeviceGetAttribute", attribute, device))

    arch = f"sm_{fact('COMPUTE_CAPABILITY_MAJOR')}{fact('COMPUTE_CAPABILITY_MINOR')}"
    name = call("cuDeviceGetName", 256, device).split(b"\0")[0].decode()
    profile = match_profile(name, fact("MULTIPROCESSOR_COUNT"))
    if arch not in cubins:
        pytest.skip(f"no image for {arch} among the tests'")
    context = call("cuDevicePrimaryCtxRetain", device)
    try:
        call("cuCtxPushCurrent", context)
        module = call("cuModuleLoadData", cubins[arch])
        for kernel in read_cubin(cubins[arch]).kernels.values():
            function = call("cuModuleGetFunction", module, kernel.name.encode())

            def of(what: str, function: Any = function) -> int:
                attribute = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{what}")
                return int(call("cuFuncGetAttribute", attribute, function))

            for threads, dynamic in ((32, 0), (128, 8192), (256, 0)):
                blocks = call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, dynamic)
                view = DriverView.read(of, int(blocks))
                assert disagreements(kernel, view, profile, threads, dynamic) == ()
        call("cuModuleUnload", module)
        call("cuCtxPopCurrent")
    finally:
        call("cuDevicePrimaryCtxRelease", device)
