"""What people see; `evolve.runs` has the data.

`display`  progress on standard error: plain lines, or `live` on a terminal; `progress` is its state
`table`    the final table
`evidence` what a result rests on; `examined` what became of the best program after the search
`story`    the text of `evolve show`; `figures` a candidate's figures in it
`arms`      the part that each agent and model had
`conversation`  what was said to a model, and what it cost
`timing`   how a time was measured
`inspected` a kernel as the tool sees it; `units` numbers, and text made harmless for a terminal
"""
