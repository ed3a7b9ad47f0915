# kernel: saxpy
# code: E-OWNER
# wrong at: n=3
split(i, 4)
xs = stage(x, at=i.o, scope=register)
bind(xs.0, thread.x)
