# kernel: softmax
# code: E-REDUCE-WIDTH
# not run: a transform refuses it: there is no result to run
specialize(cols == 16)
bind(row, grid.x)
xr = stage(x, at=row, scope=register)
split(xr.1, 4)
split([c, c_2, c_3], 2)
bind([xr.1.o, c_3.o], thread.x)
block_reduce([c.o, c_2.o])
