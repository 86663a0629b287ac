"""Recollect: the memory an AI agent can trust. One SQLite file, found by word and by meaning, offline."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.documents import Document, DocumentHit, DocumentLink, File, ImportReport, IndexReport
    from recollect.engine import Recollect, restore_backup
    from recollect.engine import open_memory as open
    from recollect.errors import (
        AlreadyThere,
        Ambiguous,
        ChatError,
        ConfigError,
        EmbedderError,
        EmbedderUnavailable,
        InvalidInput,
        MissingExtra,
        NotFound,
        RecollectError,
        StoreBusy,
        StoreCorrupt,
        StoreError,
    )
    from recollect.life import Feedback, Lens, Recall, Recalled, Related, Relation, Session, SessionContext, Timeline
    from recollect.records import (
        Fact,
        Hit,
        Memories,
        Memory,
        Near,
        Origin,
        Page,
        Report,
        Results,
        Stats,
        Successor,
        Version,
    )

__version__ = "0.1.0"

__all__ = [
    "AlreadyThere",
    "Ambiguous",
    "ChatError",
    "ConfigError",
    "Document",
    "DocumentHit",
    "DocumentLink",
    "EmbedderError",
    "EmbedderUnavailable",
    "Fact",
    "Feedback",
    "File",
    "Hit",
    "ImportReport",
    "IndexReport",
    "InvalidInput",
    "Lens",
    "Memories",
    "Memory",
    "MissingExtra",
    "Near",
    "NotFound",
    "Origin",
    "Page",
    "Recall",
    "Recalled",
    "Recollect",
    "RecollectError",
    "Related",
    "Relation",
    "Report",
    "Results",
    "Session",
    "SessionContext",
    "Stats",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "Successor",
    "Timeline",
    "Version",
    "open",
    "restore_backup",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when first asked for: `recollect --help` must not wait for numpy."""
    if name not in __all__:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    if name == "open":
        return import_module("recollect.engine").open_memory
    for module in (
        "recollect.errors",
        "recollect.records",
        "recollect.documents",
        "recollect.life",
        "recollect.engine",
    ):
        found = getattr(import_module(module), name, None)
        if found is not None:
            return found
    raise AttributeError(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
