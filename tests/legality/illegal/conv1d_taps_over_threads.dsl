# kernel: conv1d
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run

specialize(taps == 4)
bind(b, grid.y)
bind(t, grid.x)
bind(k, thread.x)
