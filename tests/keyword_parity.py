"""The same memories on SQLite and on PostgreSQL, and keyword searches that must find the same in both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from memorist.arguments import NO_FILTER, Filter
from memorist.profiles.profile import ALL_COLUMNS
from memorist.records import Match, Query
from memorist.search.query import parse_query
from memorist.store.image_follower import ImageFollower
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.keyword import PostgresKeywordIndex
from memorist.store.postgres.text_index import index_queued
from memorist.store.records import KeywordMatches
from memorist.store.sqlite.backend import SqliteBackend
from memorist.store.store import Store

_SHARED_COLUMNS = (
    "rid", "id", "namespace", "project", "content", "content_hash", "title", "summary", "kind", "source", "tags",
    "segments", "sector", "tier", "salience", "metadata", "created_at", "updated_at", "reinforced_at", "deleted_at",
    "facts", "recorded_at", "valid_until", "pinned", "access_count", "accessed_at",
)  # fmt: skip


@dataclass(slots=True)
class IndexPair:
    """A store on SQLite and the full-text index of the same memories on PostgreSQL."""

    store: Store
    database: PostgresDatabase
    index: PostgresKeywordIndex

    def search(
        self, query: Query, filter: Filter = NO_FILTER, *, limit: int = 60, page: int = 10
    ) -> tuple[KeywordMatches, KeywordMatches]:
        """Return the matches of both."""
        ours = self.store.match_keywords(
            query, self.store.resolve_scope(filter), limit=limit, page=page, weights=ALL_COLUMNS
        )
        with self.store._reading(filter) as connection:
            scope = self.store._scopes.resolve(connection, filter)  # as a database lists it, which has no image
        with self.database.reading() as connection:
            theirs = self.index.match(connection, query, scope, limit, page, ALL_COLUMNS)
        return ours, theirs

    def compare(
        self, text: str, grammar: str = "auto", filter: Filter = NO_FILTER, *, limit: int = 60, page: int = 10
    ) -> list[str]:
        """Search both, and return the differences in words."""
        one, other = self.search(parse_query(text, grammar), filter, limit=limit, page=page)
        found = list_differences([*one.matches], [*other.matches])
        if sorted(one.unknown_words) != sorted(other.unknown_words):
            found.append(f"unknown words {one.unknown_words} and {other.unknown_words}")
        if sorted(one.all_keys or ()) != sorted(other.all_keys or ()):
            found.append("all keys differ")
        return [f"{text!r} ({grammar}): {difference}" for difference in found]


def open_pair(path: Path, url: str, namespace: str = "default") -> IndexPair:
    """Open a store, and copy its memories to a database."""
    store = Store(SqliteBackend(str(path)), namespace)
    database = PostgresDatabase(url, namespace=namespace)
    database.before_commit = index_queued
    copy_memories(path, database, namespace)
    return IndexPair(store, database, PostgresKeywordIndex(namespace, ImageFollower(database, namespace, 0)))


def copy_memories(path: Path, database: PostgresDatabase, namespace: str) -> None:
    names = ", ".join(_SHARED_COLUMNS)
    with apsw.Connection(str(path)) as file:
        rows: Any = file.execute(f"select {names} from memories where namespace = ? order by rid", (namespace,))
        values = ", ".join(f":{name}" for name in _SHARED_COLUMNS)
        with database.writing() as connection:
            connection.executemany(
                f"insert into memories({names}) values ({values})",
                (dict(zip(_SHARED_COLUMNS, row, strict=True)) for row in rows),
            )


def list_differences(one: Sequence[Match], other: Sequence[Match]) -> list[str]:
    """Return how two answers differ, but for the order of equal scores."""
    differences = []
    if _round(one) != _round(other):
        ours, theirs = _list_keys(one), _list_keys(other)
        if set(ours) != set(theirs):
            # The last places may be shared by more rows than fit.
            last = {round(match.score, 6) for match in (*one[-1:], *other[-1:])}
            scores = {match.key: round(match.score, 6) for match in (*one, *other)}
            missing = {key for key in set(ours) ^ set(theirs) if scores[key] not in last}
            if missing:
                differences.append(f"only in one: {sorted(missing)}")
        for first, second in zip(one, other, strict=False):
            if abs(first.score - second.score) > 1e-6 or first.has_all_words != second.has_all_words:
                differences.append(f"{first} is not {second}")
                break
    coverage = {match.key: match.coverage for match in one}
    # SQLite takes the highest key for the number of memories, which forgotten ones make too high.
    off = [m for m in other if m.key in coverage and abs(coverage[m.key] - m.coverage) > 0.01]
    if off:
        differences.append(f"coverage {coverage[off[0].key]} is not that of {off[0]}")
    return differences


def _round(matches: Iterable[Match]) -> list[tuple[int, float, bool]]:
    return [(match.key, round(match.score, 6), match.has_all_words) for match in matches]


def _list_keys(matches: Iterable[Match]) -> list[int]:
    return [match.key for match in matches]
