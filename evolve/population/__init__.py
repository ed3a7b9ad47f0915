"""The population. Pure functions over frozen data.

`archive`     islands of elites by cell; selection and migration
`descriptor`  the cell of a program: which primitives it uses, in which scopes
`lineage`     who descends from whom
`rng`         random streams that are a function of (seed, purpose, number)
"""
