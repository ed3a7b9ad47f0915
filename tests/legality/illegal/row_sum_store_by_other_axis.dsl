# kernel: row_sum
# code: E-OWNER
# wrong at: rows=4, cols=1
specialize(rows == 4)
distribute(r)
bind([r.0, r.1], thread.x)
bind(r.2, thread.y)
