# kernel: softmax
# code: E-NAME
# not run: a transform refuses it: there is no result to run
bind(r, grid.x)
