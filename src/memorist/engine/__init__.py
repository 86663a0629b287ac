"""
The engine: every stage composed into the calls that users and surfaces make.

`Memorist` documents each method; the component it delegates to implements it, often under the same name.
"""

from memorist.engine.facade import Memorist
from memorist.engine.opening import open_memory
from memorist.engine.transfer import restore_backup

__all__ = ["Memorist", "open_memory", "restore_backup"]
