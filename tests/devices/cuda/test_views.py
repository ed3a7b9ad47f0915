"""What the driver is asked about kernels, and that nothing of it stays."""

from __future__ import annotations

import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.cuda.faults import BadImageError
from evolve.devices.cuda.messages import Ask, View, Viewed
from evolve.devices.cuda.views import driver_views
from evolve.devices.cuda.worker import Worker
from evolve.toolchain.agreement import DriverView
from evolve.toolchain.nvrtc import compile_cuda
from tests.devices.cuda.fake_cuda import FakeCuda, FakeDevice

BUILT = compile_cuda(
    """
extern "C" __global__ void plain(float* x) { x[threadIdx.x] = 1.0f; }
extern "C" __global__ void sums(float* x) {
    __shared__ float s[64];
    s[threadIdx.x % 64] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x % 64];
}
""",
    "sm_90",
)


def launch(kernel: str, threads: int = 256, shared_bytes: int = 0) -> ConcreteLaunch:
    return ConcreteLaunch(kernel, (BufferArg("x"),), (4, 1, 1), (threads, 1, 1), shared_bytes)


def test_every_launch_has_its_view() -> None:
    assert BUILT.cubin is not None
    gpu = FakeCuda({})
    # 233472 bytes of shared memory an SM, of which the second kernel's launch takes 100000 and 256 and 1024.
    plain, large = driver_views(gpu.driver, BUILT.cubin, (launch("plain"), launch("sums", 64, 100_000)))
    assert plain == DriverView(plain.registers, 0, 0, 1024, 0, 8)
    assert (large.shared_bytes, large.max_blocks_per_multiprocessor) == (256, 2)
    assert gpu.driver.loaded == 0


def test_what_the_driver_refuses_is_a_fault_and_nothing_stays_loaded() -> None:
    assert BUILT.cubin is not None
    gpu = FakeCuda({})
    with pytest.raises(BadImageError, match="cuModuleGetFunction"):
        driver_views(gpu.driver, BUILT.cubin, (launch("other"),))
    assert gpu.driver.loaded == 0
    worker = Worker(gpu, gpu.driver, FakeDevice(gpu), Ask(1, 2))
    got = worker.answer(View(BUILT.cubin, (launch("other"),)))
    assert isinstance(got, Viewed) and got.fault is not None and not got.fault.sticky
