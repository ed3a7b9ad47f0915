# kernel: layernorm
# code: E-REDUCE-WIDTH
# not run: a transform refuses it: there is no result to run
specialize(cols == 8)
bind(r, grid.x)
xr = stage(x, at=r, scope=register)
bind([xr.1, c_3], thread.x)
block_reduce(c)
