"""What a kernel is run on: sizes, argument roles, launch, input families, numerics contract.

`model`     the frozen Workload
`sizes`     size expressions: text, evaluation
`toml`      the file form, checked by pydantic; `wording` says what is wrong in it
`infer`     a workload for a kernel that came with none; `gates` conditions on its sizes,
            `pitches` sizes that only space out rows, `implied` lengths that no parameter has
`validate`  whether a workload fits a kernel
`resolve`   inferred, then the file's comment or `--workload`, then validated
`inputs`    seeded arrays of each family; `decisions` whether NaNs and infinities belong to them
`structure` index arrays: the same in each, drawn and checked as a values clause says
`shapes`    the sizes at which a guarded variant is checked; `parameters` the flags, modes and factors
            there
"""
