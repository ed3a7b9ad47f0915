"""What the gathers of a sparse product alone take: x[col[k]] for all k, with nothing done per row.

    python -m benchmarks.gather_bound --commit $(git rev-parse HEAD) --out FILE.json

A product of a CSR matrix reads val and col once and x at col[k], in whatever order of the rows it works,
so no program for it is faster than this on a GPU where the gathers bind. Columns are those of
`kernels/workloads/spmv-power_law.toml`. `head` is how many of the first, most frequent columns a block
keeps in shared memory; blocks of a cluster read each other's. Each time is a median of launches, each
with a cold L2.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.prepared_programs import prepare
from evolve.toolchain.nvrtc import compile_cuda
from evolve.workload.structure import structure

CASE = "spmv-power_law"
LAUNCHES = 25
THREADS = 1024
HEADS = (0, 8192, 16384, 32768, 49152)
CLUSTERS = (1, 2, 4, 8)
FLUSH_BYTES = 256 << 20
KERNEL = """
extern __shared__ float head[];

__device__ __forceinline__ float kept_at(unsigned base, int column) {
    if (CLUSTER == 1) return head[column];
    unsigned address;
    float value;
    const unsigned there = base + 4 * (column / CLUSTER), rank = column % CLUSTER;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(there), "r"(rank));
    asm("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address));
    return value;
}

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(1024) gather(
    const int* col, const float* val, const float* x, float* out, int n, int kept, int mask
) {
    const int rank = blockIdx.x % CLUSTER;
    for (int i = threadIdx.x; i < kept / CLUSTER; i += blockDim.x) head[i] = x[i * CLUSTER + rank];
    cluster_barrier();
    const unsigned base = (unsigned)__cvta_generic_to_shared(head);
    float sum = 0;
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4; i + 3 < n; i += gridDim.x * blockDim.x * 4) {
        const int4 c = __ldg((const int4*)(col + i));
        const float4 v = __ldg((const float4*)(val + i));
        const int at[4] = {c.x & mask, c.y & mask, c.z & mask, c.w & mask};
        const float by[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) sum += by[j] * (at[j] < kept ? kept_at(base, at[j]) : __ldg(x + at[j]));
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    cluster_barrier();  // others read this block's head until they are done
}
"""


def main() -> None:
    import pycuda.driver as cuda

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    col, columns = _columns()
    cuda.init()
    device = cuda.Device(0)
    context = device.retain_primary_context()
    context.push()
    try:
        taken = _times(cuda, device, col, columns)
    finally:
        cuda.Context.pop()
    compulsory = 8 * col.size + 4 * columns + 8 * columns
    rows = {name: {"us": round(us, 1), "of_copy": round(taken["copy"] / us, 3)} for name, us in taken.items()}
    record = {
        "what": __doc__.split("\n")[0],
        "command": "python -m benchmarks.gather_bound --commit COMMIT --out FILE",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "device": device.name(),
        "compulsory_bytes": compulsory,
        "times": rows,
    }
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(rows, indent=1))


def _columns() -> tuple[NDArray[np.int32], int]:
    """The subscripts of x, int32, and how many columns there are."""
    case = prepare(CASE, "sim:h200-sxm")
    sizes = case.sizes
    return structure(case.problem.task.workload, sizes)["col"], int(sizes["x_size"])


def _times(cuda: Any, device: Any, col: NDArray[np.int32], columns: int) -> dict[str, float]:
    """Microseconds of a copy of the compulsory bytes, of reading alone, and of the gathers by `head`."""
    processors = device.multiprocessor_count
    gathers = {cluster: _built(cuda, device, cluster) for cluster in CLUSTERS}
    rng = np.random.default_rng(1)
    of = {"col": cuda.to_device(col)}
    of["val"] = cuda.to_device(rng.standard_normal(col.size, np.float32))
    of["x"] = cuda.to_device(rng.standard_normal(columns, np.float32))
    out, flush = cuda.mem_alloc(4 * 2 * processors * THREADS), cuda.mem_alloc(FLUSH_BYTES)
    half = (8 * col.size + 12 * columns) // 2

    def timed(work: Callable[[], object]) -> float:
        begin, end, times = cuda.Event(), cuda.Event(), []
        for launch in range(LAUNCHES):
            cuda.memset_d8(flush, launch, FLUSH_BYTES)
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(1000 * begin.time_till(end))
        return median(times[2:])

    def launch(each: int, mask: int, cluster: int = 1) -> Callable[[], object]:
        blocks = processors * (2 if each <= 24576 else 1) // cluster * cluster
        sizes = np.int32(col.size), np.int32(each * cluster), np.int32(mask)
        given = (of["col"], of["val"], of["x"], out, *sizes)
        how = {"block": (THREADS, 1, 1), "grid": (blocks, 1), "shared": 4 * each}
        return lambda: gathers[cluster](*given, **how)

    to, source = cuda.mem_alloc(half), cuda.mem_alloc(half)
    taken = {"copy": timed(lambda: cuda.memcpy_dtod_async(to, source, half))}
    taken["no gathers"] = timed(launch(0, 31))
    for cluster in CLUSTERS:
        for each in HEADS if cluster == 1 else HEADS[1:]:
            of_cluster = f", clusters of {cluster}" if cluster > 1 else ""
            taken[f"head {each * cluster}{of_cluster}"] = timed(launch(each, -1, cluster))
    return taken


def _built(cuda: Any, device: Any, cluster: int) -> Any:
    """The kernel for clusters of so many blocks."""
    capability = "".join(map(str, device.compute_capability()))
    built = compile_cuda(f"#define CLUSTER {cluster}\n{KERNEL}", f"sm_{capability}")
    if built.cubin is None:
        raise SystemExit(built.log)
    gather = cuda.module_from_buffer(built.cubin).get_function("gather")
    gather.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 4 * max(HEADS))
    return gather


if __name__ == "__main__":
    main()
