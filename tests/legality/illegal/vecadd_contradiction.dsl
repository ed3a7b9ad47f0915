# kernel: vecadd
# code: E-CONTRADICTION
# not run: a transform refuses it: there is no result to run
specialize(n == 8)
specialize(n == 16)
