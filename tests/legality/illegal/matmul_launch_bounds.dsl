# kernel: matmul
# code: E-THREADS
# not run: no launch takes so many threads
tile([i, j], [16, 16])
bind(i.o, grid.y)
bind(j.o, grid.x)
bind(i.i, thread.y)
bind(j.i, thread.x)
launch_bounds(128)
