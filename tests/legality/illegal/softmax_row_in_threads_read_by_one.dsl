# kernel: softmax
# code: E-OWNER
# wrong at: rows=1, cols=8
specialize(cols == 8)
xr = stage(x, at=row, scope=register)
bind(xr.1, thread.x)
bind(row, grid.x)
