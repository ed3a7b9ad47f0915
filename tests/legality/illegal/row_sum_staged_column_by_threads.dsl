# kernel: row_sum
# code: E-OWNER
# wrong at: rows=1, cols=1
split(c, 3)
stage(in, at=c.o, scope=register)
bind(in_s.1, thread.y)
