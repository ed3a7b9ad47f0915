"""CUDA C++ to IR.

`clang`       libclang: parsing with our own stub headers, operator kinds, literal values
`locate`      kernels, launches and comment blocks of a file
`ctree`       a small typed C tree; `read` builds it from libclang's cursors
`polynomial`  integer polynomials over loop variables and scalars; `prove` bounds them
`execute`     symbolic execution of one thread into loops over flat addresses
`domain`      thread indices and guards become parallel loops
`addresses`   flat addresses become multi-dimensional subscripts, with proof
`original`    the file's device code, without host code
`lift`        all of it together
"""
