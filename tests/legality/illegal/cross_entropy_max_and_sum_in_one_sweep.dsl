# kernel: cross_entropy
# code: E-REDUCTION
# not run: enumeration has no values for subscripts read from memory

bind(r, grid.x)
jam(c, c_2)
