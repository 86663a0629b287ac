"""
Memorist for agents, over the Model Context Protocol.

`tools` what is offered, `outputs` the shape of its answers; `server` puts them together, `stdio` and `http` carry them.
None of these loads the engine: `opening` does, after the handshake. `calls`, `answers` and `resources` come with it.
"""
