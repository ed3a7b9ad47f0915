# kernel: softmax
# code: E-VECTOR-TAIL
# not run: a transform refuses it: there is no result to run
vectorize(c_3, 4)
