# kernel: column_sum
# code: E-OWNER
# wrong at: rows=1, cols=8
specialize(cols == 8)
distribute(col)
bind([col.0, col.1], thread.x)
bind(col.2, thread.y)
