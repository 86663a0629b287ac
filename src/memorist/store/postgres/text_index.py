"""
The tokens of memories in PostgreSQL's full-text types.

A `tsvector` holds the tokens of a memory with their positions. The columns of the index stand in it one behind the
other, with a gap between two of them, so that no phrase crosses from one to the next; `columns` says where each begins.
A tsvector has limits, which a text may exceed: it is `clipped` then, and whoever needs its positions reads the text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from memorist.store.database import Connection
from memorist.store.word_matching import QueryToken
from memorist.text import tokenizer

STORED_COLUMNS = ("title", "content", "tags", "source", "segments", "facts")  # as `memory_texts.columns` numbers them

MAX_LEXEME_CHARACTERS = 255  # a key of the vocabulary must fit into a page of its index
_ACCENT = "\u0301"  # no token begins with one
_MAX_POSITION = 16_382  # PostgreSQL takes everything behind it for 16,383
MAX_POSITIONS = 255  # of one token
_MAX_BYTES = 1_000_000  # of a tsvector; PostgreSQL's limit is 1 MB
_MAX_ROWS, _MAX_CHARACTERS = 500, 2_000_000  # taken from the queue, and written, at a time

Positions = dict[str, list[int]]  # by token
Columns = tuple[tuple[int, int], ...]  # the number of each column, and the position it begins at


class TextTokens(Struct, frozen=True):
    """The tokens of a memory: their positions, their number, and the first position of each column."""

    positions: Positions
    length: int
    columns: Columns


def tokenize_columns(texts: Mapping[str, str | None], *, stemmed: bool) -> TextTokens:
    """Return the tokens of a memory's texts by column."""
    split = tokenizer.list_stems if stemmed else tokenizer.list_tokens
    positions: Positions = {}
    columns = []
    length, place = 0, 1
    for number, name in enumerate(STORED_COLUMNS):
        tokens = split(texts.get(name) or "")
        if not tokens:
            continue
        columns.append((number, place))
        for at, token in enumerate(tokens, place):
            positions.setdefault(_to_lexeme(token), []).append(at)
        length += len(tokens)
        place += len(tokens) + 1
    return TextTokens(positions, length, tuple(columns))


def _to_lexeme(token: str) -> str:
    """Return a token as PostgreSQL keeps it, which has no empty ones: an accent on nothing is one to the tokenizer."""
    return token[:MAX_LEXEME_CHARACTERS] or _ACCENT


def write_tsvector(positions: Positions) -> tuple[str, bool]:
    """Return tokens as PostgreSQL reads a tsvector, and whether some positions had to be left out."""
    written: list[str] = []
    size, clipped = 0, False
    for token, places in positions.items():
        kept = places
        if len(places) > MAX_POSITIONS or places[-1] > _MAX_POSITION:
            kept = [place for place in places if place <= _MAX_POSITION][:MAX_POSITIONS] or [_MAX_POSITION + 1]
            clipped = True
        size += len(token.encode()) + 2 * len(kept) + 4
        if size > _MAX_BYTES:
            return " ".join(written), True
        written.append(f"{quote_token(token)}:{','.join(map(str, kept))}")
    return " ".join(written), clipped


def is_cut(length: int, found: str) -> bool:
    """Tell if a row of so many tokens may lack positions of those that were found in it."""
    return bool(found) and (length >= _MAX_POSITION - len(STORED_COLUMNS) or found.count(",") >= MAX_POSITIONS - 1)


def as_array(values: Iterable[int | str]) -> str:
    """Return numbers or tokens as PostgreSQL reads an array."""
    return "{" + ",".join(str(each) if isinstance(each, int) else _quote_element(each) for each in values) + "}"


def _quote_element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quote_token(token: str) -> str:
    """Return a token as PostgreSQL reads and writes it."""
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


def write_found(positions: Positions) -> str:
    """Return tokens as PostgreSQL writes those that it has found, all of whose positions have the weight A."""
    return " ".join(
        f"{quote_token(token)}:{','.join(f'{place}A' for place in places)}" for token, places in positions.items()
    )


def read_positions(places: str) -> list[int]:
    """Return the positions of a token, all of which have the weight A."""
    return [int(place) for place in places[:-1].split("A,")]


def write_columns(columns: Columns) -> str:
    return ",".join(f"{number}:{place}" for number, place in columns)


