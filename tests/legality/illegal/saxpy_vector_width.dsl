# kernel: saxpy
# code: E-VECTOR-WIDTH
# not run: a transform refuses it: there is no result to run
vectorize(i, 3)
