"""The agent that asks a language model.

`agent`  the conversation: programs asked for, refused ones sent back once with the reason
`view`   what the model is shown of a search, as the values of the templates
`open`   an agent from a run's settings, tried before anything else is done
"""
