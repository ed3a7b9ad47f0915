# kernel: vecadd
# code: E-THREADS
# not run: a transform refuses it: there is no result to run
split(i, 2048)
bind(i.i, thread.x)
