# kernel: stencil
# code: E-OWNER
# wrong at: rows=3, cols=3
xs = stage(x, at=j, scope=register)
bind(xs.0, thread.x)
