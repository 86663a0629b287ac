"""Recollect itself: every stage composed into the calls that users and surfaces make."""

from recollect.engine.carrying import restore_backup
from recollect.engine.opening import Recollect, open_memory

__all__ = ["Recollect", "open_memory", "restore_backup"]
