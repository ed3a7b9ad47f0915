# kernel: cumsum
# code: E-REDUCTION
# wrong at: rows=2, cols=8
specialize(cols == 8)
bind(r, grid.x)
split(c, 4)
reorder([c.i, c.o])
scan(c.i)
