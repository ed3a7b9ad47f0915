# kernel: blur
# code: E-OWNER
# wrong at: strips=1, cols=1
split(r_2, 28)
w = compute_at(h, at=r_2.o)
bind(w.0, thread.x)
bind(r_2.i, thread.x)
