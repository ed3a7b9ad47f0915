# kernel: rope
# code: E-VECTOR-TAIL
# not run: a vector of the lifted form is a loop, which is right

bind(token, grid.x)
split(d, 32)
split(d.i, 4)
bind(d.i.o, thread.x)
vectorize(d.i.i, 4)
