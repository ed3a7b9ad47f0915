# kernel: saxpy
# code: E-OWNER
# wrong at: n=3
split(i, 8)
xs = stage(x, at=i.o, scope=register)
split([xs.0, i.i], 4)
bind(xs.0.i, thread.x)
bind(i.i.o, thread.x)
