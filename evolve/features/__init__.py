"""What can be seen of a kernel before it runs: traffic it cannot avoid, arithmetic, strides, loop structure.

`model`       the result types
`domain`      the iteration domain of a statement at given sizes
`footprint`   which elements an access touches, without enumerating them
`enumerate`   iterations and elements counted on an input, where index arrays decide
`lattice`     points of a box under linear constraints
`product`     whether it is a matrix product in the wide sense
`arithmetic`  operations by class, after value numbering and hoisting
`access`      strides of accesses over the loops around them
`extract`     all of it: `extract(kernel, scalars) -> Features`
"""
