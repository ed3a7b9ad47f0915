# kernel: conv1d
# code: E-OWNER
# not run: instance by instance there are no owners

specialize(taps == 5)
bind(b, grid.y)
split(t, 32)
bind(t.o, grid.x)
s = stage(signal, at=t.o, scope=register)
bind([s.1, t.i], thread.x)
