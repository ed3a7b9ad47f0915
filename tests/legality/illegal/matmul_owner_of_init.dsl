# kernel: matmul
# code: E-OWNER
# wrong at: M=4, N=4, K=4
split(j, 3)
distribute(j.i)
bind(j.i.0, thread.x)
