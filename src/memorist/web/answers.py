"""Records that only the API answers with: counts, ids, and what is known about the server itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memorist.reports import Stats


@dataclass(frozen=True, slots=True)
class Count:
    """The number of what was counted or changed."""

    count: int


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids, in the order of what was sent."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The id or name of what is gone."""

    id: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A query with its misspelt words corrected; null where all are known."""

    suggestion: str | None


@dataclass(frozen=True, slots=True)
class Block:
    """A block of memories for a language model, or an empty text."""

    context: str


@dataclass(frozen=True, slots=True)
class StatsAnswer:
    """Counts of everything in a store, and the recalls that could not be recorded."""

    stats: Stats
    recalls_lost: int


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a token, and what it is used on."""

    version: str
    namespace: str
    project: str | None
    read_only: bool


@dataclass(frozen=True, slots=True)
class SettingsAnswer:
    """The settings that hold, and where each that is not a default comes from."""

    settings: Mapping[str, Any]
    origins: Mapping[str, str]
