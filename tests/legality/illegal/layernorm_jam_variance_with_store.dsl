# kernel: layernorm
# code: E-JAM-APART
# not run: a transform refuses it: there is no result to run
jam(c_2, c_3)
