"""The transform language.

`registry`    the primitives, read from `dsl_spec/`: signatures, meanings, codes of refusals
`parser`      text to a checked `Program`, by the grammar in `dsl_spec/` (`simple`: most statements need none)
`program`     programs as data, and their canonical text
`reference`   the language as text, `schema` programs as JSON, `grammar` as GBNF: all made from the registry
`diagnostic`  why a program was refused: one type for parser, transforms and prover
"""
