# kernel: softmax
# code: E-ORDER
# numerics: exact
# not run: the same but for roundings
online(c, c_2)
