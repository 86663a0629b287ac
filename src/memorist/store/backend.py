"""The parts of a store in which databases truly differ: its indexes, its upkeep, and its copies."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from memorist.records import Query, Term
from memorist.reports import CheckReport
from memorist.store.database import Connection, Database
from memorist.store.image_follower import Followers
from memorist.store.records import KeywordMatches, Scope
from memorist.store.vectors import Vectors


class KeywordIndex(Protocol):
    """The full-text index of one namespace."""

    def match(
        self, connection: Connection, query: Query, scope: Scope, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches: ...

    def select_matching(
        self, connection: Connection, query: Query, scope: Scope, keys: Sequence[int], *, filtered: bool = True
    ) -> tuple[str, dict[str, Any], bool]:
        """
        Return a query for the keys `rid` of all that matches, and if words matched it (`by_words`), with its values.

        `keys` match as well. The last result is True if all of them are known to pass the filter.
        """
        ...

    def select_sharing(
        self, connection: Connection, words: Mapping[str, str], least: int, *, closely: bool
    ) -> tuple[str, dict[str, Any], bool]:
        """
        Return a query for the keys `rid` of all texts with at least so many of these words, and its values.

        The words are given by their stems. Other texts are found as well; fewer of them, but more slowly, if `closely`.
        The last result is True if to ask `closely` finds no fewer.
        """
        ...

    def find_known(self, connection: Connection, terms: Sequence[Term]) -> set[Term]:
        """Return the terms that live memories contain: prefixes as they are, everything else by its stems."""
        ...

    def find_similar(self, connection: Connection, word: str) -> list[str]:
        """Return the words with the fewest differences from a word, those of more memories first, spelt as stored."""
        ...


class Backend(Protocol):
    """A database that is open, its schema up to date."""

    @property
    def database(self) -> Database: ...

    @property
    def images(self) -> Followers:
        """The images of namespaces, in memory."""
        ...

    @property
    def version(self) -> str:
        """The name and version of the database."""
        ...

    @property
    def searches_in_memory(self) -> bool:
        """True if searches compare arrays in memory, which have live memories only."""
        ...

    @property
    def own_files(self) -> tuple[str, ...]:
        """The paths of the files that it writes."""
        ...

    def open_keyword_index(self, namespace: str) -> KeywordIndex: ...
    def open_vectors(self, namespace: str) -> Vectors: ...

    def optimize(self, connection: Connection, added: int) -> None:
        """Keep the indexes quick after so many memories were added."""
        ...

    def purge(self, connection: Connection) -> None:
        """Remove what indexes keep of deleted memories."""
        ...

    def wipe(self, *, copies: bool) -> None:
        """Remove every trace of deleted memories from the disk, as far as it is in our hands; copies, if so asked."""
        ...

    def measure_size(self) -> int:
        """Return the size of everything stored, in bytes."""
        ...

    def list_namespaces(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        ...

    def back_up(self, path: str, *, overwrite: bool) -> None: ...
    def check(self, namespace: str, *, repair: bool) -> CheckReport: ...
    def close(self) -> None: ...
