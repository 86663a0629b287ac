"""
The keyword leg: on the inverted index in memory where there is one, and on FTS5.

FTS5 walks through the rows with a word almost for free; scoring is what costs.
"""

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

import apsw
from msgspec import field
from msgspec.structs import replace

from memorist.arguments import NO_FILTER
from memorist.forks import renew_after_fork
from memorist.records import Match, Query
from memorist.store.database import Connection
from memorist.store.documents import namespace_beside
from memorist.store.image_follower import ImageFollower
from memorist.store.keyword_ranking import INDEXED_TEXT, can_rank
from memorist.store.keyword_search import (
    MIN_PRUNED,
    STEMS,
    WORDS,
    Expression,
    KeywordSearch,
    is_raw_stemmed,
    match_past,
)
from memorist.store.records import NO_MATCHES, KeywordMatches, Matches, Scope
from memorist.store.sqlite.bm25 import ALL_ROWS, COUNTED, IN_FAMILY, IN_PROJECT, MEAN_LENGTH, read_all_rows
from memorist.store.word_matching import (
    INDEX_COLUMNS,
    QueryToken,
    bm25_idf,
    measure_coverage,
    weigh_columns,
)
from memorist.text import tokenizer

INDEXES = (STEMS, WORDS)

MERGE_EVERY, _MERGE_PAGES = 4096, 2000  # rows added before segments are merged, and pages merged at a time
_MAX_COUNTS = 20_000  # remembered
_MAX_PROJECTS = 100  # whose statistics are remembered
_COUNTS_SECONDS, _COUNTS_DRIFT = 60.0, 0.02  # the age, and the change in rows, at which counts are read again


class KeywordLeg:
    """Full-text search in one namespace."""

    def __init__(self, namespace: str, follower: ImageFollower) -> None:
        self.namespace = namespace
        self._follower = follower
        self._by_counted: dict[Any, _WordStatistics] = {}
        self._has_strangers = False  # when a search looked last

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
        columns = weigh_columns(weights)
        search.values |= {"limit": limit, "min_found": min(limit, max(page, MIN_PRUNED))}
        search.values |= {f"weight{number}": columns.get(column, 0.0) for number, column in enumerate(INDEX_COLUMNS)}
        found = None if query.raw is None else self._match_raw(connection, query.raw, search)
        raw, all_keys = None if found is None else query.raw, None
        if found is None:
            if not search.expressions:
                return KeywordMatches(NO_MATCHES)
            found, all_keys = self._rank(connection, search)
        if filter.as_of is not None:
            all_keys = None
            found += match_past(connection, self.namespace, filter, search.past_query(raw), columns)
            found = sorted(found, key=lambda match: (not match.has_all_words, -match.score, match.key))[:limit]
        return KeywordMatches(Matches.of(found), search.list_unknown(), all_keys)

    def _rank(self, connection: Connection, search: "Fts5Search") -> tuple[list[Match], list[int] | None]:
        """Return the matches of a search, and all keys if they are known."""
        started = time.thread_time()  # time at work: a busy machine makes no search long
        self.plan(connection, search)
        found = _run(connection, search)
        if can_rank(search):
            self._follower.charge(time.thread_time() - started)
        return found

    def _match_raw(self, connection: Connection, expression: str, search: "Fts5Search") -> list[Match] | None:
        """Return the matches of an expression in the index's own syntax; None if it is not valid."""
        # The index holds unspaced script as pairs of characters, and only terms are split into them.
        if any(len(run) > 2 for run in tokenizer.find_unspaced_runs(expression)):
            return None
        raw = replace(
            search, needs_all=True, all_first=False, is_narrow=False, literals=(), stopwords=[], substring=None
        )
        self.plan(connection, raw)
        raw.expressions = [_raw_expression(expression, stemmed=search.stemmed)]
        search.rows, search.counts, search.mean_length = raw.rows, raw.counts, raw.mean_length
        search.word_weights, search.shares_index = raw.word_weights, raw.shares_index
        search.counts_files = raw.counts_files
        try:
            return _run(connection, raw)[0]
        except apsw.SQLError:
            return None  # not the index's syntax after all: plain words

    def prepare(self, query: Query, scope: Scope) -> "Fts5Search":
        """Translate a query for the index; `plan` decides which rows are scored."""
        search = Fts5Search.from_query(query, scope, self.namespace)
        search.scope = scope
        search.values["beside"] = namespace_beside(self.namespace)
        return search

    def plan(self, connection: Connection, search: "Fts5Search") -> None:
        """Weight the atoms of a search by their frequency, and choose the rows that are worth scoring."""
        listed = search.scope.keys if search.scope.excluded is None else search.scope.excluded
        search.values["listed"] = None if listed is None else str(listed.tolist())
        search.has_strangers = self._has_strangers and not search.restricted
        known = self._count(connection, search)
        if not search.restricted and bool(known["strangers"]) != search.has_strangers:  # some have come or gone
            search.has_strangers = self._has_strangers = bool(known["strangers"])
            known = self._count(connection, search)
        search.shares_index = bool(known.get("strangers") or known.get("beside"))
        search.counts_files = bool(known.get("beside"))
        search.is_unrestricted = not search.shares_index and not search.where
        search.mean_length = known.get("mean_length")
        counts = {key: count for key, count in known.items() if isinstance(key, QueryToken)}
        words = {atom for expression in search.expressions for atom in expression.atoms}
        search.weigh(int(known["rows"]), {atom: count for atom, count in counts.items() if atom in words})
        search.phrase_counts = {atom: count for atom, count in counts.items() if atom not in words}

    def _count(self, connection: Connection, search: "Fts5Search") -> dict[Any, Any]:
        statistics = self._statistics_of(search.counted, search.values.get("project") if search.restricted else None)
        return statistics.count(connection, search)

    def _statistics_of(self, counted: str | None, project: Any) -> "_WordStatistics":
        if len(self._by_counted) >= _MAX_PROJECTS:
            self._by_counted.clear()
        return self._by_counted.setdefault((counted, project), _WordStatistics())

    def parse_raw(self, connection: Connection, expression: str, *, stemmed: bool) -> "Expression | None":
        """Return an expression in the index's own syntax with the index for it; None if it is not valid."""
        raw = _raw_expression(expression, stemmed=stemmed)
        try:
            # No row is asked for: the index reads the expression, and looks up its words, but walks through no rows.
            connection.fetch(f"select 1 from {raw.index} where {raw.index} match ? and rowid < 1", (expression,))
        except apsw.SQLError:
            return None
        return raw


