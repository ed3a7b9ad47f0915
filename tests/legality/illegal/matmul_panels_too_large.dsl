# kernel: matmul
# code: E-WINDOW
# not run: a transform refuses it: there is no result to run
tile([i, j], [128, 128])
split(k, 128)
reorder([k.o, k.i])
stage(A, at=i.o, scope=shared)
