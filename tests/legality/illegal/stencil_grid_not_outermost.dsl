# kernel: stencil
# code: E-GRID-NEST
# not run: a transform refuses it: there is no result to run
tile([i, j], [8, 8])
bind(j.i, grid.x)
