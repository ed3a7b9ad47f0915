"""The event log of a run, from which everything else about it is computed.

`schema`  one frozen model for each kind of event, with the version and what a reader may rely on
`log`     `events.jsonl`: one writer, append-only, lines chained by hashes; a torn last line is cut off
`blobs`   large texts beside it, by content hash
`disk`    writing without ever leaving half a file
"""
