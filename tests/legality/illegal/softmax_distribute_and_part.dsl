# kernel: softmax
# code: E-OWNER
# wrong at: rows=4, cols=1
specialize(rows == 4)
distribute(row)
bind(row.0, thread.x)
