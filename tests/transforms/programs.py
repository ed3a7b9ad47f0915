"""The target programs: what the transforms must carry, by the fixture kernel that they start from."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {}
PROGRAMS["softmax"] = """
specialize(cols == 8192)
bind(row, grid.x)
xr = stage(x, at=row, scope=register)
kk, v = split([xr.1, c, c_2, c_3], 4)
k2, t = split(kk, 256)
block_reduce([c.o.i, c_2.o.i])
bind([xr.1.o.i, c_3.o.i], thread.x)
vectorize([xr.1.i, c_3.i], 4)
unroll(k2)
"""
PROGRAMS["softmax_warp"] = """
specialize(cols == 1024)
split(row, 4)
xr = stage(x, at=row.i, scope=register)
bind(row.o, grid.x)
bind(row.i, thread.y)
kk, v = split([xr.1, c, c_2, c_3], 4)
k2, t = split(kk, 32)
warp_reduce([c.o.i, c_2.o.i])
bind([xr.1.o.i, c_3.o.i], thread.x)
vectorize([xr.1.i, c_3.i], 4)
unroll(k2)
"""
PROGRAMS["transpose"] = """
tile([i, j], [32, 32])
bind(i.o, grid.y)
bind(j.o, grid.x)
t = stage(x, at=j.o, scope=shared)
set_layout(t, pad=[0, 1])
split([t.0, j.i], 8)
bind([t.1, i.i], thread.x)
bind([t.0.i, j.i.i], thread.y)
unroll([t.0.o, j.i.o])
"""
PROGRAMS["transpose4"] = """
specialize(rows % 64 == 0 and cols % 64 == 0)
tile([i, j], [64, 64])
bind(i.o, grid.y)
bind(j.o, grid.x)
t = stage(x, at=j.o, scope=shared)
set_layout(t, pad=[0, 1])
split([t.0, j.i], 16)
split([t.1, i.i], 4)
reorder([j.i.o, j.i.i, i.i.o, i.i.i])
bind([t.1.o, i.i.o], thread.x)
bind([t.0.i, j.i.i], thread.y)
vectorize([t.1.i, i.i.i], 4)
unroll([t.0.o, j.i.o])
"""
PROGRAMS["matmul"] = """
specialize(M % 128 == 0 and N % 128 == 0 and K % 16 == 0)
tile([i, j], [128, 128])
bind(i.o, grid.y)
bind(j.o, grid.x)
tile([i.i, j.i], [8, 8])
distribute([i.i.o, j.i.o, i.i.i, j.i.i])
split(k, 16)
reorder([k.o, i.i.o.1, j.i.o.1, k.i, i.i.i.1, j.i.i.1])
a = stage(A, at=k.o, scope=shared)
b = stage(B, at=k.o, scope=shared)
split(a.0, 16)
split(b.1, 4)
split(b.1.o, 16)
bind([a.0.i, b.0, i.i.o.0, i.i.o.1, i.i.o.2], thread.y)
bind([a.1, b.1.o.i, j.i.o.0, j.i.o.1, j.i.o.2], thread.x)
ra = stage(a, at=k.i, scope=register)
rb = stage(b, at=k.i, scope=register)
vectorize([b.1.i, j.i.i.2], 4)
unroll([a.0.o, b.1.o.o, k.i, i.i.i.0, j.i.i.0, i.i.i.1, j.i.i.1, i.i.i.2, j.i.i.2.o, ra.0, rb.1])
launch_bounds(256, 2)
"""
PROGRAMS["vecadd"] = """
split(i, 1024)
split(i.i, 4)
bind(i.o, grid.x)
bind(i.i.o, thread.x)
specialize(n % 4 == 0)
vectorize(i.i.i, 4)
"""
PROGRAMS["column_total"] = """
specialize(cols % 32 == 0 and rows % 32 == 0)
split(c, 32)
bind(c.o, grid.x)
distribute(c.i)
split(r, 32)
reorder([r.i, c.i.1, r.o])
split_reduction(r.i, scope=shared)
accumulate_in_register(r.o, acc_part)
unroll(r.o, 8)
bind([r.i, r.i.init], thread.y)
bind([c.i.0, c.i.1, r.i.init.0, r.i.all.0, c.i.2], thread.x)
"""
PROGRAMS["column_total4"] = """
specialize(cols % 128 == 0 and rows % 128 == 0)
split(c, 128)
bind(c.o, grid.x)
distribute(c.i)
split(r, 128)
split(r.i, 16)
split(c.i.1, 4)
reorder([r.i.i, c.i.1.o, r.o, r.i.o, c.i.1.i])
split_reduction(r.i.i, scope=shared)
accumulate_in_register(r.o, acc_part)
unroll([r.i.o, acc_part_r.init.1, acc_part_r.all.1])
split([c.i.0, r.i.i.init.0, r.i.i.all.0, c.i.2], 4)
bind([r.i.i, r.i.i.init], thread.y)
bind([c.i.0.o, c.i.1.o, r.i.i.init.0.o, r.i.i.all.0.o, c.i.2.o], thread.x)
reorder([r.i.i.all.0.o, r.i.i.all, r.i.i.all.0.i])
vectorize([c.i.1.i, r.i.i.init.0.i, r.i.i.all.0.i, c.i.2.i], 4)
unroll(c.i.0.i)
"""
PROGRAMS["layernorm"] = PROGRAMS["softmax"]

KERNEL_OF = {
    "layernorm": "layernorm",
    "column_total": "column_total",
    "column_total4": "column_total",
    "softmax": "softmax",
    "softmax_warp": "softmax",
    "transpose": "transpose",
    "transpose4": "transpose",
    "matmul": "matmul",
    "vecadd": "vecadd",
}
