"""What people see; `evolve.runs` has the data.

`display`  progress on standard error: plain lines, or `live` on a terminal; `progress` is its state
`table`    the final table
`story`    the text of `evolve show`
`outline`  JSON data as an indented list; `units` numbers, and text made harmless for a terminal
"""
