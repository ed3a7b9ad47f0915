# kernel: gather
# code: E-WINDOW
# not run: which elements to copy, memory says
split(i, 64)
bind(i.o, grid.x)
stage(x, at=i.i, scope=register)
