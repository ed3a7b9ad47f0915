# kernel: softmax
# code: E-JAM-APART
# not run: a transform refuses it: there is no result to run
jam(c, c_3)
