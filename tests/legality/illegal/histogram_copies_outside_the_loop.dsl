# kernel: histogram
# code: E-COPIES
# not run: a transform refuses it: there is no result to run
split(i, 64)
split(i.i, 8)
privatize(hist, at=i.i.o, copies=i.i.o)
