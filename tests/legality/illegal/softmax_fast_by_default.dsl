# kernel: softmax
# code: E-NUMERICS
# not run: right up to the errors of the approximate functions, which only `fast` allows
set_precision(y, fast)
