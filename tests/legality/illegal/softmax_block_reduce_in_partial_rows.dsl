# kernel: softmax
# code: E-REDUCE-WIDTH
# not run: a transform refuses it: there is no result to run
specialize(cols == 8)
split(row, 2)
bind(row.o, grid.x)
bind(row.i, thread.y)
block_reduce([c, c_2])
bind(c_3, thread.x)
