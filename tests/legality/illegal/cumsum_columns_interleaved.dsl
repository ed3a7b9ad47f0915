# kernel: cumsum
# code: E-REDUCTION
# wrong at: rows=1, cols=64
specialize(cols == 64)
bind(r, grid.x)
split(c, 32)
reorder([c.i, c.o])
scan(c.i)
