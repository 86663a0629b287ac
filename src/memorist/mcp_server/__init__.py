"""
Memorist for agents, over the Model Context Protocol.

`tools` lists the tools, `schemas` the shapes of their answers; `server` joins them to the protocol's SDK, `stdio` and
`http` are its transports. None of these loads the engine: `opener` does that after the handshake, in the background.
`calls`, `answers` and `resources` need the engine, so they are imported with the first call.
"""
