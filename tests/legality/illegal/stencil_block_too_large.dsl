# kernel: stencil
# code: E-THREADS
# not run: no launch takes so many threads
tile([i, j], [64, 32])
bind(i.i, thread.y)
bind(j.i, thread.x)
