"""
A keyword query as both backends look it up: the atoms of its terms, and the rows that are worth scoring.

Finding the rows with a word is cheap; scoring and joining them is what costs. A natural question has words that are in
a tenth of all rows. So only rows with a rare word of the query, or a pair of its commoner ones, are scored, with all
words of the query: the *pruning*. Its size is a number of rows, not a share, so that small stores are ranked whole. If
it leaves too few rows, the rest is ranked, too. If a filter lets only few memories through, those are the pruning.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Self

import apsw
from msgspec import Struct, field
from msgspec.structs import replace

from memorist.arguments import Filter
from memorist.records import MAX_PHRASE_WORDS, Match, Query, Term
from memorist.store.database import Connection
from memorist.store.filters import MAX_SCOPE_KEYS, SUPERSEDED_KEYS, filter_conditions
from memorist.store.records import Scope
from memorist.store.rows import MEMORIES_CHANGED_SINCE
from memorist.store.word_matching import (
    INDEX_COLUMNS,
    PastQuery,
    PastTerm,
    QueryToken,
    QueryWords,
    bm25_idf,
    index_columns,
    inverse_document_frequency,
    match_texts,
)
from memorist.text import tokenizer

STEMS, WORDS = "memories_stems", "memories_words"  # the two indexes: a stem is no beginning of a word

# Chosen on LoCoMo's questions over 100,000 memories: a quarter of the time of ranking all, 99.6 % of the same ten best.
PRUNING_ROWS = 1500
FILTERED_PRUNING_ROWS = 3000  # a filter takes some away again
_SINGLE_WORD_SHARE = 0.6  # of the pruning, for rows with one rare word
_UNKNOWN_PAIR_SHARE = 0.6  # of the weight of an unknown word: chosen on XQuAD's Chinese and Thai questions
_PAIRED_WORDS = 4
_PAIR_FACTOR = 1.5  # words of one query are in the same row this much more often than by chance
MIN_PRUNED = 20  # with fewer rows from behind the pruning, the rest is ranked, too
_MAX_ATOMS = 128  # of one index in one search; the databases' limits are higher
_MAX_ALL_WORDS = 8  # no text has all of more words, and looking for one costs time
_MAX_FILTERED_SUBSTRING_ROWS, _MAX_SUBSTRING_ROWS = 2000, 20_000  # looking inside words means reading all rows
MAX_FACET_ROWS = 30_000  # rows with any of the words; of more, only those behind the pruning are counted

Pruning = list[tuple[QueryToken, ...]]


class Expression(Struct, frozen=True):
    """The atoms to look for in one index, and the expression for all of them together."""

    index: str
    atoms: tuple[QueryToken, ...]
    all_of: str
    required: tuple[QueryToken, ...] = ()  # those in `all_of`

    @property
    def any_of(self) -> str:
        return " OR ".join(atom.expression for atom in self.atoms)


class KeywordSearch(Struct):
    """A query translated for the index."""

    expressions: list[Expression]
    where: str
    values: dict[str, Any]
    needs_all: bool = False  # only rows with all words
    all_first: bool = False  # rows with all words first
    literals: tuple[str, ...] = ()
    stopwords: list[Expression] = field(default_factory=list)
    substring: str | None = None  # to look for inside words, if nothing else is found
    pruning: Pruning | None = None  # a row must have the atoms of one set to be scored
    is_narrow: bool = False  # the filter lets so few memories through that they are the pruning
    is_unrestricted: bool = False  # no filter and no other namespace: every row of the index may be found
    shares_index: bool = False  # there are other namespaces in the index
    counts_files: bool = False  # the words of this namespace's files are counted as well
    has_strangers: bool = False  # some of them are not that of this namespace's own files
    hidden_rows: str | None = None  # a query for rows that must not be found
    restricted: bool = False  # only the project `:project` counts
    mean_length: float | None = None  # of that project's or namespace's memories, in tokens
    rows: int = 0
    counts: dict[QueryToken, int] = field(default_factory=dict)  # the number of rows with each atom
    word_weights: dict[QueryToken, float] = field(default_factory=dict)  # by inverse document frequency
    stemmed: bool = True

    @classmethod
    def from_query(cls, query: Query, scope: Scope, namespace: str, listed: str | None = None) -> Self:
        """Translate a query; `listed` are the keys of a scope, as the database reads them."""
        hides = not scope.filter.superseded and scope.filter.as_of is None
        filter = replace(scope.filter, superseded=True) if hides else scope.filter
        where, values = filter_conditions(filter if scope.metadata_test is None else replace(filter, metadata=None))
        if scope.metadata_test is not None:
            where, values = where + scope.metadata_test[0], values | scope.metadata_test[1]
        if scope.is_listed:
            where, hides = f" and @plain(m.rid) {'in' if scope.excluded is None else 'not in'} @keys(:listed)", False
        expressions = list_expressions(query.terms, stemmed=query.stemmed)
        return cls(
            expressions,
            where,
            values | {"namespace": namespace, "listed": listed},
            needs_all=not query.any_of,
            all_first=query.every and query.any_of,
            literals=tuple(term.text.lower() for term in query.terms if term.literal),
            stopwords=list_expressions(query.stopwords, stemmed=query.stemmed),
            substring=find_substring(query),
            is_narrow=(
                scope.keys is not None and len(scope.keys) <= MAX_SCOPE_KEYS and query.any_of and len(expressions) == 1
            ),
            hidden_rows=SUPERSEDED_KEYS if hides else None,
            restricted=scope.filter.restricted,
            stemmed=query.stemmed,
        )

    def weigh(self, rows: int, counts: dict[QueryToken, int]) -> None:
        """Weight the atoms by their frequency, and choose the rows that are worth scoring."""
        self.rows, self.counts = rows, counts
        if rows > (_MAX_FILTERED_SUBSTRING_ROWS if self.where else _MAX_SUBSTRING_ROWS):
            self.substring = None
        self.word_weights = {atom: _weigh_word(atom, count, rows) for atom, count in counts.items()}
        self.all_first = self.all_first and 1 < len(counts) <= _MAX_ALL_WORDS
        needs_pruning = not self.needs_all and len(self.expressions) == 1 and rows > PRUNING_ROWS
        if needs_pruning and not self.is_narrow:
            is_filtered = self.where and not self.restricted  # what a wall takes away is not counted in the first place
            self.pruning = choose_pruning(counts, rows, FILTERED_PRUNING_ROWS if is_filtered else PRUNING_ROWS)

    def visible(self, key: str) -> str:
        """Return the condition that the row with this key may be found, as ` and ...`."""
        return f"and {key} not in ({self.hidden_rows})" if self.hidden_rows else ""

    def query_words(self) -> list[QueryWords]:
        return [QueryWords.from_atom(atom, weight, self.literals) for atom, weight in self.word_weights.items()]

    def list_unknown(self) -> tuple[str, ...]:
        """Return the words that may be in no memory: where files are counted, too, any of them."""
        return tuple(atom.text for atom, count in self.counts.items() if not count or self.counts_files)

    def past_query(self, raw: str | None = None) -> PastQuery:
        """Return the same query for texts that the indexes do not hold."""
        return PastQuery(
            self._past_terms(self.expressions),
            self.query_words(),
            self.needs_all,
            raw,
            self._past_terms(self.stopwords),
            self.substring,
            raw is not None and is_raw_stemmed(raw, stemmed=self.stemmed),
        )

    def _past_terms(self, expressions: Sequence[Expression]) -> list[PastTerm]:
        """Return each atom with the weight that BM25 gives it."""
        return [
            PastTerm.from_atom(atom, bm25_idf(self.counts.get(atom, 0), self.rows), stemmed=expression.index == STEMS)
            for expression in expressions
            for atom in expression.atoms
        ]


def _weigh_word(atom: QueryToken, count: int, rows: int) -> float:
    """Return the weight of a word that is in so many rows; a pair of characters in none may be of two words."""
    weight = inverse_document_frequency(count, rows)
    return weight if count or not tokenizer.has_unspaced(atom.text) else _UNKNOWN_PAIR_SHARE * weight


def find_substring(query: Query) -> str | None:
    """Return the text to look for inside words: the only word of the query, if it is long enough."""
    text = query.terms[0].text.lower() if len(query.terms) == 1 else ""
    return text if len(text) > 2 else None


def is_raw_stemmed(expression: str, *, stemmed: bool) -> bool:
    """Tell if an expression in the index's own syntax is for the stemmed index: a stem is no beginning of a word."""
    return stemmed and "*" not in expression


