# kernel: row_sum
# code: E-OWNER
# wrong at: rows=1, cols=1
split(r, 4)
bind(r.o, grid.x)
distribute(r.i)
bind(r.i.0, thread.x)
bind([r.i.1, r.i.2], thread.y)
