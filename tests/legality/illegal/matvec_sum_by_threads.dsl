# kernel: matvec
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run
split(row, 2)
bind(row.o, grid.x)
split(k, 2)
bind(k.i, thread.x)
