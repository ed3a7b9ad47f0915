# kernel: row_sum
# code: E-BARRIER
# not run: threads wait for one another: the judge of instances does not model a hang
split(r, 4)
bind(r.o, grid.x)
bind(r.i, thread.y)
specialize(cols == 8)
warp_reduce(c)
