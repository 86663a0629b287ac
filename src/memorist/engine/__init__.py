"""The engine: every stage composed into the calls that users and surfaces make."""

from memorist.engine.memorist import Memorist
from memorist.engine.opening import open_memory
from memorist.engine.transfer import restore_backup

__all__ = ["Memorist", "open_memory", "restore_backup"]
