# kernel: vecadd
# code: E-OWNER
# wrong at: n=3
split(i, 4)
bs = stage(b, at=i.o, scope=register)
bind(bs.0, thread.x)
