# kernel: column_sum
# code: E-SHARED-SIZE
# not run: no block has so much shared memory
specialize(rows == 1024)
split(col, 32)
stage(matrix, at=col.o, scope=shared)
