"""
Install: the config files of agents' clients.

Decisions and their reasons:

- A client's config is edited in its text, and read again before it is written. It is the user's own file: comments,
  order and spacing are theirs.
"""
