# kernel: gelu
# code: E-OWNER
# wrong at: count=3
split(idx, 4)
g = stage(in, at=idx.o, scope=register)
bind(g.0, thread.x)
