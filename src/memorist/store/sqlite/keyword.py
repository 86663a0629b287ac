"""
The keyword leg on FTS5.

FTS5 walks through the rows with a word almost for free; scoring and joining them is what costs. A natural question has
words that are in a tenth of all rows. So only rows with a rare word of the query, or a pair of its commoner ones, are
scored, with all words of the query: the *guard*. Its size is a number of rows, not a share, so that small stores are
ranked completely. If it leaves too few rows, the rest is ranked, too. If a filter lets only few memories through, those
are the guard.
"""

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import apsw

from memorist.forks import renew_after_fork
from memorist.records import Filter, Match, Query, Term
from memorist.store.database import Connection
from memorist.store.filters import (
    filter_conditions,
)
from memorist.store.records import KeywordMatches, Scope
from memorist.store.rows import MEMORIES_CHANGED_SINCE
from memorist.store.sqlite.bm25 import MEAN_LENGTH
from memorist.store.sqlite.dialect import SqliteConnection
from memorist.store.word_matching import (
    INDEX_COLUMNS,
    Atom,
    PastQuery,
    PastTerm,
    QueryWords,
    index_columns,
    inverse_document_frequency,
    match_texts,
    measure_coverage,
)
from memorist.text import tokenizer
from memorist.text.query import MAX_PHRASE_WORDS

STEMS, WORDS = "memories_stems", "memories_words"
INDEXES = (STEMS, WORDS)

# Chosen on LoCoMo's questions over 100,000 memories: a quarter of the time of ranking all, 99.6 % of the same ten best.
_GUARD_ROWS = 1500
_FILTERED_GUARD_ROWS = 3000  # a filter takes some away again
_SINGLE_WORD_SHARE = 0.6  # of the guard, for rows with one rare word
_PAIRED_WORDS = 4
_PAIR_FACTOR = 1.5  # words of one query are in the same row this much more often than by chance
_MIN_GUARDED = 20  # with fewer rows from behind the guard, the rest is ranked, too
_MAX_ATOMS = 128  # of one index in one search; SQLite's limits are higher
_MAX_ALL_WORDS = 8  # no text has all of more words, and looking for one costs time
MERGE_EVERY, _MERGE_PAGES = 4096, 2000  # rows added before segments are merged, and pages merged at a time
_MAX_FILTERED_SUBSTRING_ROWS, _MAX_SUBSTRING_ROWS = 2000, 20_000  # looking inside words means reading all rows
_MAX_COUNTS = 20_000  # remembered
_MAX_PROJECTS = 100  # whose statistics are remembered
_COUNTS_SECONDS, _COUNTS_DRIFT = 60.0, 0.02  # the age, and the change in rows, at which counts are read again


