"""Good parallel programs for small sizes: what damage is most telling on."""

from __future__ import annotations

_ROWS_BLOCK = """
specialize(cols == 128)
bind({row}, grid.x)
xr = stage({x}, at={row}, scope=register)
split([xr.1, {sweeps}], 2)
block_reduce([{reduced_o}])
bind([xr.1.o, {last}.o], thread.x)
vectorize([xr.1.i, {last}.i], 2)
"""
_ROWS_WARP = """
specialize(cols == 64)
split({row}, 4)
xr = stage({x}, at={row}.i, scope=register)
bind({row}.o, grid.x)
bind({row}.i, thread.y)
split([xr.1, {sweeps}], 2)
warp_reduce([{reduced_o}])
bind([xr.1.o, {last}.o], thread.x)
"""
_ROWS_STRIDED = """
specialize(cols == 96)
bind({row}, grid.x)
xs = stage({x}, at={row}, scope=shared)
split([xs.1, {sweeps}], 32)
warp_reduce([{reduced_i}])
bind([xs.1.i, {last}.i], thread.x)
"""
_ROWS_GROUPS = """
specialize(cols == 16 and rows % 4 == 0)
split({row}, 4)
bind({row}.o, grid.x)
bind({row}.i, thread.y)
split([{sweeps}], 8)
warp_reduce([{reduced_i}])
bind({last}.i, thread.x)
"""


def _rows(row: str, x: str, reduced: list[str], last: str) -> list[str]:
    words = {
        "row": row,
        "x": x,
        "sweeps": ", ".join((*reduced, last)),
        "reduced_o": ", ".join(f"{c}.o" for c in reduced),
        "reduced_i": ", ".join(f"{c}.i" for c in reduced),
        "last": last,
    }
    return [t.format(**words) for t in (_ROWS_BLOCK, _ROWS_WARP, _ROWS_STRIDED, _ROWS_GROUPS)]


_ROW_BY_THREAD = "split({r}, 32)\nbind({r}.o, grid.x)\nbind({r}.i, thread.x)\n"
_ROW_BY_WARP = """
split({r}, 4)
bind({r}.o, grid.x)
bind({r}.i, thread.y)
split(k, 32)
reorder([k.i, k.o])
warp_reduce(k.i)
"""
_ROW_BY_BLOCK = "bind({r}, grid.x)\nsplit(k, 64)\nreorder([k.i, k.o])\nblock_reduce(k.i)\n"
_ROW_BY_LANES = """
specialize({n} % 8 == 0)
split({r}, 8)
bind({r}.o, grid.x)
bind({r}.i, thread.y)
split(k, 4)
reorder([k.i, k.o])
warp_reduce(k.i)
"""


def _sparse(r: str, n: str) -> list[str]:
    return [t.format(r=r, n=n) for t in (_ROW_BY_THREAD, _ROW_BY_WARP, _ROW_BY_BLOCK, _ROW_BY_LANES)]


_ENTRIES_BY_FOUR = """
balance(k, by={ends})
split(k, 4)
split(k.o, 8)
persistent(k.o.o, 2)
bind(k.o.i, thread.x)
vectorize(k.i, 4)
split([{r}.init, {r}], 16)
bind([{r}.init.o, {r}.o], grid.x)
bind([{r}.init.i, {r}.i], thread.x)
"""
_ENTRIES_TOGETHER = """
balance(k, by={ends})
aggregate(sum, warp)
split(k, 32)
persistent(k.o, 3)
bind(k.i, thread.x)
bind({r}, grid.x)
"""


def _entries(r: str, ends: str) -> list[str]:
    return [t.format(r=r, ends=ends) for t in (_ENTRIES_BY_FOUR, _ENTRIES_TOGETHER)]


