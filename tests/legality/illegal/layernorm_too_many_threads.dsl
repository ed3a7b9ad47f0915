# kernel: layernorm
# code: E-THREADS
# not run: a transform refuses it: there is no result to run
specialize(cols == 4096)
bind(r, grid.x)
bind(c_3, thread.x)
