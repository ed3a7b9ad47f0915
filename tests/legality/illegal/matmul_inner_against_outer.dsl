# kernel: matmul
# code: E-OWNER
# wrong at: M=4, N=4, K=4
specialize(M % 4 == 0 and N % 4 == 0)
tile([i, j], [4, 4])
bind(i.o, grid.y)
bind(j.o, grid.x)
distribute([i.i, j.i])
split([j.i.0, j.i.1, j.i.2], 2)
bind([j.i.0.o, j.i.1.o, j.i.2.i], thread.x)
