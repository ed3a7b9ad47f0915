# kernel: layernorm
# code: E-REDUCE-WIDTH
# not run: a transform refuses it: there is no result to run
specialize(cols == 8)
split(r, 4)
bind(r.o, grid.x)
bind(r.i, thread.y)
block_reduce([c, c_2])
