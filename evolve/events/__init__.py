"""The event log: schema, writer, reader, blobs."""
