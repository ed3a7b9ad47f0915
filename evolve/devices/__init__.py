"""Where candidates run, and how long they take.

`sim`          executes emitted CUDA text on the CPU, under checks
`cuda`         runs it on a GPU; `calibration` measures one
`compare`      one rule for right and wrong on every device
`estimate`     the time of a launch on a GPU that is not there, of these parts:
`sampled`      which blocks are traced, and traces of smaller sizes extended
`traffic`      what a block does to memory, from a trace; `compiled` as the machine code asks for it
`cache`        which level of the memory serves it
`trips`        how often the parts of the machine code run; `counted` where it says so itself
`atomics`      what updates of global memory take
`work`         checked against the arithmetic that is needed
`chain`        how long one warp takes alone
`grounds`      what an estimate for a GPU rests on
"""
