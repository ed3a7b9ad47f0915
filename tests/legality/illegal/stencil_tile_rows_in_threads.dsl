# kernel: stencil
# code: E-OWNER
# wrong at: rows=3, cols=3
tile([i, j], [2, 2])
xs = stage(x, at=j.o, scope=register)
bind(xs.0, thread.y)
bind(i.i, thread.y)
