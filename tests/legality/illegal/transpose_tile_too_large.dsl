# kernel: transpose
# code: E-SHARED-SIZE
# not run: no block has so much shared memory
tile([i, j], [128, 128])
t = stage(x, at=j.o, scope=shared)
