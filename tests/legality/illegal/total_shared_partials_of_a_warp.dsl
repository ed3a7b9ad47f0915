# kernel: total
# code: E-OWNER
# wrong at: n=70
split(i, 64)
split(i.i, 8)
grid_reduce(i.o)
bind(i.o, grid.x)
split_reduction(i.i.o)
bind(i.i.o.init, thread.x)