class Fts5Search(KeywordSearch):
    """A query translated for FTS5."""

    scope: Scope = field(
        default_factory=lambda: Scope(NO_FILTER)
    )  # whose keys are written out only where FTS5 is asked

    phrase_counts: dict[QueryToken, int] = field(default_factory=dict)  # the number of rows with words joined to one

    @property
    def pruning_expression(self) -> str | None:
        """The pruning in the syntax of the index."""
        if self.pruning is None:
            return None
        return " OR ".join(f"({' AND '.join(atom.expression for atom in atoms)})" for atoms in self.pruning)

    def join_wall(self, index: str) -> str:
        """Return the join that leaves the rows of an index which the caller may know of."""
        return f"cross join memories m on m.rid = {index}.rowid and {IN_PROJECT}" if self.restricted else ""

    def join_counted(self, index: str) -> str:
        """Return the join that leaves the rows of an index which count."""
        return f"cross join memories m on m.rid = {index}.rowid and {self.counted}" if self.counted else ""

    def list_scored(self, expression: Expression) -> tuple[QueryToken, ...]:
        """Return the atoms whose frequency a score is made of: where all are needed, words may be joined to phrases."""
        return expression.required if self.needs_all else expression.atoms

    @property
    def counted(self) -> str | None:
        """The condition on memories `m` whose numbers count; None for the whole index, as FTS5 counts."""
        return IN_PROJECT if self.restricted else IN_FAMILY if self.has_strangers else None

    def score(self, number: int, index: str) -> str:
        """Return the BM25 of a row of one expression's index."""
        if not self.counted:
            return f"-bm25({index}, {_WEIGHTS})"
        expression = self.expressions[number]
        known = self.counts | self.phrase_counts
        idfs = [bm25_idf(known.get(atom, 0), self.rows) for atom in self.list_scored(expression)]
        self.values[f"idf{number}"] = json.dumps(idfs)
        self.values["mean_length"] = self.mean_length
        return f"own_bm25({index}, :idf{number}, :mean_length, {_WEIGHTS})"


