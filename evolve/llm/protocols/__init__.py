"""How models are asked, for the courier alone: a module a client library, imported when it is needed.

`reply`         what comes of a request, as the courier tells it
`looking`       pages of a server that tell of itself
`openai_chat`   OpenAI's chat protocol, which servers of one's own speak too; `anthropic_messages`; all
                others `through_litellm`
`prices`        what an answer cost and how long it may be, where a table says that
"""
