# kernel: matmul
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run
split(k, 8)
bind(k.i, thread.x)
