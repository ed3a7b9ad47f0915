"""Language models: asking one, and reading what it says.

`model`     what `--model` and `--api-base` name
`keys`      keys leave this process before it has a child
`courier`   the process that holds the key and speaks OpenAI's chat protocol; `client` this end of its pipe
`request`   what is asked, what is answered; `protocols` how each client library is used
`faults`    what can go wrong with a request; `patience` which of it is tried again, and when a model is left
            alone
`probe`     what a server can do, found out before a run: tokens, grammar, schema; `served` what it says of
            itself: models, context
`answers`   lenient reading: prose, fences, JSON or plain lines in, programs out
`effects`   the factor that a model expects a program to bring, and what came of it
`window`    how many tokens a text has, and what fits a context
`prompts`   the templates of `prompts/`
"""
