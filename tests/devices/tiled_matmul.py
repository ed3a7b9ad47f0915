"""Matrix products through shared tiles, as the search writes them: any tile, filled by as much of the block
as there are vectors to load."""

from __future__ import annotations


def text(tile: int, depth: int, block: tuple[int, int] = (16, 16)) -> str:
    """C = A B for sizes that the tiles divide: `tile` x `tile` results a block, `depth` steps between
    barriers. Columns of A's tile lie along x, rows along y; B's tile is filled four columns an access."""
    x, y = block
    rows, columns = tile // y, tile // x
    chunks = columns // 4
    span = tile // chunks
    a_guard = f"if (tx < {depth}) " if depth < x else ""
    a_columns = f"for (int c = 0; c < {max(1, depth // x)}; c++)"
    b_guard = f"if (ty < {depth}) " if depth < y else ""
    b_rows = f"for (int r = 0; r < {max(1, depth // y)}; r++)"
    return f"""
extern "C" __global__ void __launch_bounds__({x * y}) tiled(
    const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K) {{
  __shared__ float a[{tile}][{depth + 1}];
  alignas(16) __shared__ float b[{depth}][{tile + 4}];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * {tile}, column = blockIdx.x * {tile};
  float sum[{rows}][{columns}];
#pragma unroll
  for (int i = 0; i < {rows}; i++)
#pragma unroll
    for (int j = 0; j < {columns}; j++) sum[i][j] = 0.0f;
  for (int k = 0; k < K / {depth}; k++) {{
    {a_guard}{{
#pragma unroll
      {a_columns}
#pragma unroll
        for (int i = 0; i < {rows}; i++)
          a[i * {y} + ty][c * {x} + tx] = A[(row + i * {y} + ty) * K + k * {depth} + c * {x} + tx];
    }}
    {b_guard}{{
#pragma unroll
      {b_rows}
#pragma unroll
        for (int j = 0; j < {chunks}; j++)
          *(float4 *)&b[r * {y} + ty][j * {span} + tx * 4] =
              *(const float4 *)&B[(k * {depth} + r * {y} + ty) * N + column + j * {span} + tx * 4];
    }}
    __syncthreads();
#pragma unroll
    for (int s = 0; s < {depth}; s++)
#pragma unroll
      for (int i = 0; i < {rows}; i++) {{
        const float x = a[ty * {rows} + i][s];
#pragma unroll
        for (int j = 0; j < {chunks}; j++) {{
          const float4 v = *(const float4 *)&b[s][j * {span} + tx * 4];
          sum[i][j * 4] += x * v.x;
          sum[i][j * 4 + 1] += x * v.y;
          sum[i][j * 4 + 2] += x * v.z;
          sum[i][j * 4 + 3] += x * v.w;
        }}
      }}
    __syncthreads();
  }}
#pragma unroll
  for (int i = 0; i < {rows}; i++)
#pragma unroll
    for (int j = 0; j < {columns}; j++)
      C[(row + ty * {rows} + i) * N + column + (j / 4) * {span} + tx * 4 + j % 4] = sum[i][j];
}}
"""
