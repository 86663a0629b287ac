"""
Memories that have changed since the time a search is about.

The indexes and the vector scan hold the present. Memories that have changed since are read as they were and compared
one by one; the rest is left to the indexes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apsw

from memorist.records import Filter, Match
from memorist.store.coverage import Atom, QueryWords, measure_coverage
from memorist.store.sqlite.bm25 import K1
from memorist.store.sqlite.connections import fetch
from memorist.store.sqlite.filters import filter_conditions
from memorist.store.sqlite.rows import MEMORIES_AS_OF
from memorist.text import tokenizer

INDEX_COLUMNS = ("title", "content", "tags", "source", "segments", "facts")  # of the full-text indexes

_CHANGED = f"""(
    select distinct rid from (
        select rid from memory_history indexed by memory_history_by_time where replaced_at > :as_of
        union all
        select rid from facts indexed by facts_by_time where created_at > :as_of)) c
    cross join {MEMORIES_AS_OF} on m.rid = c.rid
"""
_MODEL = "(select model from models where name = :model)"
_VECTOR = f"(select v.vector from vectors v where v.rid = m.rid and v.model = {_MODEL})"
# The vector of the text it had: that of a version with the same text, or its own if the text has not changed.
_VECTOR_AS_OF = f"""
    case when m.reworded then (
        select o.vector
        from old_vectors o
        join memory_history t on t.rid = o.rid and t.version = o.version
        where o.rid = m.rid and o.version >= m.version and o.model = {_MODEL}
          and t.snapshot ->> 'content' = m.content and t.snapshot ->> 'title' is m.title
        order by o.version
        limit 1)
    else {_VECTOR} end
"""
_FACTS = "(select group_concat(f.text, char(10)) from facts f where f.rid = m.rid and f.created_at <= :as_of)"


def vector_column(*, past: bool) -> str:
    """Return the column of the vector by `:model` of a memory `m`, or of the text it had at `:as_of`."""
    return _VECTOR_AS_OF if past else _VECTOR


@dataclass(frozen=True, slots=True)
class PastTerm:
    """A word or phrase of a query, as one of the indexes would hold it, and its inverse document frequency."""

    words: tuple[str, ...]
    prefix: str | None
    stemmed: bool
    idf: float

    @classmethod
    def from_atom(cls, atom: Atom, idf: float, *, stemmed: bool) -> "PastTerm":
        words = tokenizer.list_stems(atom.text) if stemmed else tokenizer.list_tokens(atom.text)
        if not atom.prefix or not words:
            return cls(tuple(words), None, stemmed, idf)
        return cls(tuple(words[:-1]), words[-1], stemmed, idf)

    def count_in(self, text: Sequence[str]) -> int:
        """Count its occurrences in a text."""
        length = len(self.words) + (self.prefix is not None)
        if not length:
            return 0
        return sum(
            tuple(text[at : at + len(self.words)]) == self.words
            and (self.prefix is None or text[at + len(self.words)].startswith(self.prefix))
            for at in range(len(text) - length + 1)
        )


@dataclass(frozen=True, slots=True)
class PastQuery:
    """
    A keyword query on texts that have changed since.

    `words` measure coverage. `raw` is an expression in the index's own syntax, in place of the terms. `spare` are terms
    so common that they only earn a last place; `part` is looked for inside words if nothing else is found.
    """

    terms: Sequence[PastTerm]
    words: Sequence[QueryWords]
    needs_all: bool
    raw: str | None = None
    spare: Sequence[PastTerm] = ()
    part: str | None = None


def match_past_texts(
    connection: apsw.Connection, namespace: str, filter: Filter, query: PastQuery, weights: Mapping[str, float]
) -> list[Match]:
    """Match texts as they were, scored by BM25 without regard to length: only the index knows the mean length."""
    where, values = filter_conditions(filter, past=True)
    rows = fetch(
        connection,
        f"""
        select m.rid, m.title, m.content, m.tags, m.source, {_FACTS}
        from {_CHANGED}
        where m.namespace = :namespace and m.deleted_at is null {where}
        """,
        values | {"namespace": namespace},
    )
    texts = {rid: _index_columns(*columns) for rid, *columns in rows}
    if query.raw is not None:
        matching = _match_raw(texts, query.raw)
        texts = {rid: text for rid, text in texts.items() if rid in matching}
    found = [match for rid, text in texts.items() if (match := _match(rid, text, query, weights)) is not None]
    if not found and query.part:
        part = tokenizer.fold(query.part)
        found = [Match(rid, 1e-6) for rid, text in texts.items() if part in tokenizer.fold(text["content"])]
    return found


def _index_columns(title: str | None, content: str, tags: str, source: str | None, facts: str | None) -> dict[str, str]:
    segments = tokenizer.unspaced_bigrams(title, content, tags, facts)
    columns = {"title": title, "content": content, "tags": tags, "source": source, "segments": segments, "facts": facts}
    return {name: text for name, text in columns.items() if text}


def _match(rid: int, texts: Mapping[str, str], query: PastQuery, weights: Mapping[str, float]) -> Match | None:
    tokens = {True: {name: tokenizer.list_stems(text) for name, text in texts.items()}}  # stemmed -> column -> tokens
    if not all(term.stemmed for term in (*query.terms, *query.spare)):
        tokens[False] = {name: tokenizer.list_tokens(text) for name, text in texts.items()}
    score, found = 0.0, 0
    for term in query.terms:
        counts = {name: term.count_in(column) for name, column in tokens[term.stemmed].items()}
        found += any(counts.values())
        weighted = sum(weights.get(name, 0.0) * count for name, count in counts.items())
        score += term.idf * weighted * (K1 + 1) / (weighted + K1)
    has_all = found == len(query.terms)
    if has_all or (found and not query.needs_all) or query.raw is not None:
        return Match(rid, max(score, 1e-9), has_all, measure_coverage(query.words, " ".join(texts.values())))
    spare = any(term.count_in(column) for term in query.spare for column in tokens[term.stemmed].values())
    return Match(rid, 0.0, coverage=0.0) if spare else None


def _match_raw(texts: Mapping[int, Mapping[str, str]], expression: str) -> set[int]:
    """Return the texts that match an expression in the index's own syntax, by an index made of them."""
    stem = "" if "*" in expression else "porter "
    index = apsw.Connection(":memory:")
    try:
        tokenize = f"tokenize = '{stem}unicode61 remove_diacritics 2'"
        index.execute(f"create virtual table then_text using fts5({', '.join(INDEX_COLUMNS)}, {tokenize})")
        index.executemany(
            f"insert into then_text(rowid, {', '.join(INDEX_COLUMNS)}) values (?, ?, ?, ?, ?, ?, ?)",
            [(rid, *(text.get(column) for column in INDEX_COLUMNS)) for rid, text in texts.items()],
        )
        return {rid for (rid,) in fetch(index, "select rowid from then_text where then_text match ?", (expression,))}
    except apsw.SQLError:
        return set()
    finally:
        index.close()


def load_past_vectors(
    connection: apsw.Connection, namespace: str, filter: Filter, model: str
) -> list[tuple[int, bytes]]:
    """Return the vectors of memories that have changed since, as they were."""
    where, values = filter_conditions(filter, past=True)
    rows = fetch(
        connection,
        f"""
        select m.rid, {vector_column(past=True)}
        from {_CHANGED}
        where m.namespace = :namespace and m.deleted_at is null {where}
        """,
        values | {"namespace": namespace, "model": model},
    )
    return [(rid, vector) for rid, vector in rows if vector is not None]
