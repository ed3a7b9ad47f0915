# kernel: column_sum
# code: E-OWNER
# wrong at: rows=1, cols=1
split(col, 3)
distribute(col.i)
bind(col.i.0, thread.x)
