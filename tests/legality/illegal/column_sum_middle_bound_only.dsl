# kernel: column_sum
# code: E-REDUCTION
# wrong at: rows=1, cols=8
specialize(cols == 8)
distribute(col)
bind(col.1, thread.x)