def _match_raw_texts(texts: Mapping[int, Mapping[str, str]], expression: str, *, stemmed: bool) -> set[int]:
    """Return the texts that match an expression in the index's own syntax, by an index made of them."""
    tokenize = tokenizer.fts5_option(stemmed=stemmed)
    with closing(apsw.Connection(":memory:")) as index, suppress(apsw.SQLError):
        index.execute(f"create virtual table then_text using fts5({', '.join(INDEX_COLUMNS)}, {tokenize})")
        index.executemany(
            f"insert into then_text(rowid, {', '.join(INDEX_COLUMNS)}) values (?, ?, ?, ?, ?, ?, ?)",
            [(rid, *(text.get(column) for column in INDEX_COLUMNS)) for rid, text in texts.items()],
        )
        found: Any = index.execute("select rowid from then_text where then_text match ?", (expression,))
        return {rid for (rid,) in found}
    return set()  # not the index's syntax


def list_expressions(terms: Sequence[Term], *, stemmed: bool) -> list[Expression]:
    """Return the terms by index: prefixes in the unstemmed one, all others in the stemmed one if it is wanted."""
    found = []
    for index in (STEMS, WORDS):
        atoms: dict[QueryToken, None] = {}
        required: list[QueryToken] = []
        for term in terms:
            if index == (STEMS if stemmed and not term.prefix else WORDS):
                together, alternatives = _split_term(term)
                required += together
                atoms |= dict.fromkeys(alternatives)
        if atoms:
            all_of = " AND ".join(atom.expression for atom in required[:_MAX_ATOMS])
            found.append(Expression(index, tuple(atoms)[:_MAX_ATOMS], all_of, tuple(required[:_MAX_ATOMS])))
    return found