class KeywordLeg:
    """Full-text search in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._statistics = _WordStatistics()
        self._by_project: dict[Any, _WordStatistics] = {}

    def match(
        self,
        connection: Connection,
        query: Query,
        scope: Scope,
        limit: int,
        page: int,
        weights: Mapping[str, float],
    ) -> KeywordMatches:
        """Return memories with words of the query, best first: with all words, then some, then only the commonest."""
        search, filter = self.prepare(query, scope), scope.filter
        # The derived column of character pairs is weighted like the content.
        columns = {**weights, "segments": weights.get("content", 0.0)}
        search.values |= {"limit": limit, "min_found": min(limit, max(page, _MIN_GUARDED))}
        search.values |= {f"weight{number}": columns.get(column, 0.0) for number, column in enumerate(INDEX_COLUMNS)}
        found = None if query.raw is None else self._match_raw(connection, query.raw, search)
        raw, all_keys = None if found is None else query.raw, None
        if found is None:
            if not search.expressions:
                return KeywordMatches([])
            self.plan(connection, search)
            found, all_keys = _run(connection, search)
        if filter.as_of is not None:
            all_keys = None
            found += self.match_past(connection, filter, search.past_query(raw), columns)
            found = sorted(found, key=lambda match: (not match.has_all_words, -match.score, match.key))[:limit]
        # If there are other namespaces, the index cannot tell which words are unknown in this one.
        unknown = (atom.text for atom, count in search.counts.items() if not count or search.shares_index)
        return KeywordMatches(found, tuple(unknown), all_keys)

    def _match_raw(self, connection: Connection, expression: str, search: "KeywordSearch") -> list[Match] | None:
        """Return the matches of an expression in the index's own syntax; None if it is not valid."""
        # The index holds unspaced script as pairs of characters, and only terms are split into them.
        if any(len(run) > 2 for run in tokenizer.find_unspaced_runs(expression)):
            return None
        raw = replace(search, needs_all=True, all_first=False, is_narrow=False, literals=(), spare=[], substring=None)
        self.plan(connection, raw)
        raw.expressions = [_raw_expression(expression)]
        search.rows, search.counts, search.mean_length = raw.rows, raw.counts, raw.mean_length
        search.word_weights, search.shares_index = raw.word_weights, raw.shares_index
        try:
            return _run(connection, raw)[0]
        except apsw.SQLError:
            return None  # not the index's syntax after all: plain words

    def prepare(self, query: Query, scope: Scope) -> "KeywordSearch":
        """Translate a query for the index; `plan` decides which rows are scored."""
        hides = not scope.filter.superseded and scope.filter.as_of is None
        where, values = filter_conditions(replace(scope.filter, superseded=True) if hides else scope.filter)
        expressions = _expressions(query.terms, stemmed=query.stemmed)
        return KeywordSearch(
            expressions,
            where,
            values | {"namespace": self.namespace, "passing": None if scope.keys is None else str(scope.keys.tolist())},
            needs_all=not query.any_of,
            all_first=query.every and query.any_of,
            literals=tuple(term.text.lower() for term in query.terms if term.literal),
            spare=_expressions(query.spare, stemmed=query.stemmed),
            substring=_substring(query),
            is_narrow=scope.keys is not None and query.any_of and len(expressions) == 1,
            hidden_rows=_SUPERSEDED_ROWS if hides else None,
            walled=scope.filter.walled,
        )

    def plan(self, connection: Connection, search: "KeywordSearch") -> None:
        """Weight the atoms of a search by their frequency, and choose the rows that are worth scoring."""
        statistics = self._statistics_of(search.values["project"]) if search.walled else self._statistics
        rows, others, counts, search.mean_length = statistics.count(connection, search)
        search.rows, search.counts = rows, counts
        if rows > (_MAX_FILTERED_SUBSTRING_ROWS if search.where else _MAX_SUBSTRING_ROWS):
            search.substring = None
        search.shares_index = bool(others)
        search.is_unrestricted = not others and not search.where
        search.word_weights = {atom: inverse_document_frequency(count, rows) for atom, count in counts.items()}
        search.all_first = search.all_first and 1 < len(counts) <= _MAX_ALL_WORDS
        needs_guard = not search.needs_all and len(search.expressions) == 1 and rows > _GUARD_ROWS
        if needs_guard and not search.is_narrow:
            is_filtered = search.where and not search.walled  # what a wall takes away is not counted in the first place
            search.guard = _choose_guard(counts, rows, _FILTERED_GUARD_ROWS if is_filtered else _GUARD_ROWS)

    def _statistics_of(self, project: str) -> "_WordStatistics":
        if len(self._by_project) >= _MAX_PROJECTS:
            self._by_project.clear()
        return self._by_project.setdefault(project, _WordStatistics())

    def parse_raw(self, connection: Connection, expression: str) -> "Expression | None":
        """Return an expression in the index's own syntax with the index for it; None if it is not valid."""
        raw = _raw_expression(expression)
        try:
            connection.fetch(f"select 1 from {raw.index} where {raw.index} match ? limit 1", (expression,))
        except apsw.SQLError:
            return None
        return raw

    def match_past(
        self, connection: Connection, filter: Filter, query: PastQuery, weights: Mapping[str, float]
    ) -> list[Match]:
        """Match memories that have changed since `as_of` as they were, one by one: the indexes hold the present."""
        where, values = filter_conditions(filter, past=True)
        facts = "(select group_concat(f.text, char(10)) from facts f where f.rid = m.rid and f.created_at <= :as_of)"
        sql = f"""
            select m.rid, m.title, m.content, m.tags, m.source, {facts}
            from {MEMORIES_CHANGED_SINCE}
            where m.namespace = :namespace and m.deleted_at is null {where}
        """
        rows = connection.fetch(sql, values | {"namespace": self.namespace})
        texts = {rid: index_columns(*columns) for rid, *columns in rows}
        if query.raw is not None:
            matching = _match_raw_texts(texts, query.raw)
            texts = {rid: text for rid, text in texts.items() if rid in matching}
        return match_texts(texts, query, weights)


