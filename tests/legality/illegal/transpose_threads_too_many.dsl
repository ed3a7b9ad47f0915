# kernel: transpose
# code: E-THREADS
# not run: no launch takes so many threads
tile([i, j], [64, 64])
bind(i.i, thread.y)
bind(j.i, thread.x)
