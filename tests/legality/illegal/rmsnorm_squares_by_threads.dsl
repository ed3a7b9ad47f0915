# kernel: rmsnorm
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run
split(row, 2)
bind(row.o, grid.x)
split(c, 2)
bind(c.i, thread.x)
