# kernel: softmax
# code: E-REDUCE-WIDTH
# not run: a transform refuses it: there is no result to run
specialize(cols == 8)
bind(row, grid.x)
xr = stage(x, at=row, scope=register)
split([xr.1, c_3], 2)
bind(xr.1.o, thread.x)
bind(c_3.i, thread.x)
block_reduce([c, c_2])