@dataclass(frozen=True, slots=True)
class Expression:
    """The atoms to look for in one index, and the expression for all of them together."""

    index: str
    atoms: tuple[Atom, ...]
    all_of: str
    required: tuple[Atom, ...] = ()  # those in `all_of`

    @property
    def any_of(self) -> str:
        return " OR ".join(atom.expression for atom in self.atoms)


@dataclass(slots=True)
class KeywordSearch:
    """A query translated for the index."""

    expressions: list[Expression]
    where: str
    values: dict[str, Any]
    needs_all: bool = False  # only rows with all words
    all_first: bool = False  # rows with all words first
    literals: tuple[str, ...] = ()
    spare: list[Expression] = field(default_factory=list)
    substring: str | None = None  # to look for inside words, if nothing else is found
    guard: str | None = None
    is_narrow: bool = False  # the filter lets so few memories through that they are the guard
    is_unrestricted: bool = False  # no filter and no other namespace: every row of the index may be found
    shares_index: bool = False  # there are other namespaces in the index
    hidden_rows: str | None = None  # a query for rows that must not be found
    walled: bool = False  # only the project `:project` counts
    mean_length: float | None = None  # of that project's memories, in tokens
    rows: int = 0
    counts: dict[Atom, int] = field(default_factory=dict)  # the number of rows with each atom
    word_weights: dict[Atom, float] = field(default_factory=dict)  # by inverse document frequency

    def visible(self, key: str) -> str:
        """Return the condition that the row with this key may be found, as ` and ...`."""
        return f"and {key} not in ({self.hidden_rows})" if self.hidden_rows else ""

    def join_wall(self, index: str) -> str:
        """Return the join that leaves the rows of an index which the caller may know of."""
        return f"cross join memories m on m.rid = {index}.rowid and {_IN_WALL}" if self.walled else ""

    def score(self, number: int, index: str) -> str:
        """Return the BM25 of a row of one expression's index."""
        if not self.walled:
            return f"-bm25({index}, {_WEIGHTS})"
        expression = self.expressions[number]
        atoms = expression.required if self.needs_all else expression.atoms
        self.values[f"idf{number}"] = json.dumps([self._bm25_idf(self.counts.get(atom, 0)) for atom in atoms])
        self.values["mean_length"] = self.mean_length
        return f"project_bm25({index}, :idf{number}, :mean_length, {_WEIGHTS})"

    def query_words(self) -> list[QueryWords]:
        return [QueryWords.from_atom(atom, weight, self.literals) for atom, weight in self.word_weights.items()]

    def past_query(self, raw: str | None = None) -> PastQuery:
        """Return the same query for texts that the indexes do not hold."""
        return PastQuery(
            self._past_terms(self.expressions),
            self.query_words(),
            self.needs_all,
            raw,
            self._past_terms(self.spare),
            self.substring,
        )

    def _past_terms(self, expressions: Sequence[Expression]) -> list[PastTerm]:
        """Return each atom with the weight that BM25 gives it."""
        return [
            PastTerm.from_atom(atom, self._bm25_idf(self.counts.get(atom, 0)), stemmed=expression.index == STEMS)
            for expression in expressions
            for atom in expression.atoms
        ]

    def _bm25_idf(self, count: int) -> float:
        return max(1e-6, math.log((self.rows - count + 0.5) / (count + 0.5))) if count <= self.rows else 1e-6


