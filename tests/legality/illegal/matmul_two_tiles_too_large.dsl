# kernel: matmul
# code: E-WINDOW
# not run: a transform refuses it: there is no result to run
tile([i, j], [64, 64])
bind(i.o, grid.y)
bind(j.o, grid.x)
split(k, 128)
a = stage(A, at=j.i, scope=shared)
