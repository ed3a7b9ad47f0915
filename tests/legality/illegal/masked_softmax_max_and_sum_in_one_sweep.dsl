# kernel: masked_softmax
# code: E-REDUCTION
# not run: enumeration has no values for a choice that memory decides

bind(row, grid.y)
bind(q, grid.x)
jam(k, k_2)
