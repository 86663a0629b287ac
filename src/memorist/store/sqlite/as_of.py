"""
Memories that said something else at the time that is asked about.

The indexes and the vector scan know the present. What has changed since is read as it was then and compared one by one;
all the rest is left to the indexes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apsw

from memorist.records import Filter, Match
from memorist.store.coverage import Atom, QueryWords, coverage
from memorist.store.sqlite.connections import fetch
from memorist.store.sqlite.filters import conditions
from memorist.store.sqlite.rows import THEN
from memorist.text import tokenizer

K1 = 1.2  # of BM25, as FTS5 has it

_CHANGED = f"""(
    select distinct rid from (
        select rid from memory_history indexed by memory_history_by_time where replaced_at > :as_of
        union all
        select rid from facts indexed by facts_by_time where created_at > :as_of)) c
    cross join {THEN} on m.rid = c.rid
"""
_MODEL = "(select model from models where name = :model)"
_VECTOR = f"(select v.vector from vectors v where v.rid = m.rid and v.model = {_MODEL})"
# The vector of what it said then: that of a version with the same text, or its own where the text has not changed.
_VECTOR_THEN = f"""
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


def vector(*, then: bool) -> str:
    """The vector that a memory `m` has of `:model`, or had of what it said then."""
    return _VECTOR_THEN if then else _VECTOR


@dataclass(frozen=True, slots=True)
class PastTerm:
    """A word or phrase that is looked for, in the form of one of the indexes, and its inverse document frequency."""

    words: tuple[str, ...]
    beginning: str | None
    stemmed: bool
    idf: float

    @classmethod
    def of(cls, atom: Atom, idf: float, *, stemmed: bool) -> "PastTerm":
        found = tokenizer.list_stems(atom.text) if stemmed else tokenizer.list_tokens(atom.text)
        if not atom.prefix or not found:
            return cls(tuple(found), None, stemmed, idf)
        return cls(tuple(found[:-1]), found[-1], stemmed, idf)

    def times(self, text: Sequence[str]) -> int:
        """How often it stands in a text."""
        length = len(self.words) + (self.beginning is not None)
        if not length:
            return 0
        return sum(
            tuple(text[at : at + len(self.words)]) == self.words
            and (self.beginning is None or text[at + len(self.words)].startswith(self.beginning))
            for at in range(len(text) - length + 1)
        )


@dataclass(frozen=True, slots=True)
class PastQuery:
    """
    What is looked for in texts that were others then.

    `asked` measures coverage. `raw` is an expression in the index's own syntax, in place of the words. `spare` are
    words so common that they count for nothing but a last place; `part` is to be found inside of words, if nothing is.
    """

    counted: Sequence[PastTerm]
    asked: Sequence[QueryWords]
    all_needed: bool
    raw: str | None = None
    spare: Sequence[PastTerm] = ()
    part: str | None = None


def matches(
    connection: apsw.Connection, namespace: str, filter: Filter, wanted: PastQuery, weights: Mapping[str, float]
) -> list[Match]:
    """What held the words then, scored by BM25 without regard to length, which the index alone knows the mean of."""
    where, values = conditions(filter, then=True)
    rows = fetch(
        connection,
        f"""
        select m.rid, m.title, m.content, m.tags, m.source, {_FACTS}
        from {_CHANGED}
        where m.namespace = :namespace and m.deleted_at is null {where}
        """,
        values | {"namespace": namespace},
    )
    texts = {rid: _texts(*columns) for rid, *columns in rows}
    if wanted.raw is not None:
        found_by_it = _reads(texts, wanted.raw)
        texts = {rid: text for rid, text in texts.items() if rid in found_by_it}
    found = [match for rid, text in texts.items() if (match := _match(rid, text, wanted, weights)) is not None]
    if not found and wanted.part:
        part = tokenizer.fold(wanted.part)
        found = [Match(rid, 1e-6) for rid, text in texts.items() if part in tokenizer.fold(text["content"])]
    return found


def _texts(title: str | None, content: str, tags: str, source: str | None, facts: str | None) -> dict[str, str]:
    segments = tokenizer.unspaced_bigrams(title, content, tags, facts)
    columns = {"title": title, "content": content, "tags": tags, "source": source, "segments": segments, "facts": facts}
    return {name: text for name, text in columns.items() if text}


def _match(rid: int, texts: Mapping[str, str], wanted: PastQuery, weights: Mapping[str, float]) -> Match | None:
    forms = {True: {name: tokenizer.list_stems(text) for name, text in texts.items()}}
    if not all(each.stemmed for each in (*wanted.counted, *wanted.spare)):
        forms[False] = {name: tokenizer.list_tokens(text) for name, text in texts.items()}
    score, held = 0.0, 0
    for each in wanted.counted:
        times = {name: each.times(found) for name, found in forms[each.stemmed].items()}
        held += any(times.values())
        weighed = sum(weights.get(name, 0.0) * count for name, count in times.items())
        score += each.idf * weighed * (K1 + 1) / (weighed + K1)
    whole = held == len(wanted.counted)
    if whole or (held and not wanted.all_needed) or wanted.raw is not None:
        return Match(rid, max(score, 1e-9), whole, coverage(wanted.asked, " ".join(texts.values())))
    common = any(each.times(found) for each in wanted.spare for found in forms[each.stemmed].values())
    return Match(rid, 0.0, coverage=0.0) if common else None


def _reads(texts: Mapping[int, Mapping[str, str]], expression: str) -> set[int]:
    """Which of the texts an expression in the index's own syntax finds: asked of such an index, made for it."""
    stem = "" if "*" in expression else "porter "
    index = apsw.Connection(":memory:")
    try:
        tokenize = f"tokenize = '{stem}unicode61 remove_diacritics 2'"
        index.execute(f"create virtual table then_text using fts5({', '.join(tokenizer.COLUMNS)}, {tokenize})")
        index.executemany(
            f"insert into then_text(rowid, {', '.join(tokenizer.COLUMNS)}) values (?, ?, ?, ?, ?, ?, ?)",
            [(rid, *(text.get(column) for column in tokenizer.COLUMNS)) for rid, text in texts.items()],
        )
        return {rid for (rid,) in fetch(index, "select rowid from then_text where then_text match ?", (expression,))}
    except apsw.SQLError:
        return set()
    finally:
        index.close()


def vectors(connection: apsw.Connection, namespace: str, filter: Filter, model: str) -> list[tuple[int, bytes]]:
    """The vectors that changed memories had then, of those that had one."""
    where, values = conditions(filter, then=True)
    rows = fetch(
        connection,
        f"""
        select m.rid, {vector(then=True)}
        from {_CHANGED}
        where m.namespace = :namespace and m.deleted_at is null {where}
        """,
        values | {"namespace": namespace, "model": model},
    )
    return [(rid, vector) for rid, vector in rows if vector is not None]
