# kernel: layernorm
# code: E-WINDOW
# not run: a transform refuses it: there is no result to run
stage(gamma, at=r, scope=register)