class _WordStatistics:
    """The numbers of rows with each atom, remembered for a while."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # Ctrl-C at the end of a `with` may leave it held: not against its own thread
        renew_after_fork(self)
        self._counts: dict[Any, Any] = {}
        self._expires = 0.0

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def count(self, connection: Connection, search: Fts5Search) -> dict[Any, Any]:
        """
        Return the number of all `rows`, of those with each atom, and of `strangers` and what is `beside`.

        Rows of others do not count: neither what is beyond the wall of a project, nor what is of other namespaces. Of
        the rest, the mean length is there, too.
        """
        queries: dict[Any, str] = {"rows": ALL_ROWS}
        if search.counted:
            queries = {
                "rows": f"select count(*) from {COUNTED.format(search.counted)}",
                "mean_length": MEAN_LENGTH.format(search.counted),
            }
        if not search.restricted:
            queries |= {"strangers": _STRANGERS, "beside": _BESIDE}
        names: dict[str, str] = {}
        for expression in search.expressions:
            for atom in dict.fromkeys((*expression.atoms, *search.list_scored(expression))):
                name = f"atom{len(names)}"
                names[name] = atom.expression
                index, wall = expression.index, search.join_counted(expression.index)
                queries[atom] = f"select count(*) from {index} {wall} where {index} match :{name}"
        with self._lock:
            if time.monotonic() > self._expires or len(self._counts) > _MAX_COUNTS:
                self._counts, self._expires = {}, time.monotonic() + _COUNTS_SECONDS
            known = {key: self._counts[key] for key in queries if key in self._counts}
        before = known.pop("rows", None)
        for name in ("strangers", "beside"):  # read every time: a remembered answer could be wrong
            known.pop(name, None)
        values = search.values | names
        known |= self._read(connection, {key: sql for key, sql in queries.items() if key not in known}, values)
        if before is not None and abs(known["rows"] - before) > _COUNTS_DRIFT * before:
            with self._lock:
                self._counts = {}
            known = self._read(connection, queries, values)
        return {key: known[key] for key in queries}

    def _read(self, connection: Connection, queries: Mapping[Any, str], values: Mapping[str, Any]) -> dict[Any, Any]:
        columns = ", ".join(f"({sql})" for sql in queries.values())
        (counts,) = connection.fetch(f"select {columns}", values)
        new = dict(zip(queries, (count or 0 for count in counts), strict=True))
        if isinstance(new.get("rows"), bytes):
            new["rows"] = read_all_rows(new["rows"])
        with self._lock:
            self._counts |= new
        return new


def merge_index_segments(connection: Connection) -> None:
    """Merge segments that many small writes left behind: every search has to read each of them."""
    for index in INDEXES:
        connection.execute(f"insert into {index}({index}, rank) values ('merge', ?)", (_MERGE_PAGES,))


def _raw_expression(expression: str, *, stemmed: bool) -> Expression:
    return Expression(STEMS if is_raw_stemmed(expression, stemmed=stemmed) else WORDS, (), expression)


def _run(connection: Connection, search: Fts5Search) -> tuple[list[Match], list[int] | None]:
    """
    Rank the rows behind the pruning and, if they are too few, the rest in one more statement.

    The second result are the keys of all rows with a word, if the pruning is everything that may be found.
    """
    for number, expression in enumerate(search.expressions):
        wanted = expression.all_of if search.needs_all else expression.any_of
        search.values |= {f"wanted{number}": wanted, f"all{number}": expression.all_of}
    search.values["pruning"] = search.pruning_expression
    found: dict[int, Match] = {}
    _collect_matches(connection, found, [_select_ranked(search, pruned=True)], search)
    all_keys = list(found) if search.is_narrow and found else None
    stages = _list_fallbacks(search, len(found)) if len(found) < search.values["min_found"] else []
    if stages:
        _collect_matches(connection, found, stages, search)
    return list(found.values())[: search.values["limit"]], all_keys


def _collect_matches(connection: Connection, found: dict[int, Match], stages: list[str], search: Fts5Search) -> None:
    """Add the rows of some queries that are not found yet, in the order of the queries."""
    union = " union all ".join(f"select {place} as stage, * from ({stage})" for place, stage in enumerate(stages))
    sql = f"""
        select u.rid, u.score, u.has_all, iif(row_number() over best <= :limit, {INDEXED_TEXT}, null)
        from ({union}) u cross join memories m on m.rid = u.rid and m.namespace = :namespace
        window best as (order by u.stage, u.has_all desc, u.score desc, u.rid desc)
        order by u.stage, u.has_all desc, u.score desc, u.rid desc
    """
    words = search.query_words()
    for rid, score, has_all, text in connection.fetch(sql, search.values):
        if rid not in found:
            covered = measure_coverage(words, text) if score and text is not None else 0.0
            found[rid] = Match(rid, score, bool(has_all), covered)


def _list_fallbacks(search: Fts5Search, found: int) -> list[str]:
    """Return queries for all rows with one of the words, for rows with only common words, and for parts of words."""
    stages = [_select_ranked(search, pruned=False)] if search.pruning is not None else []
    if search.stopwords:
        stages.append(_select_spare(search))
    if search.substring is not None and not found:
        stages.append(_select_substring(search))
    return stages


def _select_ranked(search: Fts5Search, *, pruned: bool) -> str:
    """Return a query for rows scored by BM25, with the scores of several indexes added up."""
    scored = " union all ".join(
        _select_scored(search, number, expression.index, pruned=pruned)
        for number, expression in enumerate(search.expressions)
    )
    if len(search.expressions) > 1:
        having = f"having count(*) = {len(search.expressions)}" if search.needs_all else ""
        scored = f"select rid, sum(score) as score from ({scored}) group by rid {having}"
    return f"""
        select s.rid, s.score, {_has_all_words(search)} as has_all
        from ({scored}) s
        order by has_all desc, s.score desc, s.rid desc
        limit {-1 if pruned and search.is_narrow else ":limit"}
    """


# Numbers above 0 if there are other namespaces than this one and that of its files, and if there is that one.
_STRANGERS = """
    select exists (select 1 from memories where namespace < min(:namespace, :beside))
         + exists (select 1 from memories
             where namespace > min(:namespace, :beside) and namespace < max(:namespace, :beside))
         + exists (select 1 from memories where namespace > max(:namespace, :beside))
