# kernel: gather
# code: E-AXIS
# not run: one axis has one index
split(i, 64)
split(i.i, 8)
bind(i.o, grid.x)
bind(i.i.o, thread.x)
bind(i.i.i, thread.x)
