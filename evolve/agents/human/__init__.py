"""The agent that asks a person: the prompt that a model would get, programs from standard input.

`agent`   the conversation
`reader`  answers from a stream, without waiting for it
"""
