"""How models are asked, for the courier alone: a module a client library, imported when it is needed.

`reply`         what comes of a request, as the courier tells it
`openai_chat`   OpenAI's chat protocol, which servers of one's own speak too
"""
