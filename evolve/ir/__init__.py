"""The intermediate representation: what a kernel computes, as loops over multi-dimensional buffers.

`types`    scalar types, memory spaces, loop kinds, reduction monoids
`expr`     expressions
`stmt`     statements and source spans
`kernel`   buffers, kernels, modules and their guarded variants
`launches` a kernel of several launches taken apart, and scratch memory between them
`visit`    walking and rewriting
`data`     integers that are read from memory as indices
`affine`   simplification of index expressions under loop ranges
`effects`  what a statement reads and writes: the only source of access information
`lanes`    alignment and conditions of the lanes of a vector
`layout`   where an element of a local buffer is: its thread and slot, or its place in shared memory;
           `owners` an example of one that another thread holds
`swizzle`  columns of a shared tile that trade places from row to row
`settled`  a kernel under facts about parameters that are no sizes
`flags`    arrays that a kernel touches under a condition on parameters only
`ordered`  sums and products that round; `approximate` functions that approximate others; `narrow` copies
           in bfloat16
`scaled`   sums of exponentials kept relative to a maximum that still grows
`poly`     the isl view, derived on demand
`evaluate` an expression at given scalars; `math` functions; `scope` what is known at a place
`memo`     what is found of a tree, remembered by object
`printer`, `verify`, `errors`
"""
