"""
Memorist for agents, over the Model Context Protocol.

`tools` lists the tools; `server` joins them to the protocol's SDK, over standard input and output or, with `http`, over
HTTP. None of these loads the engine before the handshake. `calls` and `answers` need it, so they are imported with the
first call.
"""
