"""Runs: the folder, a session of the search over it, and folds over its events.

`session`  start, resume, replay
`examination`  whether the best program of a measured run is to be examined
`folder`   what lies in a run's folder, and finding a run by id or path
`summary`  the document of `run --json`; `story` that of `show --json`; `evidence` what a result rests on
`arms`          what part each agent and model had
`conversation`  what was said to a model, what it cost, and reading its answers again
`version`  of the installed package
"""
