# kernel: layernorm
# code: E-JAM-APART
# not run: a transform refuses it: there is no result to run
split([c, c_2], 2)
jam(c.o, c_2.o)
