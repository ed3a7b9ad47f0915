# kernel: cumsum
# code: E-LOOP-KIND
# not run: a transform refuses it: there is no result to run
specialize(cols == 8)
scan(c)
scan(c)