class _WordStatistics:
    """The numbers of rows with each atom, remembered for a while."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # Ctrl-C at the end of a `with` may leave it held: not against its own thread
        renew_after_fork(self)
        self._counts: dict[Any, Any] = {}
        self._expires = 0.0

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def count(self, connection: Connection, search: KeywordSearch) -> tuple[int, int, dict[Atom, int], float | None]:
        """
        Return the number of all rows, a number above 0 if there are other namespaces, and the rows of each atom.

        Of a walled search these are the rows of its project, whose mean length comes last.
        """
        queries: dict[Any, str] = {
            "rows": "select max(rid) from memories",
            "others": """
                select exists (select 1 from memories where namespace < :namespace)
                     + exists (select 1 from memories where namespace > :namespace)
            """,
        }
        if search.walled:
            queries = {"rows": f"select count(*) from memories m where {_IN_WALL}", "mean_length": MEAN_LENGTH}
        names: dict[str, str] = {}
        for expression in search.expressions:
            for atom in expression.atoms:
                name = f"atom{len(names)}"
                names[name] = atom.expression
                index, wall = expression.index, search.join_wall(expression.index)
                queries[atom] = f"select count(*) from {index} {wall} where {index} match :{name}"
        with self._lock:
            if time.monotonic() > self._expires or len(self._counts) > _MAX_COUNTS:
                self._counts, self._expires = {}, time.monotonic() + _COUNTS_SECONDS
            known = {key: self._counts[key] for key in queries if key in self._counts}
        before = known.pop("rows", None)
        known.pop("others", None)  # read every time: a remembered answer could be wrong
        values = search.values | names
        known |= self._read(connection, {key: sql for key, sql in queries.items() if key not in known}, values)
        if before is not None and abs(known["rows"] - before) > _COUNTS_DRIFT * before:
            with self._lock:
                self._counts = {}
            known = self._read(connection, queries, values)
        counts = {key: known[key] for key in queries if isinstance(key, Atom)}
        return int(known["rows"]), int(known.get("others", 0)), counts, known.get("mean_length")

    def _read(self, connection: Connection, queries: Mapping[Any, str], values: Mapping[str, Any]) -> dict[Any, Any]:
        columns = ", ".join(f"({sql})" for sql in queries.values())
        (counts,) = connection.fetch(f"select {columns}", values)
        new = dict(zip(queries, (count or 0 for count in counts), strict=True))
        with self._lock:
            self._counts |= new
        return new


def merge_index_segments(connection: Connection) -> None:
    """Merge segments that many small writes left behind: every search has to read each of them."""
    for index in INDEXES:
        connection.execute(f"insert into {index}({index}, rank) values ('merge', ?)", (_MERGE_PAGES,))


def _substring(query: Query) -> str | None:
    """Return the text to look for inside words: the only word of the query, if it is long enough."""
    text = query.terms[0].text.lower() if len(query.terms) == 1 else ""
    return text if len(text) > 2 else None


def _raw_expression(expression: str) -> Expression:
    return Expression(WORDS if "*" in expression else STEMS, (), expression)


def _match_raw_texts(texts: Mapping[int, Mapping[str, str]], expression: str) -> set[int]:
    """Return the texts that match an expression in the index's own syntax, by an index made of them."""
    stem = "" if "*" in expression else "porter "
    tokenize = f"tokenize = '{stem}unicode61 remove_diacritics 2'"
    with closing(SqliteConnection(":memory:")) as index, suppress(apsw.SQLError):
        index.execute(f"create virtual table then_text using fts5({', '.join(INDEX_COLUMNS)}, {tokenize})")
        index.executemany(
            f"insert into then_text(rowid, {', '.join(INDEX_COLUMNS)}) values (?, ?, ?, ?, ?, ?, ?)",
            [(rid, *(text.get(column) for column in INDEX_COLUMNS)) for rid, text in texts.items()],
        )
        return {rid for (rid,) in index.fetch("select rowid from then_text where then_text match ?", (expression,))}
    return set()  # not the index's syntax


def _expressions(terms: Sequence[Term], *, stemmed: bool) -> list[Expression]:
    """Return the terms by index: prefixes in the unstemmed one, all others in the stemmed one if it is wanted."""
    found = []
    for index in (STEMS, WORDS):
        atoms: dict[Atom, None] = {}
        required: list[Atom] = []
        for term in terms:
            if index == (STEMS if stemmed and not term.prefix else WORDS):
                together, alternatives = _split_term(term)
                required += together
                atoms |= dict.fromkeys(alternatives)
        if atoms:
            all_of = " AND ".join(atom.expression for atom in required[:_MAX_ATOMS])
            found.append(Expression(index, tuple(atoms)[:_MAX_ATOMS], all_of, tuple(required[:_MAX_ATOMS])))
    return found


