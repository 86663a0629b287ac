"""Recollect itself: every stage composed into the calls that users and surfaces make."""

from recollect.engine.carrying import restore_backup
from recollect.engine.opening import Recollect, default_path, nothing_at, open_memory

__all__ = ["Recollect", "default_path", "nothing_at", "open_memory", "restore_backup"]
