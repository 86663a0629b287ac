"""
The error tree: everything that Memorist raises on purpose.

* MemoristError
  + NotFound               no memory has that id
  + Ambiguous              several memories match that part of an id
  + InvalidInput           an argument cannot be used; nothing was written
    - AlreadyExists        the name is taken
  + StoreError             the database refused an operation
    - StoreBusy            another process held the write lock for too long
    - StoreCorrupt         the file is not a sound Memorist database
  + EmbedderError          a model failed to turn text into vectors
    - EmbedderUnavailable  the model is missing, or cannot be reached
  + ChatError              a language model gave no answer
  + MissingExtra           an optional dependency is not installed
  + ConfigError            a setting cannot be used

Every message is fit for a user: what happened, why, and what to do.
"""


class MemoristError(Exception):
    """Base of all we raise on purpose; its message is fit for a user."""


class NotFound(MemoristError):
    """No memory has that id."""


class Ambiguous(MemoristError):
    """Several memories match that part of an id."""


class InvalidInput(MemoristError):
    """An argument cannot be used; nothing was written."""


class AlreadyExists(InvalidInput):
    """The name is taken; nothing was written."""


class StoreError(MemoristError):
    """The database refused an operation."""


class StoreBusy(StoreError):
    """Another process held the write lock for longer than the configured wait."""


class StoreCorrupt(StoreError):
    """The file is not a sound Memorist database."""


class EmbedderError(MemoristError):
    """A model failed to turn text into vectors."""


class EmbedderUnavailable(EmbedderError):
    """The model is missing, or cannot be reached."""


class ChatError(MemoristError):
    """A language model gave no answer: it could not be reached, refused, or broke off."""


class MissingExtra(MemoristError):
    """An optional dependency is not installed."""


class ConfigError(MemoristError):
    """A setting cannot be used."""
