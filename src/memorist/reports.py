"""Reports: the numbers of a store, and the outcomes of indexing, imports, checks, migrations and salvages."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

FILE_PROBLEM = "database:"  # how a problem of the file itself begins, which may be of any namespace in it


class Stats(Struct, frozen=True):
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
    recalls_lost: int = 0  # that this process could not record; their searches were answered all the same


class CheckReport(Struct, frozen=True):
    """The problems that `check` found, and those it repaired."""

    ok: bool
    problems: tuple[str, ...]
    repaired: tuple[str, ...]
    skipped: tuple[str, ...]
    memories: int
    vectors: int

    def without_place(self) -> "CheckReport":
        """Return problems of a namespace as they are, and for all of the file that it is in, one line."""
        problems, repaired = map(_summarize_file_problems, (self.problems, self.repaired))
        return replace(self, problems=problems, repaired=repaired)


def _summarize_file_problems(problems: Sequence[str]) -> tuple[str, ...]:
    summary = f"{FILE_PROBLEM} it is damaged; whoever runs the server can see where, with `memorist check`"
    return tuple(dict.fromkeys(summary if one.startswith(FILE_PROBLEM) else one for one in problems))


class DistributionReport(Struct, frozen=True):
    """The tables that Citus distributes by namespace, from now on and from before."""

    version: str  # of Citus
    distributed: tuple[str, ...]
    present: tuple[str, ...]


class MigrationReport(Struct, frozen=True):
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


class SalvageReport(Struct, frozen=True):
    """The number of rows of each table that a salvage kept, the rows it lost, and the problems of what it kept."""

    kept: Mapping[str, int]
    lost: tuple[str, ...]
    problems: tuple[str, ...]


class IndexProgress(Struct, frozen=True):
    """The progress of an index run: files done, files in all, and chunks embedded so far."""

    files: int
    total_files: int
    chunks: int


class IndexReport(Struct, frozen=True):
    """Counts of one indexing run."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    renamed: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # path, reason
    redacted: Mapping[str, int] = field(default_factory=dict)  # kind, how often
    redacted_at: tuple[tuple[str, str, int], ...] = ()  # kind, path, line: the first thousand

    @property
    def quiet(self) -> bool:
        """True if nothing changed."""
        return not (self.added or self.changed or self.renamed or self.removed)


class DiscoveredSource(Struct, frozen=True):
    """Conversations or memories that another program keeps on this machine, and how many are not imported yet."""

    program: str  # also the format
    title: str
    kind: str  # "conversations" or "memories"
    paths: tuple[str, ...]
    total: int = 0
    new: int = 0  # a conversation that has gone on since is new, too
    skipped: tuple[tuple[str, str], ...] = ()  # place, reason


class ImportReport(Struct, frozen=True):
    """Counts of one import. `known` was there already; `skipped` could not be imported."""

    format: str
    added: int = 0
    known: int = 0
    sessions: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # place, reason
    redacted: Mapping[str, int] = field(default_factory=dict)  # kind, how often
