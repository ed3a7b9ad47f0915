"""The prover: is a transformed kernel the same computation as the lifted one?

`verdict`    Verdict, Limits (light); `prove.prove(source, target, limits)` loads islpy
`barriers`   places barriers; the prover then checks them
`instances`  statements with their instances
`model`      who executes which statement instance when, on which cells (`geometry`, `cells`)
`finding`    what is known of searches in nondecreasing arrays
`analysis`   a model and its conflicts, shared by placing and proving
`asynchronous`  when copies that are only started have happened
`exponentials`  where the exponentials of running sums are evaluated, for `online`
`conflicts`  accesses that meet in a cell, and which of them barriers order
`flow`       who wrote the value that is read (times are as short as `schedule` makes them, and
             `last_writers` searches); `congruence` what of the source computes the same
`memory`     what was found out before, by content
`pairing`    a statement's expression beside its origin's; `producers` what is computed again instead of read
`order`      one chain of roundings for each sum, as `exact` asks
`placement`  the check `layout`: cells of a tile have places of their own
`proof`      what all checks share; `witness` and `repairs` put findings into words

The checks, in the order in which `prove` runs them: `limits`, `layout`, `uniform`, `bounds`, `equality`,
`races` (with `vector`), `online`, `coverage`, `value_flow`. Each has its own codes, and a test with a wrong
program that only it refuses.
"""
