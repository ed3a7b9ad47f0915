# kernel: row_sum
# code: E-OWNER
# wrong at: rows=1, cols=1
split(r, 3)
distribute(r.i)
bind(r.i.0, thread.x)
