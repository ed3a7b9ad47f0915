"""The speed of light: how fast a kernel could run at all, and where a variant loses against it.

`cost`      what one operation of each class takes from each pipe
`ceilings`  rates that can be reached, from measurements or stated fractions of the peaks
`bound`     hard and attainable bounds
`gap`       a variant's time split into causes, each with the primitives that address it
"""
