# kernel: softmax
# code: E-REDUCE-WIDTH
# not run: a transform refuses it: there is no result to run
specialize(cols == 64)
bind(row, grid.x)
warp_reduce([c, c_2])