TEMPLATES: dict[str, list[str]] = {
    "batched_matmul": [
        "specialize(m == 8 and n == 8 and k == 4)\nbind(b, grid.x)\nsplit([row, col], 2)\n"
        "reorder([row.o, col.o, row.i, col.i])\ndistribute([row.o, col.o, row.i, col.i])\n"
        "reorder([row.o.1, col.o.1, l, row.i.1, col.i.1])\nta = stage(A, at=b, scope=shared)\n"
        "tb = stage(B, at=b, scope=shared)\nset_layout(ta, pad=[0, 0, 1])\nsplit([ta.1, tb.2], 2)\n"
        "bind([ta.1.o, tb.1, row.o.0, row.o.1, row.o.2], thread.y)\n"
        "bind([ta.2, tb.2.o, col.o.0, col.o.1, col.o.2], thread.x)\nvectorize([tb.2.i, col.i.2], 2)\n",
        "split(b, 4)\nbind(b.o, grid.x)\nbind(b.i, thread.z)\nsplit(col, 8)\nbind(col.i, thread.x)\n",
    ],
    "total": [
        "split(i, 256)\ngrid_reduce(i.o)\nbind(i.o, grid.x)\nsplit(i.i, 64)\nblock_reduce(i.i.i)\n"
        "split(i.o.all, 32)\nwarp_reduce(i.o.all.i)\n",
        "specialize(n % 4 == 0)\nsplit(i, 512)\nsplit(i.i, 128)\nreorder([i.i.o, i.o])\ngrid_reduce(i.i.o)\n"
        "bind(i.i.o, grid.x)\nsplit(i.i.i, 4)\nwarp_reduce(i.i.i.o)\nvectorize(i.i.i.i, 4)\n"
        "warp_reduce(i.i.o.all)\n",
    ],
    "blur": [
        "specialize(cols == 32)\nsplit(r_2, 8)\nw = compute_at(h, at=r_2.o)\nsplit(c, 4)\n"
        "reorder([c.o, r_2.o, c.i])\ndistribute(c.i)\nreorder([w.0, c.i.0])\nreorder([r_2.i, c.i.1])\n"
        "vectorize([c.i.0, c.i.1], 4)\nbind(strip, grid.x)\nbind(c.o, thread.x)\nbind(r_2.o, thread.y)\n",
        "inline(h)\nsplit(r_2, 16)\nbind(strip, grid.y)\nbind(r_2.o, thread.y)\nsplit(c, 32)\n"
        "bind(c.o, grid.x)\nbind(c.i, thread.x)\n",
        "bind(strip, grid.y)\nbind(c, grid.x)\nsplit(r_2, 32)\nw = compute_at(h, at=r_2.o, scope=shared)\n"
        "bind(w.0, thread.x)\nbind(r_2.i, thread.x)\n",
    ],
    "relax": [
        "split(r, 16)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\n",
    ],
    "attention": [
        "specialize(seq % 8 == 0)\nbind(h, grid.y)\nsplit(i, 8)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"
        "split([j, j_2], 2)\nonline(j.o, j_2.o)\ndistribute(j.i)\ndistribute(j_2.i)\n"
        "reuse(s, instead_of=s_2)\n",
    ],
    "conv1d": [
        "specialize(taps == 4 and n % 4 == 0)\nbind(b, grid.y)\nsplit(t, 64)\nsplit(t.i, 4)\n"
        "bind(t.o, grid.x)\nbind(t.i.o, thread.x)\nw = stage(signal, at=t.i.o, scope=register)\n"
        "unroll([w.1, t.i.i, k])\n",
        "specialize(taps == 4)\nbind(b, grid.y)\nsplit(t, 32)\nbind(t.o, grid.x)\n"
        "s = stage(signal, at=t.o, scope=shared)\nsplit(s.1, 32)\nbind([s.1.i, t.i], thread.x)\nunroll(k)\n",
    ],
    "cross_entropy": [
        "specialize(classes == 64)\nbind(r, grid.x)\nx = stage(logits, at=r, scope=register)\n"
        "split([x.1, c, c_2], 2)\nblock_reduce([c.o, c_2.o])\nbind(x.1.o, thread.x)\nvectorize(x.1.i, 2)\n",
        "specialize(classes == 48)\nsplit(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\n"
        "split([c, c_2], 32)\nwarp_reduce([c.i, c_2.i])\n",
    ],
    "masked_softmax": [
        "specialize(keys == 64)\nbind(row, grid.x)\nbind(q, grid.y)\n"
        "s = stage(scores, at=q, scope=register)\nv = stage(mask, at=q, scope=register)\n"
        "split([s.2, v.1, k, k_2, k_3], 2)\n"
        "block_reduce([k.o, k_2.o])\nbind([s.2.o, v.1.o, k_3.o], thread.x)\n"
        "vectorize([s.2.i, v.1.i, k_3.i], 2)\n",
        "specialize(keys == 32)\nbind(row, grid.x)\nsplit(q, 4)\nbind(q.o, grid.y)\nbind(q.i, thread.y)\n"
        "warp_reduce([k, k_2])\nbind(k_3, thread.x)\n",
    ],
    "rope": [
        "specialize(half == 16)\nbind(token, grid.x)\nsplit(head, 4)\nbind(head.i, thread.y)\nsplit(d, 4)\n"
        "bind(d.o, thread.x)\nvectorize(d.i, 4)\n",
        "bind(token, grid.y)\nsplit(head, 4)\nsplit(d, 16)\nreorder([head.o, d.o, d.i, head.i])\n"
        "bind(head.o, grid.x)\nbind(d.i, thread.x)\nunroll(head.i)\n",
    ],
    "spmv": [*_sparse("row", "rows"), *_entries("row", "rowptr")],
    "segments": _sparse("s", "n"),
    "gather": [
        "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n",
        "specialize(n % 4 == 0)\nsplit(i, 64)\nbind(i.o, grid.x)\nsplit(i.i, 4)\nbind(i.i.o, thread.x)\n"
        "vectorize(i.i.i, 4)\n",
        "split(i, 128)\nbind(i.o, grid.x)\nsplit(i.i, 4)\nbind(i.i.o, thread.x)\nunroll(i.i.i)\n",
    ],
    "histogram": [
        "split(i, 8)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n",
        "split(i, 12)\nbind(i.o, grid.x)\nsplit(i.i, 4)\nh = privatize(hist, at=i.o)\n"
        "bind(i.i.i, thread.x)\nsplit([h.init.0, h.all.0], 64)\nbind([h.init.0.i, h.all.0.i], thread.x)\n",
        "split(i, 16)\nbind(i.o, grid.x)\nsplit(i.i, 4)\nh = privatize(hist, at=i.o, copies=i.i.i)\n"
        "bind([i.i.i, h.init.copy], thread.x)\nbind(i.i.o, thread.y)\nsplit([h.init.0, h.all.0], 4)\n"
        "bind([h.init.0.i, h.all.0.i], thread.y)\nwarp_reduce(h.all.copy)\n",
        "split(i, 16)\nbind(i.o, grid.x)\nsplit(i.i, 4)\nh = privatize(hist, at=i.o)\n"
        "bind(i.i.o, thread.x)\nvectorize(i.i.i, 4)\nsplit([h.init.0, h.all.0], 64)\n"
        "bind([h.init.0.i, h.all.0.i], thread.x)\n",
    ],
    "embedding": [
        "bind(t, grid.x)\nsplit(c, 32)\nbind(c.i, thread.x)\n",
        "specialize(d % 4 == 0)\nbind(t, grid.x)\nsplit(c, 64)\nsplit(c.i, 4)\nbind(c.i.o, thread.x)\n"
        "vectorize(c.i.i, 4)\n",
        "split(t, 4)\nbind(t.o, grid.x)\nbind(t.i, thread.y)\nsplit(c, 16)\nbind(c.i, thread.x)\n",
    ],
    "softmax": _rows("row", "x", ["c", "c_2"], "c_3"),
    "layernorm": _rows("r", "x", ["c", "c_2"], "c_3"),
    "rmsnorm": _rows("row", "x", ["c"], "c_2"),
    "matvec": [
        "specialize(cols == 64)\nbind(row, grid.x)\nblock_reduce(k)\n",
        "specialize(cols == 128)\nsplit(row, 4)\nbind(row.o, grid.x)\nbind(row.i, thread.y)\nsplit(k, 4)\n"
        "warp_reduce(k.o)\nvectorize(k.i, 4)\n",
        "specialize(cols == 40)\nsplit(row, 8)\nbind(row.o, grid.x)\nxs = stage(x, at=row.o, scope=shared)\n"
        "bind([xs.0, row.i], thread.x)\n",
    ],
    "row_sum": [
        "specialize(cols == 64)\nbind(r, grid.x)\nblock_reduce(c)\n",
        "specialize(cols == 64)\nsplit(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\nsplit(c, 32)\n"
        "warp_reduce(c.i)\n",
        "specialize(cols == 40)\nsplit(r, 8)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\nsplit(c, 8)\n"
        "s = stage(in, at=r.o, scope=shared)\nbind(s.0, thread.x)\nvectorize(s.1, 4)\n",
    ],
    "column_sum": [
        "specialize(rows == 32)\nsplit(col, 8)\nbind(col.o, grid.x)\nbind(col.i, thread.y)\n"
        "warp_reduce(row)\n",
        "split(col, 32)\nbind(col.o, grid.x)\nbind(col.i, thread.x)\nsplit(row, 4)\nunroll(row.i)\n",
        "specialize(rows % 4 == 0)\nsplit(col, 16)\nbind(col.o, grid.x)\ndistribute(col.i)\nsplit(row, 4)\n"
        "reorder([row.o, row.i, col.i.1])\ns = stage(matrix, at=row.o, scope=shared)\n"
        "bind([col.i.0, col.i.1, col.i.2, s.1], thread.x)\n",
    ],
    "transpose": [
        "tile([i, j], [8, 8])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\nt = stage(x, at=j.o, scope=shared)\n"
        "set_layout(t, pad=[0, 1])\nsplit([t.0, j.i], 2)\nbind([t.1, i.i], thread.x)\n"
        "bind([t.0.i, j.i.i], thread.y)\n",
        "specialize(rows % 8 == 0 and cols % 8 == 0)\ntile([i, j], [8, 8])\nbind(i.o, grid.y)\n"
        "bind(j.o, grid.x)\nt = stage(x, at=j.o, scope=shared)\nsplit(t.1, 4)\nsplit(i.i, 4)\n"
        "reorder([j.i, i.i.o, i.i.i])\nbind([t.1.o, i.i.o], thread.x)\nbind([t.0, j.i], thread.y)\n"
        "vectorize([t.1.i, i.i.i], 4)\n",
        "tile([i, j], [8, 8])\nbind(i.o, grid.x)\nt = stage(x, at=j.o, scope=shared)\n"
        "set_layout(t, pad=[0, 1])\nbind([t.1, i.i], thread.x)\nbind([t.0, j.i], thread.y)\n"
        "multi_buffer(t, n=3)\npipeline(j.o, ahead=2)\n",
        "specialize(cols % 8 == 0)\ntile([i, j], [4, 32])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"
        "t = stage(x, at=j.o, scope=shared)\nset_layout(t, swizzle=[4, 8])\nsplit(t.1, 4)\nsplit(j.i, 8)\n"
        "reorder([j.i.o, i.i, j.i.i])\nbind([t.0, i.i], lane.y)\nbind([t.1.o, j.i.i], lane.x)\n"
        "vectorize(t.1.i, 4)\n",
    ],
    "matmul": [
        "specialize(M % 8 == 0 and N % 8 == 0 and K % 4 == 0)\ntile([i, j], [8, 8])\nbind(i.o, grid.y)\n"
        "bind(j.o, grid.x)\ntile([i.i, j.i], [2, 2])\ndistribute([i.i.o, j.i.o, i.i.i, j.i.i])\nsplit(k, 4)\n"
        "reorder([k.o, i.i.o.1, j.i.o.1, k.i, i.i.i.1, j.i.i.1])\na = stage(A, at=k.o, scope=shared)\n"
        "b = stage(B, at=k.o, scope=shared)\nsplit(a.0, 4)\nsplit(b.1, 2)\n"
        "bind([a.0.i, b.0, i.i.o.0, i.i.o.1, i.i.o.2], thread.y)\n"
        "bind([a.1, b.1.o, j.i.o.0, j.i.o.1, j.i.o.2], thread.x)\n"
        "ra = stage(a, at=k.i, scope=register)\nvectorize([b.1.i, j.i.i.2], 2)\n",
        "specialize(K % 4 == 0)\ntile([i, j], [8, 8])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"
        "distribute([i.i, j.i])\nsplit(k, 4)\nreorder([k.o, i.i.1, j.i.1, k.i])\n"
        "a = stage(A, at=k.o, scope=shared)\nbind([i.i.0, i.i.1, i.i.2, a.0], thread.y)\n"
        "bind([j.i.0, j.i.1, j.i.2, a.1], thread.x)\n",
        "specialize(K % 4 == 0)\ntile([i, j], [8, 8])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"
        "distribute([i.i, j.i])\nsplit(k, 4)\nreorder([k.o, i.i.1, j.i.1, k.i])\n"
        "a = stage(A, at=k.o, scope=shared)\nbind([i.i.0, i.i.1, i.i.2, a.0], thread.y)\n"
        "bind([j.i.0, j.i.1, j.i.2, a.1], thread.x)\nmulti_buffer(a)\npipeline(k.o)\n",
        "specialize(K % 4 == 0)\ntile([i, j], [8, 8])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"
        "distribute([i.i, j.i])\nsplit(k, 4)\nreorder([k.o, i.i.1, j.i.1, k.i])\n"
        "a = stage(A, at=k.o, scope=shared)\nbind([i.i.0, i.i.1, i.i.2, a.0], thread.y)\n"
        "bind([j.i.0, j.i.1, j.i.2, a.1], thread.x)\nmake_async(a)\nmulti_buffer(a, n=3)\n"
        "pipeline(k.o, ahead=2)\n",
        "specialize(M % 16 == 0 and N % 8 == 0 and K % 4 == 0)\ntile([i, j], [16, 8])\nbind(i.o, grid.y)\n"
        "bind(j.o, grid.x)\ntile([i.i, j.i], [2, 2])\ndistribute([i.i.o, j.i.o, i.i.i, j.i.i])\nsplit(k, 4)\n"
        "reorder([k.o, i.i.o.1, j.i.o.1, k.i, i.i.i.1, j.i.i.1])\na = stage(A, at=k.o, scope=shared)\n"
        "set_layout(a, swizzle=[1, 4, 2])\nsplit(a.0, 8)\n"
        "bind([a.0.i, i.i.o.0, i.i.o.1, i.i.o.2], lane.y)\nbind([a.1, j.i.o.0, j.i.o.1, j.i.o.2], lane.x)\n"
        "serpentine([i.i.i.1, j.i.i.1])\n",
    ],
    "stencil": [
        "tile([i, j], [8, 8])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\nt = stage(x, at=j.o, scope=shared)\n"
        "bind([t.0, i.i], thread.y)\nbind([t.1, j.i], thread.x)\n",
        "tile([i, j], [4, 8])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\nt = stage(x, at=j.o, scope=shared)\n"
        "split([t.0, t.1], 8)\nbind([t.1.i, j.i], thread.x)\nbind(i.i, thread.y)\n",
        "specialize(cols % 4 == 0)\nshift([i, j], 1)\nsplit(i, 2)\nsplit(j, 4)\nsplit(j.o, 2)\n"
        "reorder([i.o, j.o.o, j.o.i, i.i, j.i])\nbind(i.o, grid.y)\nbind(j.o.o, grid.x)\n"
        "bind(j.o.i, thread.x)\nt = stage(x, at=j.o.i, scope=register, align=4)\nvectorize([t.1, j.i], 4)\n",
    ],
    "stencil3x3": [
        "split(i, 4)\nsplit(j, 8)\nreorder([i.o, j.o, j.i, i.i])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"
        "bind(j.i, thread.x)\nunroll([i.i, a, b])\n",
        "tile([i, j], [4, 8])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\nt = stage(in, at=j.o, scope=shared)\n"
        "bind([t.0, i.i], thread.y)\nbind([t.1, j.i], thread.x)\n",
    ],
    "vecadd": [
        "split(i, 64)\nsplit(i.i, 4)\nbind(i.o, grid.x)\nbind(i.i.o, thread.x)\nspecialize(n % 4 == 0)\n"
        "vectorize(i.i.i, 4)\n"
    ],
    "saxpy": [
        "split(i, 32)\nbind(i.o, grid.x)\nxs = stage(x, at=i.o, scope=shared)\nbind([xs.0, i.i], thread.x)\n"
    ],
    "gelu": ["split(idx, 64)\nsplit(idx.i, 2)\nbind(idx.o, grid.x)\nbind(idx.i.o, thread.x)\n"],
    "pooling": [
        "specialize(cols == 128)\nbind(r, grid.x)\nsplit([c, c_2], 2)\nsplit([c.o, c_2.o], 32)\n"
        "block_reduce([c.o.i, c_2.o.i])\nonline([c.o.o, c.o.i], [c_2.o.o, c_2.o.i])\n",
        "split(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\nonline(c, c_2)\n",
        "specialize(cols % 8 == 0 and rows % 4 == 0)\nsplit(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\n"
        "split([c, c_2], 8)\nwarp_reduce([c.i, c_2.i])\nonline([c.o, c.i], [c_2.o, c_2.i])\n",
    ],
    "scores": [
        "specialize(rows % 8 == 0 and cols % 4 == 0)\nsplit(r, 8)\nbind(r.o, grid.x)\nsplit([c, c_2], 4)\n"
        "split([c.i, c_2.i], 2)\nonline([c.o, c.i.o], [c_2.o, c_2.i.o])\ndistribute(c.i.i)\n"
        "distribute(c_2.i.i)\nreuse(s, instead_of=s_2)\ndistribute(r.i)\nreorder([c.o, r.i.3])\n"
        "ws = stage(w, at=c.o, scope=shared)\nvs = stage(v, at=c.o, scope=shared)\n"
        "split([ws.0, vs.0], 8)\nbind([ws.0.i, vs.0.i], thread.x)\n"
        "bind([r.i.0, r.i.1, r.i.2, r.i.3, r.i.4, r.i.5, r.i.6], thread.x)\n",
        "split(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\nonline(c, c_2)\n",
        "specialize(rows % 4 == 0)\nsplit(r, 4)\nbind(r.o, grid.x)\nsplit([k, k_2], 2)\n"
        "reorder([k.i, k.o])\nreorder([k_2.i, k_2.o])\nbind(r.i, thread.y)\nwarp_reduce([k.i, k_2.i])\n"
        "split([e, e_2, e_3], 2)\nonline(c, c_2)\nreuse(s, instead_of=s_2)\n"
        "bind([e.i, e_2.i, e_2.i.scale, e_2.i.scale_2, e_3.i], thread.x)\n",
        "specialize(rows % 4 == 0 and cols % 8 == 0)\nsplit(r, 4)\nbind(r.o, grid.x)\nsplit(r.i, 2)\n"
        "split([c, c_2], 8)\nsplit([c.i, c_2.i], 2)\nsplit([c.i.o, c_2.i.o], 2)\n"
        "split([e, e_2, e_3], 2)\ndistribute([c.i.o.o, c.i.o.i, c.i.i])\n"
        "distribute([c_2.i.o.o, c_2.i.o.i, c_2.i.i])\n"
        "reorder([c_2.i.o.i.3, c_2.i.o.o.3, c_2.i.i.3])\nwarp_reduce(c_2.i.o.i.3)\n"
        "online(c.o, c_2.o)\nreuse(s, instead_of=s_2)\ndistribute([r.i.o, r.i.i])\n"
        "reorder([c.o, r.i.o.4, r.i.i.4])\ndistribute([r.i.o.4, r.i.i.4])\n"
        "reorder([c.i.o.i.2, c.i.o.o.2, c.i.i.2])\nwarp_reduce(c.i.o.i.2)\n"
        "reorder([c_2.i.o.o.4, r.i.o.4.8, e_2.i, c_2.i.o.i.4, c_2.i.i.4, r.i.i.4.8, e_2.o])\n"
        "P = stage(p, at=c_2.i.o.o.4, scope=shared)\nsplit([P.0, P.1], 2)\n"
        "bind([P.0.o, r.i.o.0, r.i.o.1, r.i.o.2, r.i.o.3, r.i.o.5, r.i.o.6, r.i.o.7, r.i.o.8], "
        "thread.y)\n"
        "bind([r.i.o.4.0, r.i.o.4.1, r.i.o.4.2, r.i.o.4.3, r.i.o.4.4, r.i.o.4.5, r.i.o.4.6], thread.y)\n"
        "bind([r.i.o.4.7, r.i.o.4.8], thread.y)\n"
        "bind([P.1.o, c.i.o.i.0, c.i.o.i.1, c_2.i.o.i.2, e.i, e_2.i, e_2.i.scale, e_2.i.scale_2, "
        "e_3.i], thread.x)\n",
    ],
    "cumsum": [
        "specialize(cols == 256)\nbind(r, grid.x)\nx_row = stage(x, at=r, scope=register)\n"
        "split([x_row.1, c], 2)\nsplit([x_row.1.o, c.o], 64)\nscan(c.o.i)\n"
        "y_run = cache_write(y, at=c.o.i, scope=register)\nbind(x_row.1.o.i, thread.x)\n"
        "vectorize([x_row.1.i, y_run.1], 2)\n",
        "specialize(rows % 4 == 0)\nsplit(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\nsplit(c, 3)\n"
        "split(c.o, 8)\nscan(c.o.i)\n",
    ],
    "running_sum": [
        "specialize(cols == 17)\nbind(r, grid.x)\nbind(c_2, thread.x)\n",
        "split(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\nsplit(c, 4)\n",
    ],
    "accumulate": [
        "specialize(cols == 64)\nbind(r, grid.x)\nblock_reduce(c)\n",
        "specialize(cols == 64)\nsplit(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\nsplit(c, 32)\n"
        "warp_reduce(c.i)\n",
        "split(r, 16)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\naccumulate_in_register(c, out)\n",
    ],
    "difference": [
        "tile([r, c], [4, 8])\nbind(r.o, grid.y)\nbind(c.o, grid.x)\nbind(r.i, thread.y)\n"
        "bind(c.i, thread.x)\n",
        "tile([r, c], [8, 8])\nbind(r.o, grid.y)\nbind(c.o, grid.x)\nt = stage(x, at=c.o, scope=shared)\n"
        "bind([t.0, r.i], thread.y)\nbind([t.1, c.i], thread.x)\n",
    ],
    "envelope": [
        "specialize(cols == 64)\nbind(r, grid.x)\nblock_reduce(c)\nbind(c_2, thread.x)\n",
        "specialize(cols == 64 and rows % 4 == 0)\nsplit(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\n"
        "split(c, 16)\nwarp_reduce(c.i)\nbind(c_2, thread.x)\n",
    ],
    "spread": [
        "specialize(cols == 64)\nbind(r, grid.x)\nxs = stage(x, at=r, scope=shared)\n"
        "split([xs.1, c, c_2], 2)\nblock_reduce(c.o)\nbind([xs.1.o, c_2.o], thread.x)\n"
        "vectorize([xs.1.i, c_2.i], 2)\n",
        "specialize(cols == 64)\nbind(r, grid.x)\nblock_reduce(c)\nbind(c_2, thread.x)\n",
        "specialize(cols == 64)\nsplit(r, 2)\nbind(r.o, grid.x)\nsplit([c, c_2], 32)\nwarp_reduce(c.i)\n"
        "bind(c_2.i, thread.x)\n",
    ],
    "recurrence": ["split(r, 8)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\nsplit(c, 4)\n"],
    "sweep": [
        "specialize(cols == 9)\nbind(g, grid.x)\nbind(j, thread.x)\n",
        "specialize(cols == 9 and grids % 4 == 0)\nsplit(g, 4)\nbind(g.o, grid.x)\nbind(g.i, thread.y)\n"
        "bind(j, thread.x)\n",
        "specialize(rows == 8)\nskew([i, j], by=2)\nreorder([j, i])\nbind(g, grid.x)\nbind(i, thread.x)\n",
    ],
}

