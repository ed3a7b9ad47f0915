# kernel: transpose
# code: E-OWNER
# wrong at: rows=4, cols=4
specialize(rows % 4 == 0 and cols % 4 == 0)
tile([i, j], [4, 4])
bind(i.o, grid.y)
bind(j.o, grid.x)
t = stage(x, at=j.o, scope=register)
bind([t.0, j.i], thread.y)
bind([t.1, i.i], thread.x)
