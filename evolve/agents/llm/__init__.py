"""The agent that asks a language model.

`agent`  the conversation: programs asked for, refused ones sent back once with the reason
`steps`  another: a program made statement by statement, of `families` of next moves
`hold`   holding answers to a grammar or a schema, where a server can
`question`  its messages, no longer than the model's context allows
`tiers`  how much is told, by the size of the context, and what is left out first
`view`   what the model is shown of a search, as the values of the templates; `lines` its pieces
`open`   an agent from a run's settings, tried before anything else is done
"""
