"""What of an image outlives a launch."""

from __future__ import annotations

import pytest

from evolve.devices.cuda.faults import BadImageError
from evolve.devices.cuda.image import has_variables
from evolve.toolchain.nvrtc import compile_cuda

HEAD = 'extern "C" __global__ void f(float* x) '
STATE = {
    "counter": f"__device__ int c; {HEAD} {{ x[0] = atomicAdd(&c, 1); }}",
    "initialised": f"__device__ int c = 5; {HEAD} {{ x[0] = atomicAdd(&c, 1); }}",
    "static": f"{HEAD} {{ static int c; x[0] = atomicAdd(&c, 1); }}",
    "managed": f"__managed__ int c; {HEAD} {{ x[0] = atomicAdd(&c, 1); }}",
    "library tables": 'extern "C" __global__ void f(double* x) { x[0] = sin(x[0]); }',
}
NONE = {
    "plain": f"{HEAD} {{ x[0] = sinf(x[0]); }}",
    "constant": f"__constant__ float t[2] = {{1, 2}}; {HEAD} {{ x[0] = t[threadIdx.x & 1]; }}",
    "shared": f"{HEAD} {{ __shared__ float s[32]; s[threadIdx.x] = x[0]; __syncthreads(); x[0] = s[1]; }}",
}
REFUSED = {
    "output": 'extern "C" int printf(const char*, ...);' + HEAD + '{ printf("%f", x[0]); }',
    "heap": HEAD + "{ x[0] = (float)(long long)malloc(8); }",
}


def build(text: str, arch: str) -> bytes:
    built = compile_cuda(text, arch)
    assert built.cubin is not None, built.log
    return built.cubin


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", STATE)
def test_variables_are_found(name: str, arch: str) -> None:
    assert has_variables(build(STATE[name], arch))


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", ["plain", "constant", "shared"])
def test_constants_and_shared_memory_are_none(name: str, arch: str) -> None:
    assert not has_variables(build(NONE[name], arch))


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_fresh_load_does_not_undo_is_refused(name: str, arch: str) -> None:
    with pytest.raises(BadImageError, match="it calls"):
        has_variables(build(REFUSED[name], arch))


def test_clusters_are_refused() -> None:
    """A launch cannot switch them off where the kernel itself asks for them."""
    for text in ("__cluster_dims__(2, 1, 1)", "__cluster_dims__(2, 2, 1) __launch_bounds__(128)"):
        with pytest.raises(BadImageError, match="f is compiled for clusters"):
            has_variables(build(f'extern "C" __global__ void {text} f(float* x) {{ x[0] = 1; }}', "sm_90"))
    most = 'extern "C" __global__ void __launch_bounds__(128, 1, 8) f(float* x) { x[0] = 1; }'
    assert not has_variables(build(most, "sm_90"))


@pytest.mark.parametrize("image", [b"", b"text", b"\x7fELF" + bytes(60)])
def test_damaged_images(image: bytes) -> None:
    with pytest.raises(BadImageError):
        has_variables(image)
