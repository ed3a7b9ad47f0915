# kernel: softmax
# code: E-REDUCTION
# wrong at: rows=1, cols=3
jam(c_2, c_3)
