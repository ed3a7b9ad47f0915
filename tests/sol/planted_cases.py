"""The pairs: a defect, and the same work without it (see `planted`)."""

from __future__ import annotations

from tests.sol.planted import (
    INDEX,
    LINE,
    LONG,
    LONG_COPY,
    ROW_COL,
    SLICE,
    Kernel,
    N,
    Pair,
    Work,
    block_sum,
    columns,
    each4,
    f32,
    history,
    poly_blocks,
    row_blocks,
    running_sums,
    square,
    tile,
    vectors,
    window,
)

WIDE_COPY = vectors("wide_copy", each4("{}"))
TILED = square("tiled", tile(1), grid=(N // 32, N // 32, 1))

# Exponentials of 32 weights for each output, though they are the same for all.
EXP_AGAIN = f"""    {INDEX}
    float s = 0.0f, v = x[i];
#pragma unroll
    for (int k = 0; k < 32; ++k) s += expf(w[k]) * v;
    y[i] = s;"""
WEIGHTED = f32(x=LONG, w=32, y=LONG)
EXP_BOUND = Work(LONG + 32, LONG, {"f32.special.exp": 32, "f32.fma": 32.0 * LONG})

# An array of five dimensions is mirrored along three of them, the subscripts taken from the linear index.
MIRRORED = f"""    {INDEX}
    int a = i % d0, b = i / d0 % d1, c = i / d0 / d1 % d2;
    int d = i / d0 / d1 / d2 % d3, e = i / d0 / d1 / d2 / d3;
    int from = (((e * d3 + (d3 - 1 - d)) * d2 + (d2 - 1 - c)) * d1 + (d1 - 1 - b)) * d0 + a;
    y[i] = 2.0f * x[from];"""
# The same, a block a row.
BY_ROWS = """    int a = threadIdx.x, b = blockIdx.x, c = blockIdx.y % 20;
    int d = blockIdx.y / 20, e = blockIdx.z;
    int to = (((e * 20 + d) * 20 + c) * 20 + b) * 256 + a;
    int from = (((e * 20 + (19 - d)) * 20 + (19 - c)) * 20 + (19 - b)) * 256 + a;
    y[to] = 2.0f * x[from];"""

DOUBLES = each4("horner({})")
FLOATS = each4("horner_f({})")
POLY = {"f32.fma": 32.0 * LONG}

# Nothing may be loaded before the store ahead of it, since the pointers may overlap.
SERIAL = f"""    {INDEX}
#pragma unroll 1
    for (int r = 0; r < rows; ++r) y[r * cols + i] = 2.0f * x[r * cols + i];"""
DOWN = {"rows": 1 << 8, "cols": 1 << 18}

TREE = f"""    __shared__ float t[256];
    {SLICE}
    float s = 0.0f;
    for (int k = 0; k < {LONG // 4096}; k += 256) {{
        t[threadIdx.x] = a[k + threadIdx.x];
        __syncthreads();
#pragma unroll
        for (int d = 128; d > 0; d /= 2) {{
            if (threadIdx.x < d) t[threadIdx.x] += t[threadIdx.x + d];
            __syncthreads();
        }}
        s += t[0];
        __syncthreads();
    }}
    if (threadIdx.x == 0) y[blockIdx.x] = s;"""
ONCE = f"""    __shared__ float part[8];
    {SLICE}
    const float4* b = reinterpret_cast<const float4*>(a);
    float s = 0.0f;
#pragma unroll 4
    for (int k = threadIdx.x; k < {LONG // 4096 // 4}; k += 256) {{
        float4 v = b[k];
        s += v.x + v.y + v.z + v.w;
    }}
    s = warp_sum(s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {{
        for (int k = 1; k < 8; ++k) s += part[k];
        y[blockIdx.x] = s;
    }}"""
SHUFFLED = f"""    __shared__ float part[8];
    {SLICE}
    float s = 0.0f;
#pragma unroll 4
    for (int k = threadIdx.x; k < {LONG // 4096}; k += 256) {{
        float v = a[k];
        s += warp_sum(v) * warp_sum(v * v) + warp_sum(v * v * v);
    }}
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {{
        for (int k = 1; k < 8; ++k) s += part[k];
        y[blockIdx.x] = s;
    }}"""

ATOMIC_EACH = f"""    {INDEX}
    atomicAdd(y, x[i]);"""
ATOMIC_ONCE = ONCE.replace("y[blockIdx.x] = s", "atomicAdd(y, s)")


def one_d(name: str, body: str, work: Work, *, threads: int = 256, **more: object) -> Kernel:
    """A thread an element."""
    args: dict[str, object] = {"buffers": LINE, "sizes": {"n": LONG}, "grid": (LONG // threads, 1, 1)} | more
    return Kernel(name, body, block=(threads, 1, 1), work=work, **args)  # type: ignore[arg-type]


DIVIDED = {"n": 8000 * 256 * 32, "d0": 256, "d1": 20, "d2": 20, "d3": 20}
PIECES = Work(8000 * 256 * 32, 8000 * 256 * 32, {"f32.mul": 8000 * 256 * 32})

PLANTED: dict[str, Pair] = {
    "uncoalesced_loads": Pair(
        "uncoalesced", square("columns_read", f"    {ROW_COL}\n    y[r * n + c] = x[c * n + r];"), TILED
    ),
    "uncoalesced_stores": Pair(
        "uncoalesced", square("columns_written", f"    {ROW_COL}\n    y[c * n + r] = x[r * n + c];"), TILED
    ),
    "bank_conflicts": Pair("bank_conflicts", square("unpadded", tile(0), grid=(N // 32, N // 32, 1)), TILED),
    "registers": Pair("occupancy", window("window_160", 160), window("window_4", 4)),
    "shared_memory": Pair("occupancy", history("history_12000", 12032), history("history_1024", 1024)),
    "tail": Pair("tail", poly_blocks("poly_140", 140, 4096), poly_blocks("poly_1056", 1056, 4096)),
    "few_blocks": Pair("idle_sms", row_blocks("rows_12", 12), row_blocks("rows_4096", 4096)),
    "passes": Pair("redundant_dram", columns("columns_3", 3), columns("columns_1", 1)),
    "spills": Pair(
        "spills",
        running_sums("sums_spilled", "__launch_bounds__(256, 8) "),
        running_sums("sums_held", "__launch_bounds__(256) "),
    ),
    "special_functions": Pair(
        "special_functions",
        one_d("exp_again", EXP_AGAIN, EXP_BOUND, buffers=WEIGHTED),
        one_d("exp_once", EXP_AGAIN.replace("expf(w[k])", "w[k]"), EXP_BOUND, buffers=WEIGHTED),
    ),
    "index_arithmetic": Pair(
        "index_arithmetic",
        one_d("mirrored", MIRRORED, PIECES, sizes=DIVIDED, grid=(8000 * 32, 1, 1)),
        one_d("by_rows", BY_ROWS, PIECES, sizes=DIVIDED, grid=(20, 400, 32)),
    ),
    "doubles": Pair("double_precision", vectors("doubles", DOUBLES, POLY), vectors("floats", FLOATS, POLY)),
    "dependent_loads": Pair(
        "latency",
        one_d("one_at_a_time", SERIAL, LONG_COPY, sizes=DOWN, grid=(1024, 1, 1), restrict=False),
        one_d("several", SERIAL.replace("unroll 1", "unroll 8"), LONG_COPY, sizes=DOWN, grid=(1024, 1, 1)),
    ),
    "barriers": Pair("barriers", block_sum("tree_each", TREE, 4096), block_sum("tree_once", ONCE, 4096)),
    "atomics": Pair(
        "atomics",
        one_d("atomic_each", ATOMIC_EACH, Work(LONG, 1, {"f32.add": LONG}), buffers=f32(x=LONG, y=1)),
        block_sum("atomic_once", ATOMIC_ONCE, 4096),
    ),
    "launch": Pair(
        "launch",
        Kernel(
            "tiny",
            f"    {INDEX}\n    y[i] = 2.0f * x[i];",
            f32(x=1024, y=1024),
            {"n": 1024},
            (4, 1, 1),
            (256, 1, 1),
            Work(1024, 1024),
        ),
        WIDE_COPY,
    ),
    "narrow": Pair(
        "narrow_accesses",
        one_d("narrow_copy", f"    {INDEX}\n    if (i < n) y[i] = x[i];", LONG_COPY, threads=1024),
        WIDE_COPY,
    ),
    "tiny_blocks": Pair(
        "block_starts",
        one_d("one_warp_blocks", f"    {INDEX}\n    y[i] = 2.0f * x[i];", LONG_COPY, threads=32),
        WIDE_COPY,
    ),
    "shuffles": Pair("shuffles", block_sum("sum_each", SHUFFLED, 4096), block_sum("sum_once", ONCE, 4096)),
}
