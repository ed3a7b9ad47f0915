# kernel: softmax
# code: E-LOOP-KIND
# not run: a transform refuses it: there is no result to run
bind(row, grid.x)
bind(row, grid.y)
