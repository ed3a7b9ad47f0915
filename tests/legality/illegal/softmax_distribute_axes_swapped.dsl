# kernel: softmax
# code: E-OWNER
# wrong at: rows=4, cols=1
specialize(rows == 4)
distribute(row)
bind([row.0, row.1, row.2, row.3], thread.x)
bind(row.4, thread.y)
