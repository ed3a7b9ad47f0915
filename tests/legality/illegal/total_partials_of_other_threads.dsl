# kernel: total
# code: E-REDUCTION
# wrong at: n=70
split(i, 4)
grid_reduce(i.o)
bind(i.o, grid.x)
split(i.o.all, 8)
split_reduction(i.o.all.i)
bind(i.o.all.i, thread.x)
