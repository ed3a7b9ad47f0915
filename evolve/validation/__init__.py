"""Translation validation: the emitted CUDA text is read back and compared with the kernel that was proved.

Nothing here knows how the text was made: it imports no module of `codegen` that writes text.

`text`       the tree of a kernel's text, `parts` what is in it; `read` makes the tree, `types` its types;
             `declarations` what clang must know of CUDA;
             `forms` forms of C that say one thing; `instructions` what is left to the preprocessor
`polynomial` index expressions in one form; `formula` conditions over them; `context` what holds at a place
`widths`     that arithmetic fits its types
`effects`    only statements have any
`meaning`    the text's and the kernel's index expressions and conditions as such forms
`values`     expressions over data, compared; `elements` of arrays, `places` of local ones
`items`      the kernel as one thread runs it; `upcoming` what comes next of it; `walk` both in step;
             `state` names, and which buffer each stands for; `statements` what one line does
`lanes`      vector loops, statement by statement; `coordinates` of the lanes of a warp
`collectives` combine loops and scans, by calls of functions; `combining` what these do, found by running
             them in `lockstep` on `contributions`, with their `scratch` memory; `reuse` of that memory;
             `integers` of C; `remembered` what was found of a function
`updates`    by lanes together: `peers` those of one cell, `neighbours` those of one cell in order
`runs`       consecutive entries gathered before their segments are updated; `gathering` by a function,
             `finding` what it searches with: both `searching` an array, executed symbolically, `ordered` what
             follows from its order, `difference_bounds` from constraints of differences
`launching`  what picks a variant and launches it: `host` the function's tree, `guards` its conditions,
             `host_sizes` its arithmetic in 64 bits
`witness`    numbers at which two sides differ, without which nothing that is computed is refuted;
             `evaluation` in plain integers
`verdict`    PROVED, REFUTED, UNKNOWN; `validate` a module: start here
"""
