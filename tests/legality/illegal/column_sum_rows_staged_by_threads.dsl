# kernel: column_sum
# code: E-OWNER
# wrong at: rows=1, cols=1
split(row, 3)
stage(matrix, at=row.o, scope=register)
bind(matrix_s.0, thread.y)
