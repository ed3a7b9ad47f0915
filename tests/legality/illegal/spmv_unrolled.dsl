# kernel: spmv
# code: E-EXTENT
# not run: how often to write out the body of a row's loop, nobody knows
split(row, 64)
bind(row.o, grid.x)
bind(row.i, thread.x)
unroll(k)
