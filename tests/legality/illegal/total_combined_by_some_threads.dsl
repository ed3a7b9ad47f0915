# kernel: total
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run
split(i, 4)
grid_reduce(i.o)
bind(i.o, grid.x)
split(i.o.all, 8)
bind(i.o.all.i, thread.x)
