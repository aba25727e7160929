"""The provider wires, free of I/O: history items to bytes, bytes to a request body, server-sent events to a reply."""
