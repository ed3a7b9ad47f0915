"""Transforms: one statement of a program applied to a kernel, IR in and IR out.

A family module holds the primitives of one kind, each a function registered by its name in `dsl_spec/`;
it checks a cheap local precondition and leaves it to `evolve.legality` whether the result is right.

`loops`       split, tile, reorder
`iteration`   shift, skew, collapse, peel
`nests`       jam, distribute
`mapping`     bind, launch_bounds, unroll, vectorize
`memory`      stage, accumulate_in_register; `window` finds the part of a buffer to stage
`layouts`     set_layout
`turns`       serpentine
`hints`       cache_hint; `prefetch` prefetch
`resources`   carveout, max_registers
`overlap`     multi_buffer, make_async, pipeline
`writes`      cache_write
`reductions`  warp_reduce, block_reduce, split_reduction
`grids`       grid_reduce, persistent
`scans`       scan
`balance`     balance
`online`      online
`reuse`       reuse
`recompute`   inline, compute_at; `producers` who writes an element
`private`     atomic, aggregate, privatize
`precision`   set_precision
`knowledge`   specialize, assume
`apply`       a statement, or a program, applied
`moves`       the statements whose preconditions hold next; which to try a primitive's description says, by
              rules that `domains` reads off the kernel (`view`); dependences seen at a glance (`order`)
              are not offered to be broken
`fits`        limits of a block, which must stay met: by what a statement says that it takes (`call`), else by
              its result, looked at where it `changes` a `launched` kernel (`taken`; `ownership` of registers)
`patterns`    statements that stand for programs; `shapes` what they ask of a kernel
`call`        arguments resolved against a kernel, and the table of primitives
`names`       what a program's names mean; `edit` finding, replacing, tidying; `rewriting` uses of a buffer;
              `places` where a copy may stand; `once` memoization by kernel
"""
