# kernel: row_sum
# code: E-ORDER
# numerics: exact
# not run: the same but for roundings
bind(r, grid.x)
split(c, 32)
warp_reduce(c.i)
