"""
Expressions in the syntax of FTS5 on PostgreSQL.

PostgreSQL finds the rows that may match; an FTS5 index made of their texts, in memory, decides and scores.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import apsw
from apsw import fts5query
from msgspec import Struct

from memorist.store.keyword_search import is_raw_stemmed
from memorist.store.postgres.text_index import STORED_COLUMNS, Columns, Phrase
from memorist.store.sqlite.bm25 import register_functions
from memorist.store.word_matching import QueryToken
from memorist.text import tokenizer

_COLUMNS = ", ".join(STORED_COLUMNS)
_ALL_COLUMNS = frozenset(range(len(STORED_COLUMNS)))


class RawPhrase(Struct, frozen=True):
    """A phrase of an expression, which may ask for some columns, by number, or for their beginnings."""

    atom: QueryToken
    columns: frozenset[int] = _ALL_COLUMNS
    initial: bool = False

    @property
    def is_restricted(self) -> bool:
        return self.initial or self.columns != _ALL_COLUMNS

    def is_in(self, phrase: Phrase, found: str, columns: Columns) -> bool:
        """Tell if a row has it where it is asked for, given the tokens found in the row."""
        entries = (entry.rpartition(":") for entry in found.split(" ") if entry)
        for end in phrase.find({token[1:-1]: places for token, _, places in entries}):
            number, start = next((number, start) for number, start in reversed(columns) if end >= start)
            if number in self.columns and (not self.initial or end - len(phrase.tokens) + 1 == start):
                return True
        return False


class RawQuery:
    """An expression of which rows with `query` may match; `phrases` are in its order."""

    def __init__(self, expression: str, *, stemmed: bool = True) -> None:
        self.expression = expression
        self.stemmed = is_raw_stemmed(expression, stemmed=stemmed)
        try:
            tree: Any = fts5query.parse_query_string(expression)
            self.phrases = list(_list_phrases(tree, _ALL_COLUMNS))
            self.query, self.loose = self._write(tree, loose=False), self._write(tree, loose=True)
        except (fts5query.ParseError, RecursionError):
            # FTS5 reads it, so it has words, and one of them is in every row that matches.
            self.phrases = [RawPhrase(QueryToken(token)) for token in tokenizer.list_tokens(expression)]
            parts = [self.tokenize(phrase.atom).write() for phrase in self.phrases]
            self.query = self.loose = " | ".join(filter(None, parts)) or None

    def tokenize(self, atom: QueryToken) -> Phrase:
        return Phrase.from_atom(atom, stemmed=self.stemmed)

    def _write(self, tree: Any, *, loose: bool) -> str | None:
        """Return a tsquery that every row matches which the expression matches; None if no row does."""
        match tree:
            case fts5query.PHRASE():
                return self.tokenize(_read_phrase(tree)).write(loose=loose)
            case fts5query.COLUMNFILTER():
                return self._write(tree.query, loose=loose)
            case fts5query.NOT():
                return self._write(tree.match, loose=loose)
        parts = [self._write(part, loose=loose) for part in getattr(tree, "queries", None) or tree.phrases]
        if isinstance(tree, fts5query.OR):
            return _join(" | ", filter(None, parts))
        return None if None in parts else _join(" & ", filter(None, parts))

    def match(
        self,
        texts: Mapping[int, Sequence[str | None]],
        weights: Sequence[float],
        idfs: Sequence[float],
        mean_length: float,
    ) -> dict[int, float]:
        """Return the scores of the texts, by column, that match."""
        with closing(self._open_index()) as index:
            index.executemany(
                f"insert into texts(rowid, {_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)",
                [(rid, *columns) for rid, columns in texts.items()],
            )
            marks = ", ".join("?" * len(weights))
            sql = f"select rowid, own_bm25(texts, ?, ?, {marks}) from texts where texts match ?"
            rows: Any = index.execute(sql, (str(list(idfs)), mean_length, *weights, self.expression))
            return dict(rows)

    def is_valid(self) -> bool:
        """Tell if FTS5 can read it."""
        with closing(self._open_index()) as index:
            try:
                index.execute("select 1 from texts where texts match ?", (self.expression,)).fetchall()
            except apsw.SQLError:
                return False
        return True

    def _open_index(self) -> apsw.Connection:
        index = apsw.Connection(":memory:")
        register_functions(index)
        tokenize = tokenizer.fts5_option(stemmed=self.stemmed)
        index.execute(f"create virtual table texts using fts5({_COLUMNS}, {tokenize})")
        return index


def _join(operator: str, parts: Iterator[str]) -> str | None:
    written = operator.join(parts)
    return f"({written})" if written else None


def _list_phrases(tree: Any, columns: frozenset[int]) -> Iterator[RawPhrase]:
    match tree:
        case fts5query.PHRASE():
            yield RawPhrase(_read_phrase(tree), columns, tree.initial)
        case fts5query.COLUMNFILTER():
            named = {number for number, name in enumerate(STORED_COLUMNS) if name in map(str.lower, tree.columns)}
            yield from _list_phrases(tree.query, columns & named if tree.filter == "include" else columns - named)
        case fts5query.NOT():
            yield from _list_phrases(tree.match, columns)
            yield from _list_phrases(tree.no_match, columns)
        case _:
            for part in getattr(tree, "queries", None) or tree.phrases:
                yield from _list_phrases(part, columns)


def _read_phrase(phrase: Any) -> QueryToken:
    """Return a phrase, with those that a plus appends to it, as one atom."""
    texts = [phrase.phrase]
    while phrase.plus is not None:
        phrase = phrase.plus
        texts.append(phrase.phrase)
    return QueryToken(" ".join(texts), phrase.prefix)
