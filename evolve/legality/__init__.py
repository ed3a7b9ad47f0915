"""The prover: is a transformed kernel the same computation as the lifted one?

`verdict`   Verdict, Limits (light); `prove.prove(source, target, limits)` loads islpy
`barriers`  places barriers; the prover then checks them
`model`     who executes which statement instance when, on which cells
`flow`      who wrote the value that is read
One module a check: `limits`, `bounds`, `coverage`, `equality`, `races`, `uniform`, `value_flow`.
"""
