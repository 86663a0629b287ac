"""Reports: the numbers of a store, and the outcomes of a check, a migration and a salvage."""

from collections.abc import Mapping
from dataclasses import dataclass

FILE_PROBLEM = "database:"  # how a problem of the file itself begins, which may be of any namespace in it


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of everything in a store. A token of one namespace is not told the path and size of the whole database."""

    path: str | None
    namespace: str
    memories: int
    deleted: int
    projects: int
    vectors: int
    pending: int
    model: str | None
    models: Mapping[str, int]
    size_bytes: int | None
    schema: str
    database: str  # its name and version
    superseded: int = 0
    pinned: int = 0
    facts: int = 0
    relations: int = 0
    sessions: int = 0
    recalls: int = 0
    documents: int = 0
    chunks: int = 0
    chunks_pending: int = 0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The problems that `check` found, and those it repaired."""

    ok: bool
    problems: tuple[str, ...]
    repaired: tuple[str, ...]
    skipped: tuple[str, ...]
    memories: int
    vectors: int


@dataclass(frozen=True, slots=True)
class DistributionReport:
    """The tables that Citus distributes by namespace, from now on and from before."""

    version: str  # of Citus
    distributed: tuple[str, ...]
    present: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """
    A migration that was verified: both databases, the number of records of each type, and how many this run has copied.

    `present` were there from an earlier run. `damaged` are the records that could not be copied whole, each with the
    reason. `sha256` is that of all records as an export with vectors writes them.
    """

    source: str
    target: str
    namespace: str
    records: Mapping[str, int]
    copied: int
    present: int
    damaged: tuple[tuple[str, str], ...]
    sha256: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """The number of rows of each table that a salvage kept, the rows it lost, and the problems of what it kept."""

    kept: Mapping[str, int]
    lost: tuple[str, ...]
    problems: tuple[str, ...]
