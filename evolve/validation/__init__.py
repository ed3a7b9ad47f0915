"""Translation validation: the emitted CUDA text is read back and compared with the kernel that was proved.

Nothing here knows how the text was made: it imports no module of `codegen` that writes text.

`text`       the tree of a kernel's text; `declarations` what clang must know of CUDA; `read` makes the tree,
             `types` its types;
             `forms` forms of C that say one thing; `instructions` what is left to the preprocessor
`polynomial` index expressions in one form; `formula` conditions over them; `context` what holds at a place
`widths`     that arithmetic fits its types
`effects`    only statements have any
`meaning`    the text's and the kernel's index expressions and conditions as such forms
`values`     expressions over data, compared; `elements` of arrays, `places` of local ones
`items`      the kernel as one thread runs it; `upcoming` what comes next of it; `walk` both in step;
             `state` names, and which buffer each stands for; `statements` what one line does
`lanes`      vector loops, statement by statement; `coordinates` of the lanes of a warp
`collectives` combine loops and scans; `helpers` what device functions do, by running them; `reuse` of the
             memory that they are given
`verdict`    PROVED, REFUTED, UNKNOWN; `validate` a module: start here
"""