def _split_term(term: Term) -> tuple[list[QueryToken], list[QueryToken]]:
    """Return a term as atoms that together ask for all of it, and as atoms any of which matches some of it."""
    together, alternatives = [], []
    for run, unspaced in tokenizer.split_unspaced(term.text):
        if not unspaced:
            if any(character.isalnum() for character in run):
                alternatives.append(QueryToken(run, term.prefix))
                together.append(alternatives[-1])
        elif len(run) == 1:
            alternatives.append(QueryToken(run, prefix=True))  # every character begins a pair
            together.append(alternatives[-1])
        else:
            pairs = [run[at : at + 2] for at in range(len(run) - 1)]
            together.append(QueryToken(" ".join(pairs[:MAX_PHRASE_WORDS])))
            alternatives += [together[-1]] if term.exact else [QueryToken(pair) for pair in pairs]
    return together, alternatives


def choose_pruning(counts: Mapping[QueryToken, int], rows: int, budget: int) -> Pruning | None:
    """Return the atoms of the rows worth scoring: rare ones alone, commoner ones in pairs; None for all rows."""
    if sum(counts.values()) <= 1.5 * budget:
        return None
    rare_first = sorted(((count, atom) for atom, count in counts.items()), key=lambda it: (it[0], it[1].expression))
    singles, total = 0, 0.0
    while singles < len(rare_first) and total + rare_first[singles][0] <= _SINGLE_WORD_SHARE * budget:
        total += rare_first[singles][0]
        singles += 1
    pruning: Pruning = [(atom,) for _, atom in rare_first[:singles]]
    rest = rare_first[singles : singles + _PAIRED_WORDS]
    pairs = sorted(
        (
            (_PAIR_FACTOR * first * second / rows, one, other)
            for place, (first, one) in enumerate(rest)
            for second, other in rest[place + 1 :]
        ),
        key=lambda pair: (pair[0], pair[1].expression, pair[2].expression),
    )
    for expected, one, other in pairs:
        if pruning and total + expected > budget:
            break
        pruning.append((one, other))
        total += expected
    return pruning or [(rare_first[0][1],)]


def match_past(
    connection: Connection, namespace: str, filter: Filter, query: PastQuery, weights: Mapping[str, float]
) -> list[Match]:
    """Match memories that have changed since `as_of` as they were, one by one: the indexes hold the present."""
    where, values = filter_conditions(filter, past=True)
    facts = """(
        select string_agg(f.text, :newline order by f.fact) from facts f
        where f.rid = m.rid and f.created_at <= :as_of)"""
    sql = f"""
        select m.rid, m.title, m.content, m.tags, m.source, {facts}
        from {MEMORIES_CHANGED_SINCE}
        where m.namespace = :namespace and m.deleted_at is null {where}
    """
    rows = connection.fetch(sql, values | {"namespace": namespace, "newline": "\n"})
    texts = {rid: index_columns(*columns) for rid, *columns in rows}
    if query.raw is not None:
        matching = _match_raw_texts(texts, query.raw, stemmed=query.raw_stemmed)
        texts = {rid: text for rid, text in texts.items() if rid in matching}
    return match_texts(texts, query, weights)
