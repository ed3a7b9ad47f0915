"""Modules to CUDA text, and to the float64 reference.

`module`     a module as one text: `render`; one kernel alone: `render_kernel`
`rendered`   what comes out, and `concretise`: which variant runs at given sizes, with which launches
`launch`     launches in numbers: the seam to the devices
`prepare`    rewrites before emission: `tiles` (whole tiles apart from partial ones), `hoist` (guards)
`emit`       one kernel: statements; `emit_vector` wide accesses; `emit_combine` and `collectives`
             shuffles and block reductions; `access` and `ctext` expressions; `geometry` grid and block;
             `threads` their coordinates; `shared` where shared arrays lie; `signature` the head;
             `emit_aggregate` updates of lanes together; `place` what is around a statement
`runs`       entries that one thread adds to their segments; `segments` the device functions behind them
`rounding`   which arrays the order of threads rounds
`floors`     floor division as C computes it
`hinted`     accesses with hints to the caches; `prefetched` requests to L2; `asynchronous` copies that are
             only started; `bfloat16` its rounding
`sizes`      how large index arithmetic gets: the launch guards
`vectors`    independence of lanes
`limits`     what is refused before a compiler sees it
`original`   the user's kernel; `launcher` a host function over all variants
`reference`  the float64 reference with error bounds, for the host; `reference_cuda` for a GPU;
             `reference_whole` integers that come from floats; `reference_model`, `reference_runtime`
`conditions` what must hold for a variant to run, and why; `heading` the comment over a kernel;
             `remarks` comments over its loops; `bases` names for sums of coordinates
`ctree`      lines of C; `wrap` breaks long ones; `names` identifiers; `prelude` constants; `errors`
"""
