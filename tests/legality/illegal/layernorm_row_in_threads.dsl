# kernel: layernorm
# code: E-OWNER
# wrong at: rows=1, cols=8
specialize(cols == 8)
bind(r, grid.x)
xr = stage(x, at=r, scope=register)
bind(xr.1, thread.x)
