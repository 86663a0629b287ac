"""Memorist: the memory an AI agent can trust. One SQLite file, found by word and by meaning, offline."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memorist.engine import AsyncMemorist, Memorist, migrate, open_async, restore_backup, salvage
    from memorist.engine import list_namespaces as namespaces
    from memorist.engine import open_memory as open
    from memorist.errors import (
        AlreadyExists,
        Ambiguous,
        ChangedMeanwhile,
        ChatError,
        ConfigError,
        EmbedderError,
        EmbedderUnavailable,
        InvalidInput,
        MemoristError,
        MissingExtra,
        NotFound,
        SearchTimeout,
        StoreBusy,
        StoreCorrupt,
        StoreError,
    )
    from memorist.file_records import Document, DocumentHit, DocumentLink, File
    from memorist.records import (
        Fact,
        Feedback,
        Hit,
        Lens,
        Memories,
        Memory,
        NearDuplicate,
        Page,
        Recall,
        RecalledMemory,
        Related,
        Relation,
        Results,
        Session,
        SessionContext,
        SessionRef,
        Successor,
        Timeline,
        Version,
    )
    from memorist.reports import (
        CheckReport,
        ImportReport,
        IndexProgress,
        IndexReport,
        MigrationReport,
        SalvageReport,
        Stats,
    )
    from memorist.web.remote import connect

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists", "Ambiguous", "AsyncMemorist", "ChangedMeanwhile", "ChatError", "CheckReport", "ConfigError",
    "Document", "DocumentHit", "DocumentLink", "EmbedderError", "EmbedderUnavailable", "Fact", "Feedback", "File",
    "Hit", "ImportReport", "IndexProgress", "IndexReport", "InvalidInput", "Lens", "Memories", "Memorist",
    "MemoristError", "Memory", "MigrationReport", "MissingExtra", "NearDuplicate", "NotFound", "Page", "Recall",
    "RecalledMemory", "Related", "Relation", "Results", "SalvageReport", "SearchTimeout", "Session", "SessionContext",
    "SessionRef", "Stats", "StoreBusy", "StoreCorrupt", "StoreError", "Successor", "Timeline", "Version", "connect",
    "migrate", "namespaces", "open", "open_async", "restore_backup", "salvage",
]  # fmt: skip

_ENGINE_NAMES = {"open": "open_memory", "namespaces": "list_namespaces"}


def __getattr__(name: str) -> Any:
    """Public names are imported when first asked for: `memorist --help` must not wait for numpy."""
    if name not in __all__:
        raise AttributeError(f"module 'memorist' has no attribute {name!r}")
    if name in _ENGINE_NAMES:
        return getattr(import_module("memorist.engine"), _ENGINE_NAMES[name])
    if name == "connect":
        return import_module("memorist.web.remote").connect
    for module in (
        "memorist.errors",
        "memorist.records",
        "memorist.reports",
        "memorist.file_records",
        "memorist.engine",
    ):
        found = getattr(import_module(module), name, None)
        if found is not None:
            return found
    raise AttributeError(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
