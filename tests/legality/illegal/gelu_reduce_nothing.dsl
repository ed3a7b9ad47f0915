# kernel: gelu
# code: E-EXTENT
# not run: a transform refuses it: there is no result to run
warp_reduce(idx)
