# kernel: matmul
# code: E-OWNER
# wrong at: M=4, N=4, K=4
split(k, 2)
split(j, 4)
ra = stage(B, at=k.o, scope=register)
bind(ra.0, thread.y)