"""
_BESIDE = "select exists (select 1 from memories where namespace = :beside)"
LISTED = "select value from json_each(:listed)"
_WEIGHTS = ", ".join(f":weight{number}" for number in range(len(INDEX_COLUMNS)))


def _select_scored(search: Fts5Search, number: int, index: str, *, pruned: bool) -> str:
    score = f"""
        select {index}.rowid as rid, {search.score(number, index)} as score
        from {index}
    """
    joined = f"cross join memories m on m.rid = {index}.rowid"
    filtered = f"and m.namespace = :namespace {search.where}"
    if search.scope.keys is not None:  # of this namespace
        joined, filtered = "", f"and +{index}.rowid in ({LISTED})"
    elif search.scope.excluded is not None and not search.shares_index:
        joined, filtered = "", f"and +{index}.rowid not in ({LISTED})"
    visible = search.visible(f"+{index}.rowid")
    if pruned and search.is_narrow:
        pruning = LISTED
    elif pruned and search.pruning is not None and search.is_unrestricted:
        pruning = f"select rowid from {index} where {index} match :pruning"
    elif pruned and search.pruning is not None:
        pruning = f"select {index}.rowid from {index} {joined} where {index} match :pruning {filtered}"
    elif search.is_unrestricted:
        return f"{score} where {index} match :wanted{number} {visible}"
    else:
        return f"{score} {joined} where {index} match :wanted{number} {visible} {filtered}"
    # The plus keeps SQLite from searching the index for each row behind the pruning: a hundred times slower.
    return f"{score} where {index} match :wanted{number} and +{index}.rowid in ({pruning}) {visible}"


def _has_all_words(search: Fts5Search) -> str:
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


def _select_spare(search: Fts5Search) -> str:
    """Return a query for the newest rows with nothing but words so common that they say little."""
    index = search.stopwords[0].index
    search.values["stopwords"] = search.stopwords[0].any_of
    return f"""
        select {index}.rowid as rid, 0.0 as score, 0 as has_all
        from {index} cross join memories m on m.rid = {index}.rowid
        where {index} match :stopwords and m.namespace = :namespace {search.where} {search.visible("m.rid")}
        order by {index}.rowid desc limit :min_found
    """


def contains_condition(substring: str) -> tuple[str, str]:
    """Return the condition that a memory `m` contains `:substring`, and its value. SQL's lower() knows ASCII only."""
    if substring.isascii():
        return "instr(lower(m.content), :substring) > 0", substring
    return "instr(folded(cast(m.content as blob)), :substring) > 0", tokenizer.fold(substring)


def _select_substring(search: Fts5Search) -> str:
    """Return a query for the newest rows with the only word of the query inside a longer word."""
    contains, search.values["substring"] = contains_condition(search.substring or "")
    return f"""
        select m.rid, 1e-6 as score, 0 as has_all
        from memories m
        where m.namespace = :namespace and m.deleted_at is null and {contains} {search.where}
          {search.visible("m.rid")}
        order by m.rid desc limit :min_found
    """