@lru_cache(10_000)
def read_columns(text: str) -> Columns:
    """Return the number of each column and the position it begins at."""
    pairs = (pair.split(":") for pair in text.split(",") if pair)
    return tuple((int(number), int(place)) for number, place in pairs)


class Phrase(Struct, frozen=True):
    """An atom as one of the indexes holds it: its tokens, the last of which may be the beginning of one."""

    tokens: tuple[str, ...]
    prefix: bool

    @classmethod
    def from_atom(cls, atom: QueryToken, *, stemmed: bool) -> "Phrase":
        tokens = tokenizer.list_stems(atom.text) if stemmed else tokenizer.list_tokens(atom.text)
        return cls(tuple(map(_to_lexeme, tokens)), atom.prefix)

    @property
    def is_word(self) -> bool:
        """True if it is one whole token, whose rows the vocabulary counts."""
        return len(self.tokens) == 1 and not self.prefix

    def write(self, *, loose: bool = False) -> str | None:
        """Return it as PostgreSQL reads a tsquery, `loose` without the order of the words; None if it has no tokens."""
        last = len(self.tokens) - 1
        words = [
            quote_token(token) + (":*" if self.prefix and number == last else "")
            for number, token in enumerate(self.tokens)
        ]
        if len(words) < 2:
            return words[0] if words else None
        return f"({(' & ' if loose else ' <-> ').join(words)})"

    def find(self, places: Mapping[str, str]) -> Sequence[int]:
        """Return the positions at which it ends, given those of the tokens found, as PostgreSQL writes them."""
        *others, last = self.tokens or ("",)
        if not all(token in places for token in others):
            return ()
        if self.prefix and last:
            ends = {
                at for token, at_places in places.items() if token.startswith(last) for at in read_positions(at_places)
            }
        else:
            ends = set(read_positions(places[last])) if last in places else set()
        for back, token in enumerate(reversed(others), 1):
            if not ends:
                return ()
            ends.intersection_update([place + back for place in read_positions(places[token])])
        return list(ends)


def index_queued(connection: Connection) -> None:
    """Index the memories that the transaction has changed, before it ends."""
    is_full = True
    while is_full:
        rows = connection.fetch(_TAKE_QUEUED, {"rows": _MAX_ROWS})
        is_full = len(rows) == _MAX_ROWS
        written: list[dict[str, Any]] = []
        size = 0
        for row in rows:
            written.append(_index_row(*row))
            size += len(row[3])
            if size > _MAX_CHARACTERS or row is rows[-1]:
                connection.execute(_INDEX, {"rows": json.dumps(written)})
                written, size = [], 0


# Both parts see the queue as it was before. The keys are in arrays so that PostgreSQL looks each of them up: these
# tables change more quickly than its statistics, by which it would choose a way to join them.
_TAKE_QUEUED = """
    with taken as (
        delete from unindexed where rid = any(array(select rid from unindexed order by rid limit :rows)))
    select m.rid, m.namespace, m.title, m.content, m.tags, m.source, m.segments, m.facts
    from memories m
    where m.rid = any(array(select rid from unindexed order by rid limit :rows))
"""

_INDEX = """
    insert into memory_texts as t (rid, namespace, stems, words, length, columns, clipped)
    select r.rid, r.namespace, cast(r.stems as tsvector), cast(r.words as tsvector), r.length, r.columns, r.clipped
    from json_to_recordset(cast(:rows as json)) as r(
        rid bigint, namespace text, stems text, words text, length integer, columns text, clipped boolean)
    on conflict (tenant, rid) do update set
        namespace = excluded.namespace, stems = excluded.stems, words = excluded.words, length = excluded.length,
        columns = excluded.columns, clipped = excluded.clipped
"""


def _index_row(rid: int, namespace: str, *texts: str | None) -> dict[str, Any]:
    columns = dict(zip(STORED_COLUMNS, texts, strict=True))
    stems, words = tokenize_columns(columns, stemmed=True), tokenize_columns(columns, stemmed=False)
    (stem_vector, clipped), (word_vector, word_clipped) = map(write_tsvector, (stems.positions, words.positions))
    return {
        "rid": rid,
        "namespace": namespace,
        "stems": stem_vector,
        "words": word_vector,
        "length": stems.length,
        "columns": write_columns(stems.columns),
        "clipped": clipped or word_clipped,
    }
