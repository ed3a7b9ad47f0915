# kernel: transpose
# code: E-OWNER
# wrong at: rows=1, cols=3
split(j, 4)
t = stage(x, at=j.o, scope=register)
bind(t.1, thread.x)
bind(j.i, thread.y)
