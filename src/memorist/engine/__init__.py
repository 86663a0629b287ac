"""Memorist itself: every stage composed into the calls that users and surfaces make."""

from memorist.engine.carrying import restore_backup
from memorist.engine.opening import Memorist, open_memory

__all__ = ["Memorist", "open_memory", "restore_backup"]
