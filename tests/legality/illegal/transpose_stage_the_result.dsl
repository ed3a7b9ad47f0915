# kernel: transpose
# code: E-STAGE-WRITTEN
# not run: a transform refuses it: there is no result to run
stage(y, at=i, scope=shared)
