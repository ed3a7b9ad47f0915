block, t = split(i, 1024)
bind(block, grid.x)
bind(t, thread.x)
aggregate(hist, warp)
