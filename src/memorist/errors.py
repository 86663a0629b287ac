"""
The error tree: everything that Memorist raises on purpose.

* MemoristError
  + NotFound               no memory has that id
  + Ambiguous              several memories match that part of an id
  + InvalidInput           an argument cannot be used; nothing was written
    - AlreadyExists        the name is taken
  + ChangedMeanwhile       a memory or file is no longer what the caller has seen
  + StoreError             the database refused an operation
    - StoreBusy            another process held the write lock for too long
    - StoreCorrupt         the file is not a sound Memorist database
    - SearchTimeout        a search took longer than it may
  + EmbedderError          a model failed to turn text into vectors
    - EmbedderUnavailable  the model is missing, or cannot be reached
  + ChatError              a language model gave no answer
  + MissingExtra           an optional dependency is not installed
  + ConfigError            a setting cannot be used

Every message is fit for a user: what happened, why, and what to do. Where what to do depends on the surface (a command
to type, a tool to call), the error carries a `Hint`, and the surface adds it in its own words.
"""

from typing import NamedTuple


class Hint(NamedTuple):
    """An action that helps, such as "restore_memory", and the id or path it is for."""

    action: str
    subject: str = ""


class MemoristError(Exception):
    """Base of all errors raised on purpose; its message is fit for a user."""

    def __init__(self, message: str = "", *, hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NotFound(MemoristError):
    """No memory has that id."""


class Ambiguous(MemoristError):
    """Several memories match that part of an id."""


class InvalidInput(MemoristError):
    """An argument cannot be used; nothing was written."""


class AlreadyExists(InvalidInput):
    """The name is taken; nothing was written."""


class ChangedMeanwhile(MemoristError):
    """A memory or file is no longer what the caller has seen; nothing was written."""


class StoreError(MemoristError):
    """The database refused an operation."""


class StoreBusy(StoreError):
    """Another process held the write lock for longer than the configured wait."""


class StoreCorrupt(StoreError):
    """The file is not a sound Memorist database."""


class SearchTimeout(StoreError):
    """A search took longer than `search_timeout`, or its caller cancelled it."""


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


def find_hint(error: BaseException | None) -> Hint | None:
    """Return the hint of an error, or of an error it was raised from."""
    seen: list[BaseException] = []  # an error may have been raised from itself
    while error is not None and error not in seen:
        if isinstance(error, MemoristError) and error.hint is not None:
            return error.hint
        seen.append(error)
        error = error.__cause__
    return None