def _split_term(term: Term) -> tuple[list[Atom], list[Atom]]:
    """Return a term as atoms that together ask for all of it, and as atoms any of which matches some of it."""
    together, alternatives = [], []
    for run, unspaced in tokenizer.split_unspaced(term.text):
        if not unspaced:
            if any(character.isalnum() for character in run):
                alternatives.append(Atom(run, term.prefix))
                together.append(alternatives[-1])
        elif len(run) == 1:
            alternatives.append(Atom(run, prefix=True))  # every character begins a pair
            together.append(alternatives[-1])
        else:
            pairs = [run[at : at + 2] for at in range(len(run) - 1)]
            together.append(Atom(" ".join(pairs[:MAX_PHRASE_WORDS])))
            alternatives += [together[-1]] if term.exact else [Atom(pair) for pair in pairs]
    return together, alternatives


def _choose_guard(counts: Mapping[Atom, int], rows: int, budget: int) -> str | None:
    """Return the expression for the rows worth scoring: rare atoms alone, commoner ones in pairs; None for all."""
    if sum(counts.values()) <= 1.5 * budget:
        return None
    rare_first = sorted((count, atom.expression) for atom, count in counts.items())
    singles, total = 0, 0.0
    while singles < len(rare_first) and total + rare_first[singles][0] <= _SINGLE_WORD_SHARE * budget:
        total += rare_first[singles][0]
        singles += 1
    parts = [expression for _, expression in rare_first[:singles]]
    rest = rare_first[singles : singles + _PAIRED_WORDS]
    pairs = sorted(
        (_PAIR_FACTOR * first[0] * second[0] / rows, first[1], second[1])
        for place, first in enumerate(rest)
        for second in rest[place + 1 :]
    )
    for expected, first_word, second_word in pairs:
        if parts and total + expected > budget:
            break
        parts.append(f"({first_word} AND {second_word})")
        total += expected
    return " OR ".join(parts) or rare_first[0][1]


def _run(connection: Connection, search: KeywordSearch) -> tuple[list[Match], list[int] | None]:
    """
    Rank the rows behind the guard and, if they are too few, the rest in one more statement.

    The second result are the keys of all rows with a word, if the guard is everything that may be found.
    """
    for number, expression in enumerate(search.expressions):
        wanted = expression.all_of if search.needs_all else expression.any_of
        search.values |= {f"wanted{number}": wanted, f"all{number}": expression.all_of}
    search.values["guard"] = search.guard
    found: dict[int, Match] = {}
    _collect_matches(connection, found, [_select_ranked(search, guarded=True)], search)
    all_keys = list(found) if search.is_narrow and found else None
    stages = _list_fallbacks(search, len(found)) if len(found) < search.values["min_found"] else []
    if stages:
        _collect_matches(connection, found, stages, search)
    return list(found.values())[: search.values["limit"]], all_keys


def _collect_matches(connection: Connection, found: dict[int, Match], stages: list[str], search: KeywordSearch) -> None:
    """Add the rows of some queries that are not found yet, in the order of the queries."""
    union = " union all ".join(f"select {place} as stage, * from ({stage})" for place, stage in enumerate(stages))
    sql = f"""
        select u.rid, u.score, u.has_all, iif(row_number() over best <= :limit, {_INDEXED_TEXT}, '')
        from ({union}) u cross join memories m on m.rid = u.rid and m.namespace = :namespace
        window best as (order by u.stage, u.has_all desc, u.score desc, u.rid desc)
        order by u.stage, u.has_all desc, u.score desc, u.rid desc
    """
    words = search.query_words()
    for rid, score, has_all, text in connection.fetch(sql, search.values):
        if rid not in found:
            found[rid] = Match(rid, score, bool(has_all), measure_coverage(words, text) if score else 0.0)


_INDEXED_TEXT = "concat_ws(' ', m.title, m.tags, m.source, m.segments, m.facts, m.content)"


def _list_fallbacks(search: KeywordSearch, found: int) -> list[str]:
    """Return queries for all rows with one of the words, for rows with only common words, and for parts of words."""
    stages = [_select_ranked(search, guarded=False)] if search.guard is not None else []
    if search.spare:
        stages.append(_select_spare(search))
    if search.substring is not None and not found:
        stages.append(_select_substring(search))
    return stages


