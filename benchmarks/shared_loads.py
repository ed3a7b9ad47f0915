"""Clocks that a shared-memory access of a warp takes, by width and by which lanes share an address.

    python -m benchmarks.shared_loads --commit $(git rev-parse HEAD) --out FILE.json

Sixteen warps of one block access conflict-free shared memory as fast as they can; the clocks of one SM
divided by the accesses of warps. `evolve/devices/sim/native/trace.h` counts passes by what this found.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from evolve.toolchain.nvrtc import compile_cuda

PATTERNS = {
    "all lanes one": "0",
    "lane / 16": "l / 16",
    "lane % 2": "l % 2",
    "lane / 8": "l / 8",
    "lane % 4": "l % 4",
    "lane % 8": "l % 8",
    "lane / 4": "l / 4",
    "lane % 16": "l % 16",
    "lane / 2": "l / 2",
    "lane": "l",
    "bits 1, 2, 4 of the lane": "(l >> 1) % 4 + l / 16 * 4",
    "bits 0, 3 of the lane": "l % 2 + (l >> 3) % 2 * 2",
    "bits 0, 1, 3 of the lane": "l % 4 + (l >> 3) % 2 * 4",
}
"""Which of neighbouring elements a lane accesses."""
TYPES = {4: "float", 8: "float2", 16: "float4"}
WARPS, REPEATS, UNROLLED = 16, 200, 16


def kernel(name: str, type_: str, element: str, write: bool) -> str:
    """Accesses whose address no compiler knows: `zero` is 0 at run time."""
    parts = {"float": "v", "float2": "v.x + v.y", "float4": "v.x + v.y + v.z + v.w"}[type_]
    access = "s[at] = v;" if write else f"v = s[at]; sum += {parts};"
    return f"""
extern "C" __global__ void {name}(float* out, long long* clocks, int repeats, int zero) {{
    __shared__ __align__(16) {type_} s[{UNROLLED} * 40 + 64];
    const int l = threadIdx.x % 32;
    {type_} v = {{}};
    for (int i = threadIdx.x; i < {UNROLLED} * 40 + 64; i += blockDim.x) s[i] = v;
    __syncthreads();
    int p = {element};
    float sum = 0;
    const long long begin = clock64();
    for (int i = 0; i < repeats; ++i) {{
#pragma unroll
        for (int u = 0; u < {UNROLLED}; ++u) {{ int at = p + u * 32; {access} }}
        p += zero;
    }}
    const long long end = clock64();
    __syncthreads();
    out[threadIdx.x] = sum + *(float*)&s[l];
    if (threadIdx.x == 0) *clocks = end - begin;
}}
"""


def names() -> dict[str, tuple[str, int, bool, str]]:
    """Kernels: pattern, width, whether it writes, text."""
    out = {}
    for n, (pattern, element) in enumerate(PATTERNS.items()):
        for width, type_ in TYPES.items():
            for write in (False, True):
                name = f"k{n}_{width}_{'w' if write else 'r'}"
                out[name] = (pattern, width, write, kernel(name, type_, element, write))
    return out


def main() -> None:
    import pycuda.driver as cuda

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    cuda.init()
    device = cuda.Device(0)
    context = device.retain_primary_context()
    context.push()
    try:
        kernels = names()
        capability = "".join(map(str, device.compute_capability()))
        built = compile_cuda("".join(k[3] for k in kernels.values()), f"sm_{capability}")
        if built.cubin is None:
            raise SystemExit(built.log)
        module = cuda.module_from_buffer(built.cubin)
        out, clocks, taken = cuda.mem_alloc(4 * 32 * WARPS), cuda.mem_alloc(8), np.zeros(1, np.int64)
        clocks_of: dict[str, dict[str, float]] = {}
        for name, (pattern, width, write, _) in kernels.items():
            run = module.get_function(name)
            for _ in range(2):
                run(out, clocks, np.int32(REPEATS), np.int32(0), block=(32 * WARPS, 1, 1), grid=(1, 1))
                context.synchronize()
            cuda.memcpy_dtoh(taken, clocks)
            of = clocks_of.setdefault(f"{'store' if write else 'load'} of {width} bytes", {})
            of[pattern] = round(float(taken[0]) / (REPEATS * UNROLLED * WARPS), 2)
    finally:
        cuda.Context.pop()
    record = {
        "command": "python -m benchmarks.shared_loads --commit COMMIT --out FILE",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "device": device.name(),
        "clocks_of_a_warp": clocks_of,
    }
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(clocks_of, indent=1))


if __name__ == "__main__":
    main()
