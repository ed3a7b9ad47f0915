"""CUDA C++ to IR.

`clang`       libclang: parsing with our own stub headers, operator kinds, literal values
`includes`    headers beside the file, written into its text
`locate`      kernels, launches and comment blocks of a file
`ctree`       a small typed C tree; `read` builds it from libclang's cursors
`steps`       assignments inside expressions become statements
`polynomial`  integer polynomials over loop variables and scalars; `prove` bounds them
`values`      what a C expression is worth: integers, data, pointers, choices between them
`operations`  C's operators on them; `library` the functions
`indices`     integers that are read from memory, as subscripts and loop bounds
`variables`   a thread's variables; `expressions`, `loops`, `updates` on top of them
`execute`     symbolic execution of one thread into loops over flat addresses
`scalars`     sizes apart from data among the integer parameters
`sweeps`      grid-stride loops: their variables take the place of thread indices
`lanes`       loops that the threads of a block share become plain loops
`tidy`        index arithmetic simplified, conditions decided
`geometry`    the launch: read off, or made to cover the domain
`domain`      thread indices and guards become parallel loops
`premises`    what index arrays must hold, and lengths that no parameter has; `asked` by some themselves
`settle`      integer arithmetic does not wrap around, or only outside stated facts
`addresses`   flat addresses become multi-dimensional subscripts, with proof; `lengths` how far they go,
              asked of isl in `words`, conditions on memory by `asking`
`finish`      names, statement identities
`host`        host code around a launch: its grid and block
`strides`     the block that a kernel's loops speak of, where no launch is known
`original`    the file's device code without host code
`lift`        all of it together
"""
