"""Times that others published for simple kernels on GPUs that we cannot run, and our estimates of the same.

`PUBLISHED` has, for each figure, a kernel of ours that does what theirs does (same launch, same accesses a
thread), the figure and where it stands. None of these figures is in a hardware profile, so that a comparison
tells something; `RTX A6000`, which has no profile, is the RTX 3090's with its data sheet's SMs, clock and
DRAM. These are plausibility checks: clocks, drivers and boards of the others are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.estimate import Dim3, Estimate, estimate
from evolve.devices.sampled import sampled_traffic
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.target.profile import Peaks, Profile, load_profile
from evolve.toolchain.cubin import KernelResources, read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble

TEXT = """
#define AT int i = blockIdx.x * blockDim.x + threadIdx.x
extern "C" __global__ void copy1(const float* x, float* y, int n) { AT; if (i < n) y[i] = x[i]; }
extern "C" __global__ void copy4(const float4* x, float4* y, int n) { AT; if (i < n) y[i] = x[i]; }
extern "C" __global__ void reads(const double* x, double* y, int n) {
    AT;
    if (i >= n) return;
    double v = x[i];
    if (v == 123.0) y[i] = v;
}
extern "C" __global__ void scale(const double* x, double* y, int n) { AT; if (i < n) y[i] = x[i] * 1.2; }
extern "C" __global__ void triad(const double* __restrict__ x, const double* __restrict__ z, double* y,
                                 int n) {
    AT;
    if (i < n) y[i] = x[i] * 1.2 + z[i];
}
extern "C" __global__ void counter(int* c, int n) {
    AT;
    if (i >= n) return;
#pragma unroll 1
    for (int k = 0; k < 32; ++k) atomicAdd(c, 1);
}
#define DOT(row, col)                                                     \\
    float s = 0.0f;                                                       \\
    for (int k = 0; k < n; ++k) s += a[(row) * n + k] * b[k * n + (col)]; \\
    c[(row) * n + (col)] = 0.5f * s + 3.0f * c[(row) * n + (col)];
