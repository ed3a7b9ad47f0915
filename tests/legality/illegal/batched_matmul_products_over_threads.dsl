# kernel: batched_matmul
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run

specialize(k == 4)
bind(b, grid.z)
bind(row, grid.y)
bind(col, grid.x)
bind(l, thread.x)
