# kernel: column_sum
# code: E-GRID-NEST
# not run: a transform refuses it: there is no result to run
bind(row, grid.y)
