"""
The HTTP API and the page where people look at what is remembered.

Several processes may serve one port. So a request keeps nothing in the memory of its process that a later one needs:
tokens and cookies are signed, a cookie that was ended is in a file of the user, one-time keys and the answers of
idempotency keys are in a folder that lasts as long as the server, and events are read from the database.
"""
