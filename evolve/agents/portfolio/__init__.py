"""Several agents, and several models of one, in a run.

`arms`    who they are, from a run's settings
`bandit`  who is asked next: gain per cost
`agent`   the agents of a run by the names of their arms
"""