extern "C" __global__ void down(const float* a, const float* b, float* c, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) { DOT(x, y) }
}
extern "C" __global__ void across(const float* a, const float* b, float* c, int n) {
    int x = blockIdx.x * 32 + threadIdx.x / 32, y = blockIdx.y * 32 + threadIdx.x % 32;
    if (x < n && y < n) { DOT(x, y) }
}
extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float p[1024], q[1024];
    int u = threadIdx.x / 32, v = threadIdx.x % 32, row = blockIdx.x * 32 + u, col = blockIdx.y * 32 + v;
    float s = 0.0f;
    for (int t = 0; t < n; t += 32) {
        p[u * 32 + v] = a[row * n + t + v];
        q[u * 32 + v] = b[(t + u) * n + col];
        __syncthreads();
        for (int k = 0; k < 32; ++k) s += p[u * 32 + k] * q[k * 32 + v];
        __syncthreads();
    }
    c[row * n + col] = 0.5f * s + 3.0f * c[row * n + col];
}
"""
NAMES = ("copy1", "copy4", "reads", "scale", "triad", "counter", "down", "across", "tiled")

NVBENCH = "github.com/xytpai/nvbench README, global_memory_bandwidth (form factor of the A100 not stated)"
STREAM_80 = "github.com/te42kyfo/gpu-benches, cuda-stream/a100_80.txt, two blocks an SM"
STREAM_40 = "github.com/te42kyfo/gpu-benches, gpu-stream/a100_40.txt, two blocks an SM"
STREAM_L40 = "github.com/te42kyfo/gpu-benches, gpu-stream/l40.txt, two blocks an SM: an L40"
WORKLOG = "siboehm.com, CUDA matrix multiplication worklog (2022), kernels 1 to 3 on an RTX A6000"
NEWMIND = "newmind.ai journal 18: bandwidthTest of the CUDA samples, device to device, more than"
WEBGPU = "github.com/PWhiddy/webgpu-atomics-benchmark README: WebGPU, 15 million threads of 32 additions"


@dataclass(frozen=True)
class Work:
    """A launch of a kernel of `TEXT` and what it is rated by: bytes, operations or updates."""

    kernel: str
    arrays: Mapping[str, tuple[str, int]] = field(hash=False)
    scalar: int
    grid: Dim3
    block: Dim3
    amount: float
    footprint: tuple[float, float] | None
    blocks_per_sm: int | None = None


@dataclass(frozen=True)
class Published:
    """`value` in 1e9 a second (bytes, operations, updates), as `source` has it."""

    gpu: str
    what: str
    value: float
    source: str
    work: Work


def line(kernel: str, count: int, dtype: str, block: int, arrays: str, width: int = 1) -> Work:
    """A thread for each `width` of `count` elements; `y` is written, the others read."""
    size = {"float32": 4, "float64": 8}[dtype]
    moved = float(count * size)
    reading = moved * sum(name != "y" for name in arrays)
    writing = 0.0 if kernel == "reads" else moved
    threads = count // width
    return Work(
        kernel,
        dict.fromkeys(arrays, (dtype, count)),
        threads,
        (-(-threads // block), 1, 1),
        (block, 1, 1),
        reading + writing,
        (reading, writing),
    )


def stream(kernel: str, block: int) -> Work:
    """Of gpu-benches: 1 GiB arrays of doubles, two blocks an SM."""
    arrays = "xzy" if kernel == "triad" else "xy"
    return replace(line(kernel, 1 << 27, "float64", block, arrays), blocks_per_sm=2)


def product(kernel: str, n: int = 4096) -> Work:
    shape = (32, 32, 1) if kernel == "down" else (1024, 1, 1)
    matrices = dict.fromkeys("abc", ("float32", n * n))
    moved = 4.0 * n * n
    return Work(kernel, matrices, n, (n // 32, n // 32, 1), shape, 2.0 * n**3, (3 * moved, moved))


COUNTING = Work(
    "counter", {"c": ("int32", 8)}, 15_000_064, (58_594, 1, 1), (256, 1, 1), 15_000_064 * 32, None
)

COPY1 = line("copy1", 1 << 28, "float32", 256, "xy")
COPY4 = line("copy4", 1 << 28, "float32", 256, "xy", 4)

PUBLISHED: tuple[Published, ...] = (
    Published("a100-sxm-40gb", "copy, 4 bytes a thread", 1336.6, NVBENCH, COPY1),
    Published("a100-sxm-40gb", "copy, 16 bytes a thread", 1378.8, NVBENCH, COPY4),
    Published("rtx-4090", "copy, 4 bytes a thread", 920.2, NVBENCH, COPY1),
    Published("rtx-4090", "copy, 16 bytes a thread", 921.9, NVBENCH, COPY4),
    Published("a100-sxm-80gb", "scale, an eighth of the threads", 581, STREAM_80, stream("scale", 128)),
    Published("a100-sxm-80gb", "scale, a quarter of the threads", 1026, STREAM_80, stream("scale", 256)),
    Published("a100-sxm-80gb", "scale, half of the threads", 1577, STREAM_80, stream("scale", 512)),
    Published("a100-sxm-80gb", "scale, all threads", 1732, STREAM_80, stream("scale", 1024)),
    Published("a100-sxm-80gb", "reads, an eighth of the threads", 325, STREAM_80, stream("reads", 128)),
    Published("a100-sxm-80gb", "reads, a quarter of the threads", 619, STREAM_80, stream("reads", 256)),
    Published("a100-sxm-80gb", "reads, half of the threads", 1122, STREAM_80, stream("reads", 512)),
    Published("a100-sxm-80gb", "triad, an eighth of the threads", 799, STREAM_80, stream("triad", 128)),
    Published("a100-sxm-80gb", "triad, a quarter of the threads", 1372, STREAM_80, stream("triad", 256)),
    Published("a100-sxm-80gb", "triad, half of the threads", 1659, STREAM_80, stream("triad", 512)),
    Published("a100-sxm-40gb", "scale, all threads", 1381, STREAM_40, stream("scale", 1024)),
    Published("l40s", "scale, two thirds of the threads", 778, STREAM_L40, stream("scale", 512)),
    Published("a6000", "matrix product, columns of A by threads", 309.0, WORKLOG, product("down")),
    Published("a6000", "matrix product, rows of B by threads", 1986.5, WORKLOG, product("across")),
    Published("a6000", "matrix product, tiles in shared memory", 2980.3, WORKLOG, product("tiled")),
    Published("b200-sxm", "copy, 16 bytes a thread", 6000, NEWMIND, COPY4),
    Published("rtx-4090", "additions to one address", 62, WEBGPU, COUNTING),
)


def profile_of(gpu: str) -> Profile:
    """A shipped profile, or that of the RTX A6000 (data sheet: 84 SMs, 1800 MHz, 768 GB/s, GDDR6)."""
    if gpu != "a6000":
        return load_profile(gpu)
    base = load_profile("rtx-3090")
    clocks = replace(base.clocks, boost_mhz=1800.0, tensor_mhz=1800.0)
    memory = replace(base.memory, kind="GDDR6", dram_gbs=768.0)
    per_second = 84 * 1800e6 * 2 / 1e12
    peaks = Peaks(base.rates.fp32_fma * per_second, base.rates.fp64_fma * per_second, base.peaks.tensor)
    return replace(
        base,
        stem="a6000",
        name="NVIDIA RTX A6000",
        sms=84,
        clocks=clocks,
        memory=memory,
        peaks=peaks,
        measured=None,
    )


@cache
def _code(arch: str) -> tuple[Mapping[str, KernelResources], Mapping[str, Sass]]:
    built = compile_cuda(TEXT, arch, [LINE_INFO])
    assert built.cubin is not None, built.log
    return read_cubin(built.cubin).kernels, disassemble([built.cubin])[0]


def estimated(one: Published) -> Estimate:
    """Our estimate of the launch on that GPU."""
    profile, work = profile_of(one.gpu), one.work
    kernels, sass = _code(profile.arch)
    arguments = (*(BufferArg(name) for name in work.arrays), ScalarArg("n", "i32", work.scalar))
    shared = 0
    if work.blocks_per_sm is not None:
        # As many as fit when each takes its part of the shared memory.
        memory = profile.memory
        shared = memory.shared_bytes_per_sm // work.blocks_per_sm - memory.shared_reserved_per_block
        shared -= shared % memory.shared_unit_bytes
        shared = min(shared, memory.shared_bytes_per_block_optin)
    launch = ConcreteLaunch(work.kernel, arguments, work.grid, work.block)
    buffers = {name: TraceBuffer(dtype, count) for name, (dtype, count) in work.arrays.items()}
    traffic = sampled_traffic(compile_host(TEXT, list(NAMES)), launch, buffers, 8 * profile.sms)
    code = kernels[work.kernel], sass[work.kernel]
    return estimate(profile, *code, traffic, work.grid, work.block, shared, work.footprint)


def compared(progress: Callable[[str], None] = lambda text: None) -> list[dict[str, object]]:
    """Every figure beside our estimate; `ratio` is the estimated time over the published one."""
    out: list[dict[str, object]] = []
    for one in PUBLISHED:
        e = estimated(one)
        rate = one.work.amount / e.time_s / 1e9
        record: dict[str, object] = {
            "gpu": one.gpu,
            "what": one.what,
            "published_g_per_s": one.value,
            "estimated_g_per_s": float(f"{rate:.4g}"),
            "ratio": round(one.value / rate, 3),
            "binding": e.binding,
            "source": one.source,
        }
        out.append(record)
        progress(f"{one.gpu:14} {one.what:45} published {one.value:8} estimated {rate:8.1f} {e.binding}")
    return out
