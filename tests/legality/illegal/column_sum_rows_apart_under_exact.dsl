# kernel: column_sum
# code: E-ORDER
# numerics: exact
# not run: the same but for roundings
split(row, 2)
split_reduction(row.i)
