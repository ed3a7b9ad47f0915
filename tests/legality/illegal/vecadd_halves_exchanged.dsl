# kernel: vecadd
# code: E-OWNER
# wrong at: n=3
split(i, 4)
bs = stage(b, at=i.o, scope=register)
split([bs.0, i.i], 2)
bind(bs.0.o, thread.x)
bind(i.i.i, thread.x)
