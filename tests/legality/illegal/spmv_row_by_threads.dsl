# kernel: spmv
# code: E-EXTENT
# not run: a block of as many threads as a row has elements differs from row to row
bind(row, grid.x)
bind(k, thread.x)
