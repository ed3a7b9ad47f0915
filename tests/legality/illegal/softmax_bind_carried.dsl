# kernel: softmax
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run
specialize(cols == 8)
bind(c, thread.x)
