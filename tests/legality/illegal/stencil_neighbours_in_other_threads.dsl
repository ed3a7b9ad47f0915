# kernel: stencil
# code: E-OWNER
# wrong at: rows=3, cols=3
split(j, 4)
xs = stage(x, at=j.o, scope=register)
bind(xs.1, thread.x)
bind(j.i, thread.x)
