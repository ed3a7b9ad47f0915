# kernel: stencil3x3
# code: E-CARRIED
# not run: a transform refuses it: there is no result to run
bind(i, grid.x)
bind(a, thread.x)
