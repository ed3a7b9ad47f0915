# kernel: row_sum
# code: E-AXIS
# not run: a transform refuses it: there is no result to run
specialize(cols == 8)
split(c, 4)
warp_reduce(c.i)
warp_reduce(c.o)
