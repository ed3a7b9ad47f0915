# kernel: softmax
# code: E-COMBINE
# not run: the lowering has no meaning on these lanes
specialize(cols == 16)
bind(row, grid.x)
split([c, c_2], 4)
warp_reduce([c.i, c_2.i])
bind(c_3, thread.x)
