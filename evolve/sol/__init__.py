"""The speed of light: how fast a kernel could run at all, and where a variant loses against it.

`cost`       what one operation of each class takes from each pipe
`ceilings`   rates that can be reached, from measurements or stated fractions of the peaks
`hierarchy`  traffic that a matrix product cannot avoid between the levels of memory
`bound`      hard and attainable bounds
`breakdown`  a variant's time and how the GPU's units share it
`evidence`   facts of machine code and trace that tell causes apart
`counters`   what the GPU itself counted, instead of the model's facts
`causes`     how the time lost divides into reasons, each with the primitives that address it
`gap`        the report: headline, causes, text
`wording`    the numbers behind a cause; `units` quantities in words
"""
