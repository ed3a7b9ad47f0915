# kernel: row_sum
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run
split(c, 4)
bind(c.i, thread.x)
