# kernel: matmul
# code: E-ORDER
# numerics: exact
# not run: the same but for roundings
split(k, 8)
reorder([k.i, k.o])