def _select_ranked(search: KeywordSearch, *, guarded: bool) -> str:
    """Return a query for rows scored by BM25, with the scores of several indexes added up."""
    scored = " union all ".join(
        _select_scored(search, number, expression.index, guarded=guarded)
        for number, expression in enumerate(search.expressions)
    )
    if len(search.expressions) > 1:
        having = f"having count(*) = {len(search.expressions)}" if search.needs_all else ""
        scored = f"select rid, sum(score) as score from ({scored}) group by rid {having}"
    return f"""
        select s.rid, s.score, {_has_all_words(search)} as has_all
        from ({scored}) s
        order by has_all desc, s.score desc, s.rid desc
        limit {-1 if guarded and search.is_narrow else ":limit"}
    """


_IN_WALL = "m.namespace = :namespace and m.project = :project and m.deleted_at is null"
PASSING = "select value from json_each(:passing)"
_SUPERSEDED_ROWS = """
    select rid from memories indexed by memories_superseded
    where namespace = :namespace and valid_until is not null and deleted_at is null
"""
_WEIGHTS = ", ".join(f":weight{number}" for number in range(len(INDEX_COLUMNS)))


def _select_scored(search: KeywordSearch, number: int, index: str, *, guarded: bool) -> str:
    score = f"""
        select {index}.rowid as rid, {search.score(number, index)} as score
        from {index}
    """
    joined = f"cross join memories m on m.rid = {index}.rowid"
    filtered = f"and m.namespace = :namespace {search.where}"
    visible = search.visible(f"+{index}.rowid")
    if guarded and search.is_narrow:
        guard = PASSING
    elif guarded and search.guard is not None and search.is_unrestricted:
        guard = f"select rowid from {index} where {index} match :guard"
    elif guarded and search.guard is not None:
        guard = f"select {index}.rowid from {index} {joined} where {index} match :guard {filtered}"
    elif search.is_unrestricted:
        return f"{score} where {index} match :wanted{number} {visible}"
    else:
        return f"{score} {joined} where {index} match :wanted{number} {visible} {filtered}"
    # The plus keeps SQLite from searching the index for each row behind the guard: a hundred times slower.
    return f"{score} where {index} match :wanted{number} and +{index}.rowid in ({guard}) {visible}"


def _has_all_words(search: KeywordSearch) -> str:
    """Return the condition that a row has every word, and symbols such as the ++ of C++ as they were written."""
    tests = []
    if search.all_first:
        tests += [
            f"s.rid in (select rowid from {expression.index} where {expression.index} match :all{number})"
            for number, expression in enumerate(search.expressions)
        ]
    for number, literal in enumerate(search.literals):
        search.values[f"literal{number}"] = literal
        written = f"instr(lower(concat_ws(' ', m.title, m.content)), :literal{number}) > 0"
        tests.append(f"(select {written} from memories m where m.rid = s.rid)")
    return " and ".join(tests) or "0"


def _select_spare(search: KeywordSearch) -> str:
    """Return a query for the newest rows with nothing but words so common that they say little."""
    index = search.spare[0].index
    search.values["spare"] = search.spare[0].any_of
    return f"""
        select {index}.rowid as rid, 0.0 as score, 0 as has_all
        from {index} cross join memories m on m.rid = {index}.rowid
        where {index} match :spare and m.namespace = :namespace {search.where} {search.visible("m.rid")}
        order by {index}.rowid desc limit :min_found
    """


def contains_condition(substring: str) -> tuple[str, str]:
    """Return the condition that a memory `m` contains `:substring`, and its value. SQL's lower() knows ASCII only."""
    if substring.isascii():
        return "instr(lower(m.content), :substring) > 0", substring
    return "instr(folded(cast(m.content as blob)), :substring) > 0", tokenizer.fold(substring)


def _select_substring(search: KeywordSearch) -> str:
    """Return a query for the newest rows with the only word of the query inside a longer word."""
    contains, search.values["substring"] = contains_condition(search.substring or "")
    return f"""
        select m.rid, 1e-6 as score, 0 as has_all
        from memories m
        where m.namespace = :namespace and m.deleted_at is null and {contains} {search.where}
          {search.visible("m.rid")}
        order by m.rid desc limit :min_found
    """
