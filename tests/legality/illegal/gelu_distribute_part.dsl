# kernel: gelu
# code: E-OWNER
# wrong at: count=3
stage(in, at=idx, scope=register)
split(idx, 4)
distribute(idx.i)
bind(idx.i.0, thread.x)