_SOFTMAX = "specialize(cols == 128)\nsplit(row, 2)\nbind(row.o, grid.x)\n"
_CORNERS: list[tuple[str, str]] = [
    ("softmax", _SOFTMAX + "split([c, c_2], 2)\nblock_reduce([c.o, c_2.o])\nbind(c_3, thread.x)\n"),
    (
        "softmax",
        _SOFTMAX + "split([c, c_2], 64)\nblock_reduce([c.i, c_2.i])\nsplit(c_3, 32)\nbind(c_3.o, thread.y)\n"
        "bind(c_3.i, thread.x)\n",
    ),
    ("softmax", "specialize(cols == 96)\nbind(row, grid.x)\nblock_reduce([c, c_2])\nbind(c_3, thread.x)\n"),
    (
        "row_sum",
        "specialize(cols == 64 and rows % 3 == 0)\nsplit(r, 3)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\n"
        "split(c, 8)\nwarp_reduce(c.i)\n",
    ),
    ("row_sum", "split(c, 32)\nbind(r, grid.x)\nwarp_reduce(c.i)\n"),
    ("row_sum", "split(c, 64)\nsplit(r, 4)\nbind(r.o, grid.x)\nblock_reduce(c.i)\n"),
    ("column_sum", "split(col, 4)\nbind(col.o, grid.x)\nsplit(row, 64)\nblock_reduce(row.i)\n"),
    (
        "column_sum",
        "split(col, 4)\nbind(col.o, grid.x)\nbind(col.i, thread.y)\nsplit(row, 32)\nwarp_reduce(row.i)\n",
    ),
    ("matmul", "specialize(K == 64)\nbind(i, grid.y)\nbind(j, grid.x)\nblock_reduce(k)\n"),
    (
        "matmul",
        "specialize(K == 32)\nbind(i, grid.y)\nsplit(j, 8)\nbind(j.o, grid.x)\nbind(j.i, thread.y)\n"
        "warp_reduce(k)\n",
    ),
    (
        "matmul",
        "split(k, 32)\nbind(i, grid.y)\nsplit(j, 8)\nbind(j.o, grid.x)\na = stage(A, at=k.o, scope=shared)\n",
    ),
    (
        "spread",
        "specialize(cols == 128)\nsplit(r, 2)\nbind(r.o, grid.x)\nsplit(c, 2)\nblock_reduce(c.o)\n"
        "xs = stage(x, at=r.i, scope=shared)\nbind(xs.1, thread.x)\nbind(c_2, thread.x)\n",
    ),
    ("accumulate", "split(c, 64)\nsplit(r, 2)\nbind(r.o, grid.x)\nblock_reduce(c.i)\n"),
    ("accumulate", "split(c, 16)\nsplit(r, 2)\nbind(r.o, grid.x)\nwarp_reduce(c.i)\n"),
]
"""Tails, rows one after another in a block, thread loops of different lengths, sums in memory."""
for _kernel, _text in _CORNERS:
    TEMPLATES[_kernel].append(_text)
