# kernel: gelu
# code: E-OWNER
# wrong at: count=3
split(idx, 8)
g = stage(in, at=idx.o, scope=register)
split(g.0, 2)
split(idx.i, 4)
bind([g.0.o, idx.i.o], thread.x)
