"""Finding: both legs of a search, what ranking looks at, and the memories of a page."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.arguments import NO_FILTER, Filter
from memorist.records import Fact, Memory, Model, Query, Term
from memorist.store.backend import Backend
from memorist.store.counts import count_facets, count_filtered_out
from memorist.store.database import Connection
from memorist.store.filters import Scopes, is_unexpired, to_micros
from memorist.store.key_set import Keys
from memorist.store.keyword_ranking import INDEXED_TEXT, match_in_memory
from memorist.store.metadata_index import MetadataIndex
from memorist.store.near_duplicates import list_sharing
from memorist.store.ranking_columns import (
    RankingColumns,
    select_ranking_columns,
    take_ranking_columns,
    to_ranking_columns,
)
from memorist.store.records import Compare, Compared, KeywordMatches, Scope
from memorist.store.rows import (
    StorePart,
    decode_facts,
    memories_table,
    memory_columns,
    read_keyed,
    read_passing,
    select_facts,
)
from memorist.store.vectors import SPANS, Span, compare_stored, decode_span, vector_column


class FindingStore(StorePart):
    """The part of the store that searches memories."""

    def __init__(self, backend: Backend, namespace: str) -> None:
        super().__init__(backend.database, namespace)
        self._backend = backend
        self._images = backend.images.follow(namespace)
        self._fields = MetadataIndex(namespace)
        self._scopes = Scopes(self._fields, searched_in_memory=backend.searches_in_memory)
        self._keyword = backend.open_keyword_index(namespace)
        self.vectors = backend.open_vectors(namespace)

    def _reading(self, filter: Filter) -> AbstractContextManager[Connection]:
        """Lend a connection; one that sees one moment, if a filter may use the index of fields."""
        return self._pool.reading() if filter.metadata is None else self._pool.snapshot()

    def resolve_scope(self, filter: Filter) -> Scope:
        """Resolve a filter once for both legs of a search: by the image of the namespace, where there is one."""
        image = self._images.refresh() if filter.as_of is None else None
        if image is not None and (known := image.find_scope(self.namespace, filter)):
            return known
        with self._reading(filter) as connection:
            scope = self._scopes.resolve(connection, filter)
        if image is None or not scope.is_listed:
            return scope
        return image.complete_scope(self.namespace, filter, scope)

    def match_keywords(
        self, query: Query, scope: Scope, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches:
        """
        Return the memories with words of the query, best first: up to `limit`, at least `page` if there are as many.

        `weights` are those of title, content, tags, source and facts.
        """
        known = self.match_in_memory(query, scope, limit=limit, page=page, weights=weights)
        if known is not None:
            return known
        with self._reading(scope.filter) as connection:
            tested = self._scopes.with_test(connection, scope)
            return self._keyword.match(connection, query, tested, limit, page, weights)

    def match_in_memory(
        self, query: Query, scope: Scope, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches | None:
        """Do what `match_keywords` does without asking the database; None if that cannot be."""
        if scope.image is None:
            return None
        return match_in_memory(query, scope, self.namespace, limit, page, weights, self._read_texts)

    def _read_texts(self, keys: Keys) -> list[tuple[int, str]]:
        sql = f"select m.rid, {INDEXED_TEXT} from memories m where m.rid in @keys(:keys)"
        with self._pool.reading() as connection:
            return [(key, text) for key, text in connection.fetch(sql, {"keys": str(keys.tolist())})]

    def list_sharing(self, words: Mapping[str, str], least: int, filter: Filter) -> list[tuple[str, str | None, str]]:
        """Return the id, project and text of memories with at least so many of these words, given by their stems."""
        with self._pool.reading() as connection:
            return list_sharing(connection, self.namespace, self._keyword, words, least, filter)

    def count_facets(
        self, query: Query | None, filter: Filter, keys: Sequence[int], fields: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        """Count by field the memories that match a query's words, and these keys; without a query, all memories."""
        with self._reading(filter) as connection:
            scope = self._scopes.resolve(connection, filter) if query else Scope(replace(filter, hide_expired=True))
            return count_facets(connection, self._keyword, self._fields, query, scope, keys, fields)

    def count_filtered_out(self, query: Query, filter: Filter, keys: Sequence[int]) -> dict[str, int]:
        """Count the memories that match a query's words, and these keys, but fail a field of a filter, by field."""
        with self._pool.reading() as connection:
            return count_filtered_out(connection, self._keyword, self.namespace, query, filter, keys)

    def find_known_terms(self, terms: Sequence[Term]) -> set[Term]:
        with self._pool.reading() as connection:
            return self._keyword.find_known(connection, terms)

    def find_similar_words(self, word: str) -> list[str]:
        with self._pool.reading() as connection:
            return self._keyword.find_similar(connection, word)

    def load_ranking_columns(
        self,
        keys: Keys,
        model: Model | None,
        vector: NDArray[np.float32] | None,
        scope: Scope,
        *,
        compare: Compare | None = None,
        facts: bool = False,
    ) -> RankingColumns:
        """
        Return what ranking looks at, at once; similarities by vectors in memory, if those can `compare`.

        Those that are gone, or do not pass the filter, are left out: the legs may have read them before.
        """
        if not len(keys):
            return to_ranking_columns(keys, Compared(None, np.empty(0)), ())
        if scope.image is not None and (compare or model is None or vector is None):
            return self._take_ranking_columns(scope, keys, compare, facts)
        started = time.thread_time()
        past = scope.filter.as_of is not None
        columns = f"""
            {vector_column(past=past)}, {"m.reworded" if past else "false"},
            {select_ranking_columns(past=past, facts=facts)}
        """
        with self._pool.reading() as connection:
            values = {"model": model.name if model else None}
            rows = read_passing(connection, self.namespace, keys.tolist(), scope.filter, columns, values)
            own_keys, compared = (
                np.array([row[0] for row in rows], np.int64),
                Compared(None, np.full(len(rows), np.nan)),
            )
            if model is not None and vector is not None:
                # Stored parts are those of the present text.
                may_have = np.array([not row[2] for row in rows], np.bool_) & self.vectors.have_parts(model)
                blobs = [row[1] for row in rows]
                compared = compare_stored(connection, model.name, own_keys, blobs, vector, may_have)
        if scope.image is None and not past:
            self._images.charge(time.thread_time() - started)
        return to_ranking_columns(own_keys, compared, [row[3:] for row in rows])

    def _take_ranking_columns(self, scope: Scope, keys: Keys, compare: Compare | None, facts: bool) -> RankingColumns:
        """Return the columns of memories from the image of the namespace."""
        image = scope.image
        assert image is not None, "the scope is one of an image"
        rows = image.index.find_rows(np.sort(keys))
        rows = rows[(image.list_own(self.namespace) if scope.passing is None else scope.passing)[rows]]
        own_keys = np.sort(image.index.keys[rows])
        if len(rows) and image.index.sorted_count < image.index.count:  # changed texts are behind others
            rows = rows[np.argsort(image.index.keys[rows])]
        compared = compare(own_keys) if compare else Compared(None, np.full(len(rows), np.nan))
        known = self._load_facts(own_keys) if facts else {}
        return take_ranking_columns(image, rows, compared, known)

    def _load_facts(self, keys: Keys) -> dict[int, tuple[Fact, ...]]:
        with self._pool.reading() as connection:
            columns = f"m.id, ({select_facts(False)})"
            found = read_passing(connection, self.namespace, keys.tolist(), NO_FILTER, columns)
        return {key: decode_facts(id, text) for key, id, text in found}

    def load_memories(self, keys: Sequence[int], filter: Filter) -> dict[int, Memory]:
        """Read memories by key. Those that are gone, or no longer pass the filter, are left out."""
        return {key: memory for key, (memory, _) in self.load_page(keys, filter, None, {}).items()}

    def load_page(
        self, keys: Sequence[int], filter: Filter, model: Model | None, parts: Mapping[int, int]
    ) -> dict[int, tuple[Memory, Span | None]]:
        """Read memories like `load_memories`, and with them the spans of parts, given by their keys and numbers."""
        columns, values = memory_columns(past=filter.as_of is not None), {}
        if model is not None and parts:
            columns = f"{columns}, case when m.rid in @keys(:parted) then ({SPANS}) end"
            values = {"model": model.name, "parted": json.dumps([*parts])}
        with self._pool.reading() as connection:
            found = read_passing(connection, self.namespace, keys, filter, columns, values)
            spans = {row[0]: decode_span(row[-1], parts[row[0]]) for row in found if values and row[-1] is not None}
            memories = read_keyed(connection, [row[:-1] if values else row for row in found], moment_of(filter))
            return {key: (memory, spans.get(key)) for key, memory in memories}

    def load_vector(self, id: str, model: Model, as_of: datetime | None) -> NDArray[np.float32] | None:
        """Return the vector of a memory, or of its text at a time; None if it has none."""
        past = as_of is not None
        sql = f"""
            select {vector_column(past=past)}
            from {memories_table(past=past)}
            where m.namespace = :namespace and m.id = :id and m.deleted_at is null
              and {is_unexpired("m", past=past)}
        """
        values = {"namespace": self.namespace, "id": id, "model": model.name}
        with self._pool.reading() as connection:
            blob = connection.fetch_value(sql, values | ({"as_of": to_micros(as_of)} if as_of else {}))
        return None if blob is None else np.frombuffer(blob, np.float16).astype(np.float32)


def moment_of(filter: Filter) -> int | None:
    return None if filter.as_of is None else to_micros(filter.as_of)
