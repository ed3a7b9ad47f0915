"""What a kernel is run on: sizes, array roles, input families, numerics contract.

`model`   the workload and its TOML form
`infer`   a workload for a kernel that came with none
`shapes`  sizes that make a guarded variant run, and sizes one step outside its guard
`inputs`  seeded arrays
"""
