"""
The keyword leg on PostgreSQL: the words, phrases, pruning and scores of the one on SQLite.

A GIN index finds rows, and PostgreSQL returns of each the positions of the query's tokens; scores are computed here. As
on SQLite, only rows with a rare word of the query, or a pair of its commoner ones, are scored: the *pruning*.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, NamedTuple

from msgspec import field
from msgspec.structs import replace

from memorist.arguments import NO_FILTER
from memorist.records import Match, Query, Term
from memorist.store.database import Connection
from memorist.store.filters import MAX_SCOPE_KEYS
from memorist.store.image_follower import ImageFollower
from memorist.store.keyword_ranking import can_rank
from memorist.store.keyword_search import (
    FILTERED_PRUNING_ROWS,
    MAX_FACET_ROWS,
    MIN_PRUNED,
    STEMS,
    Expression,
    KeywordSearch,
    Pruning,
    match_past,
)
from memorist.store.near_duplicates import write_sharing
from memorist.store.postgres.raw_query import RawQuery
from memorist.store.postgres.scoring import Scorer
from memorist.store.postgres.statistics import IN_WALL, TokenStatistics
from memorist.store.postgres.text_index import (
    STORED_COLUMNS,
    Phrase,
    as_array,
    is_cut,
    read_columns,
    tokenize_columns,
    write_found,
)
from memorist.store.postgres.vocabulary import PostgresVocabulary
from memorist.store.records import NO_MATCHES, KeywordMatches, Matches, Scope
from memorist.store.word_matching import (
    QueryToken,
    bm25_idf,
    measure_coverage,
    weigh_columns,
)
from memorist.text import tokenizer

_MAX_RAW_ROWS = 3000  # of which an expression in FTS5's syntax is matched, the newest ones
_MAX_LOOKUPS = 10_000  # rows whose memories are looked up one by one
_MAX_EXPANSIONS = 500  # of a prefix; for more, the rows' other tokens are read as well

_TENANT = "t.tenant = current_setting('memorist.tenant', true)"  # also for the owner, whom no row security stops


class Search(KeywordSearch):
    """A query translated for the indexes."""

    expansions: dict[Phrase, list[str] | None] = field(default_factory=dict)  # None: too many
    scored_counts: dict[QueryToken, int] = field(default_factory=dict)
    limit: int = 0
    min_found: int = 0
    weights: Sequence[float] = ()

    def count_rows(self, *, pruned: bool) -> int:
        """Return how many rows have to be read, at most."""
        is_pruned = pruned and (self.is_narrow or self.pruning is not None)
        return FILTERED_PRUNING_ROWS if is_pruned else sum(self.scored_counts.values())

    def list_phrases(self, expression: Expression, atoms: Iterable[QueryToken]) -> list[Phrase]:
        return [Phrase.from_atom(atom, stemmed=expression.index == STEMS) for atom in atoms]


class RankedRow(NamedTuple):
    """A row that matches, scored."""

    key: int
    score: float
    has_all: bool = False


class PostgresKeywordIndex:
    """Full-text search in one namespace, on PostgreSQL."""

    def __init__(self, namespace: str, follower: ImageFollower) -> None:
        self.namespace = namespace
        self._follower = follower
        self._statistics = TokenStatistics(namespace)
        self._vocabulary = PostgresVocabulary(namespace)

    def find_known(self, connection: Connection, terms: Sequence[Term]) -> set[Term]:
        return self._vocabulary.find_known(connection, terms)

    def find_similar(self, connection: Connection, word: str) -> list[str]:
        return self._vocabulary.find_similar(connection, word)

    def match(
        self, connection: Connection, query: Query, scope: Scope, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches:
        """Return memories with words of the query, best first: with all words, then some, then only the commonest."""
        search, filter = self.prepare(query, scope), scope.filter
        search.limit, search.min_found = limit, min(limit, max(page, MIN_PRUNED))
        columns = weigh_columns(weights)
        search.weights = [columns.get(column, 0.0) for column in STORED_COLUMNS]
        found = None if query.raw is None else self._match_raw(connection, query.raw, search)
        raw, all_keys = None if found is None else query.raw, None
        if found is None:
            if not search.expressions:
                return KeywordMatches(NO_MATCHES)
            started = time.thread_time()  # time at work: a slow network is no reason for an image
            self.plan(connection, search)
            found, all_keys = self._run(connection, search)
            if can_rank(search):
                self._follower.charge(time.thread_time() - started)
        if filter.as_of is not None:
            all_keys = None
            found += match_past(connection, self.namespace, filter, search.past_query(raw), columns)
            found = sorted(found, key=lambda match: (not match.has_all_words, -match.score, match.key))[:limit]
        return KeywordMatches(Matches.of(found), search.list_unknown(), all_keys)

    def prepare(self, query: Query, scope: Scope) -> Search:
        """Translate a query for the indexes; `plan` decides which rows are scored."""
        if scope.excluded is not None or (scope.keys is not None and len(scope.keys) > MAX_SCOPE_KEYS):
            scope = Scope(scope.filter)  # an image lists more than is worth sending to a server
        listed = None if scope.keys is None else as_array(scope.keys.tolist())
        return Search.from_query(query, scope, self.namespace, listed)

    def plan(self, connection: Connection, search: Search) -> None:
        """Weight the atoms of a search by their frequency, and choose the rows that are worth scoring."""
        asked = {atom: each.index == STEMS for each in search.expressions for atom in each.atoms}
        # Unspaced script is looked for as pairs of characters, but where all of it is required, scored as phrases.
        scored = {atom: each.index == STEMS for each in search.expressions for atom in each.required}
        counted = asked | scored if search.needs_all else asked
        project = search.values["project"] if search.restricted else None
        rows, search.mean_length, search.scored_counts = self._statistics.count(connection, counted, project)
        search.is_unrestricted = not search.where
        search.weigh(rows, {atom: search.scored_counts[atom] for atom in asked})

    # Expressions in the syntax of FTS5

    def _match_raw(self, connection: Connection, expression: str, search: Search) -> list[Match] | None:
        """Return the matches of an expression in FTS5's syntax; None if it is not valid."""
        scores = self._score_raw(connection, expression, search)
        if scores is None:
            return None
        ranked = [RankedRow(rid, score) for score, rid in sorted(((s, rid) for rid, s in scores.items()), reverse=True)]
        return self._measure(connection, search, ranked[: search.limit])

    def _score_raw(self, connection: Connection, expression: str, search: Search) -> dict[int, float] | None:
        # The index holds unspaced script as pairs of characters, and only terms are split into them.
        if any(len(run) > 2 for run in tokenizer.find_unspaced_runs(expression)):
            return None
        raw = RawQuery(expression, stemmed=search.stemmed)
        if not raw.is_valid():
            return None
        planned = replace(search)
        self.plan(connection, planned)
        search.rows, search.counts, search.mean_length = planned.rows, planned.counts, planned.mean_length
        search.word_weights = planned.word_weights
        if raw.query is None:
            return {}
        keys = self._find_raw(connection, raw, search)
        texts = self._read_columns(connection, keys)
        # Behind a wall, an expression's phrases count alike.
        idfs = [] if search.restricted else self._weight_raw(connection, raw)
        return raw.match(texts, search.weights, idfs, search.mean_length or 1.0)

    def _weight_raw(self, connection: Connection, raw: RawQuery) -> list[float]:
        """Return the weights of an expression's phrases; one for some columns counts where it is in those."""
        atoms = {phrase.atom: raw.stemmed for phrase in raw.phrases}
        rows, _, counts = self._statistics.count(connection, atoms, None)
        idfs = []
        for each in raw.phrases:
            count = counts[each.atom]
            if each.is_restricted and count:
                phrase = raw.tokenize(each.atom)
                values = {"namespace": self.namespace, "stemmed": int(raw.stemmed), "query": phrase.write()}
                values |= {"loose": None, "tokens": None if phrase.prefix else as_array(phrase.tokens)}
                found = connection.fetch(f"select s.found, s.columns from {_SCAN} s", values)
                count = sum(each.is_in(phrase, text, read_columns(columns)) for text, columns in found)
            idfs.append(bm25_idf(count, rows))
        return idfs

    def _find_raw(self, connection: Connection, raw: RawQuery, search: Search) -> list[int]:
        """Return the newest rows that may match an expression and pass the filter."""
        sql = f"""
            select m.rid
            from find_texts(:namespace, :stemmed = 1, cast(:query as tsquery), cast(:loose as tsquery)) f
            join memories m on m.rid = f.rid
            where m.namespace = :namespace {search.where} {search.visible("m.rid")}
            order by m.rid desc limit {_MAX_RAW_ROWS}
        """
        loose = raw.loose if raw.loose != raw.query else None
        values = {"stemmed": int(raw.stemmed), "query": raw.query, "loose": loose}
        return [rid for (rid,) in connection.fetch(sql, search.values | values)]

    # Ranking

    def _run(self, connection: Connection, search: Search) -> tuple[list[Match], list[int] | None]:
        """
        Rank the rows behind the pruning and, if they are too few, the rest.

        The second result are the keys of all rows with a word, if the pruning is everything that may be found.
        """
        ranked = self._rank(connection, search, pruned=True)
        all_keys = [row.key for row in ranked] if search.is_narrow and ranked else None
        found = ranked[: search.limit]
        if len(ranked) < search.min_found:
            known = {row.key for row in ranked}
            further = self._list_fallbacks(connection, search, found=bool(ranked))
            found += [row for row in dict.fromkeys(further) if row.key not in known]
        return self._measure(connection, search, found[: search.limit]), all_keys

    def _list_fallbacks(self, connection: Connection, search: Search, *, found: bool) -> list[RankedRow]:
        """Return all rows with one of the words, then rows with only common words, and with parts of words."""
        rows: dict[int, RankedRow] = {}
        if search.pruning is not None:
            ranked = self._rank(connection, search, pruned=False)[: search.limit]
            rows |= {row.key: row for row in ranked}
        if search.stopwords:
            for key in self._find_spare(connection, search):
                rows.setdefault(key, RankedRow(key, 0.0))
        if search.substring is not None and not found:
            for key in self._find_substring(connection, search):
                rows.setdefault(key, RankedRow(key, 1e-6))
        return list(rows.values())

    def _measure(self, connection: Connection, search: Search, ranked: Sequence[RankedRow]) -> list[Match]:
        """Return matches, each with the share of the query that it contains."""
        if not ranked:
            return []
        values = {"keys": as_array(row.key for row in ranked), "namespace": self.namespace}
        texts: dict[int, str] = dict(connection.fetch(_SELECT_TEXTS, values))
        words = search.query_words()
        return [
            Match(row.key, row.score, row.has_all, measure_coverage(words, texts[row.key]) if row.score else 0.0)
            for row in ranked
            if row.key in texts  # or it was deleted since
        ]

    def _rank(self, connection: Connection, search: Search, *, pruned: bool) -> list[RankedRow]:
        """Return the best rows by BM25, best first, with the scores of several indexes added up."""
        self._expand_prefixes(connection, search)
        scores: dict[int, list[tuple[float, bool]]] = {}
        unwritten: set[int] = set()  # rows without the symbols that the query ends in
        for expression in search.expressions:
            scorer = self._make_scorer(search, expression)
            rows = self._scan(connection, search, expression, pruned=pruned)
            if any(row[3] for row in rows):
                rows = self._complete(connection, rows, stemmed=expression.index == STEMS)
            for rid, length, columns, _, found, is_written in rows:
                score = scorer.score(found, length, read_columns(columns))
                if score is not None and (score[1] or not search.needs_all):
                    scores.setdefault(rid, []).append(score)
                    if not is_written:
                        unwritten.add(rid)
        return _order(search, scores, unwritten)

    def _make_scorer(self, search: Search, expression: Expression) -> Scorer:
        atoms = expression.required if search.needs_all else expression.atoms
        idfs = [bm25_idf(search.scored_counts.get(atom, 0), search.rows) for atom in atoms]
        phrases = search.list_phrases(expression, atoms)
        required = search.list_phrases(expression, expression.required)
        return Scorer(
            list(zip(phrases, idfs, strict=True)),
            required if search.needs_all or search.all_first else (),
            search.weights,
            search.mean_length or 1.0,
        )

    def _scan(
        self, connection: Connection, search: Search, expression: Expression, *, pruned: bool
    ) -> list[tuple[Any, ...]]:
        """Return the rows of one index that are to be scored, with the positions of the query's tokens."""
        stemmed = expression.index == STEMS
        phrases = search.list_phrases(expression, (*expression.atoms, *expression.required))
        values = search.values | {"tokens": _list_tokens(phrases, search.expansions)}
        is_narrow = pruned and search.is_narrow
        if is_narrow:
            source = _SCAN_PASSING.format("stems" if stemmed else "words")
        else:
            query, loose = _write_query(search, expression, pruned=pruned)
            if query is None:
                return []
            values |= {"stemmed": int(stemmed), "query": query, "loose": loose}
            source = _SCAN
        filtered = "" if is_narrow else search.where
        tests = []
        for number, literal in enumerate(search.literals):
            values[f"literal{number}"] = literal
            # Of a text in the collation C, as these are, only ASCII letters become small: as on SQLite.
            tests.append(f"strpos(lower(concat_ws(' ', m.title, m.content)), :literal{number}) > 0")
        joined = ""
        if filtered or tests:
            # Looks up the memories of some rows one by one, where PostgreSQL would rather read all memories.
            fence = "offset 0" if search.count_rows(pruned=pruned) <= _MAX_LOOKUPS else ""
            joined = f"""
                cross join lateral (
                    select {" and ".join(tests) or "true"} as written from memories m
                    where m.rid = s.rid and m.namespace = :namespace {filtered} {fence}) f
            """
        sql = f"""
            select s.rid, s.length, s.columns, s.clipped, s.found, {"f.written" if joined else "true"}
            from {source} s {joined}
            where s.rid is not null {search.visible("s.rid")}
        """
        return connection.fetch(sql, values)

    def _complete(
        self, connection: Connection, rows: Sequence[tuple[Any, ...]], *, stemmed: bool
    ) -> list[tuple[Any, ...]]:
        """Read the texts of rows that had more positions than PostgreSQL keeps."""
        read = {rid: is_cut(length, found) for rid, length, _, clipped, found, *_ in rows if clipped}
        keys = [rid for rid, is_needed in read.items() if is_needed]
        texts = self._read_columns(connection, keys)
        complete = []
        for row in rows:
            if row[0] in texts:
                columns = dict(zip(STORED_COLUMNS, texts[row[0]], strict=True))
                found = write_found(tokenize_columns(columns, stemmed=stemmed).positions)
                row = (*row[:4], found, *row[5:])
            complete.append(row)
        return complete

    def _read_columns(self, connection: Connection, keys: Iterable[int]) -> dict[int, Sequence[str | None]]:
        """Return the texts of memories in the order of the index's columns."""
        rows = connection.fetch(_SELECT_COLUMNS, {"keys": as_array(keys)})
        return {row[0]: row[1:] for row in rows}

    def _expand_prefixes(self, connection: Connection, search: Search) -> None:
        """Read the tokens that begin with each prefix of the query."""
        for expression in search.expressions:
            phrases = search.list_phrases(expression, (*expression.atoms, *expression.required))
            asked = {phrase: phrase.tokens[-1] for phrase in phrases if phrase.prefix and phrase.tokens}
            if asked and not asked.keys() <= search.expansions.keys():
                found = self._vocabulary.expand(
                    connection, asked.values(), _MAX_EXPANSIONS, stemmed=expression.index == STEMS
                )
                for phrase, prefix in asked.items():
                    tokens = found[prefix]
                    search.expansions[phrase] = tokens if len(tokens) <= _MAX_EXPANSIONS else None

    def _find_spare(self, connection: Connection, search: Search) -> list[int]:
        """Return the newest rows with nothing but words so common that they say little."""
        expression = search.stopwords[0]
        phrases = search.list_phrases(expression, expression.atoms)
        query = " | ".join(filter(None, (phrase.write() for phrase in phrases)))
        column = "stems" if expression.index == STEMS else "words"
        # Row by row from the newest on: most rows have such a word.
        sql = f"""
            select t.rid
            from memory_texts t join memories m on m.rid = t.rid
            where {_TENANT} and t.namespace = :namespace and t.{column} @@ cast(:query as tsquery)
              and m.namespace = :namespace {search.where} {search.visible("m.rid")}
            order by t.rid desc limit :min_found
        """
        values = search.values | {"query": query, "min_found": search.min_found}
        return [rid for (rid,) in connection.fetch(sql, values)] if query else []

    def _find_substring(self, connection: Connection, search: Search, *, everything: bool = False) -> list[int]:
        """Return the newest rows, or all, with the only word of the query inside a longer word."""
        substring = search.substring or ""
        limit = 1 << 62 if everything else search.min_found
        where = f"{search.where} {search.visible('m.rid')}" if not everything else ""
        test = "strpos(lower(m.content), :substring) > 0" if substring.isascii() else "true"
        sql = f"""
            select m.rid, {"''" if substring.isascii() else "m.content"}
            from memories m
            where m.namespace = :namespace and m.deleted_at is null and {test} {where}
            order by m.rid desc limit :most
        """
        most = limit if substring.isascii() else 1 << 62
        rows = connection.fetch(sql, search.values | {"substring": substring, "most": most})
        if not substring.isascii():  # the database may know small letters of ASCII only
            rows = [row for row in rows if tokenizer.fold(substring) in tokenizer.fold(row[1])]
        return [rid for rid, _ in rows[:limit]]

    # Everything that matches

    def select_matching(
        self, connection: Connection, query: Query, scope: Scope, keys: Sequence[int], *, filtered: bool = True
    ) -> tuple[str, dict[str, Any], bool]:
        """
        Return a query for the keys of all that matches, and if words matched it, with the values for the query.

        The last result is True if all of them are known to pass the filter.
        """
        search, filter = self.prepare(query, scope), scope.filter
        search.weights = [0.0] * len(STORED_COLUMNS)
        if search.expressions and (filtered or filter.as_of is not None):
            self.plan(connection, search)
        raw = by_raw = None
        if query.raw is not None and (by_raw := self._score_raw(connection, query.raw, search)) is not None:
            raw = query.raw
        if filter.as_of is not None and query:
            changed = match_past(connection, self.namespace, filter, search.past_query(raw), {})
            keys = [*keys, *(match.key for match in changed)]
        values: dict[str, Any] = {"namespace": self.namespace, "found_keys": as_array(keys)}
        arms = []
        if by_raw is not None:
            values["found_words"] = as_array(by_raw)
            arms.append("select unnest(cast(:found_words as bigint[])) as rid, 1 as by_words")
        elif search.expressions:
            arms.append(self._select_by_words(search, values, filtered=filtered))
            if search.substring is not None and not connection.fetch(f"select 1 from ({arms[0]}) w limit 1", values):
                values["found_words"] = as_array(self._find_substring(connection, search, everything=True))
                arms.append("select unnest(cast(:found_words as bigint[])), 1")
        arms.append("select unnest(cast(:found_keys as bigint[])) as rid, 0 as by_words")
        sql = f"select rid, min(by_words) as by_words from ({' union all '.join(arms)}) f group by rid"
        passed = search.is_narrow or not (search.expressions or raw)
        return sql, values, filtered and passed and search.substring is None and filter.as_of is None

    def select_sharing(
        self, connection: Connection, words: Mapping[str, str], least: int, *, closely: bool
    ) -> tuple[str, dict[str, Any], bool]:
        longest_first = sorted(words.values(), key=lambda word: -len(word))  # long words are rare
        query = Query("", raw=write_sharing(longest_first, least))
        sql, values, _ = self.select_matching(connection, query, Scope(NO_FILTER), (), filtered=False)
        return sql, values, True

    def _select_by_words(self, search: Search, values: dict[str, Any], *, filtered: bool) -> str:
        """Return a query for the rows with words of the query; add its values to others."""
        pruned = sum(search.counts.values()) > MAX_FACET_ROWS
        arms = []
        for number, expression in enumerate(search.expressions):
            query, loose = _write_query(search, expression, pruned=pruned)
            values |= {f"found{number}": query or "", f"loose{number}": loose}
            wall, where = "", ""
            if search.restricted:
                wall, values["project"] = f"join memories m on m.rid = t.rid and {IN_WALL}", search.values["project"]
            if filtered and search.is_narrow:
                where, values["listed"] = "where t.rid = any(cast(:listed as bigint[]))", search.values["listed"]
            stemmed = "true" if expression.index == STEMS else "false"
            arms.append(
                f"""
                select t.rid, 1 as by_words
                from find_texts(
                    :namespace, {stemmed}, cast(:found{number} as tsquery), cast(:loose{number} as tsquery)) t
                {wall} {where}
                """
            )
        if search.needs_all and len(arms) > 1:
            return f"select * from ({' intersect '.join(arms)}) i"
        return " union all ".join(arms)


_SCAN = """scan_texts(
    :namespace, :stemmed = 1, cast(:query as tsquery), cast(:loose as tsquery), cast(:tokens as text[]))"""
_SCAN_PASSING = f"""(
    select t.rid, t.length, t.columns, t.clipped, read_tokens(t.{{}}, cast(:tokens as text[])) as found
    from memory_texts t
    where {_TENANT} and t.rid = any(cast(:listed as bigint[])))"""
_SELECT_COLUMNS = f"""
    select m.rid, {", ".join(f"m.{column}" for column in STORED_COLUMNS)}
    from memories m
    where m.rid = any(cast(:keys as bigint[]))
"""
_SELECT_TEXTS = """
    select m.rid, concat_ws(' ', m.title, m.tags, m.source, m.segments, m.facts, m.content)
    from memories m
    where m.rid = any(cast(:keys as bigint[])) and m.namespace = :namespace
"""


def _order(
    search: Search, scores: Mapping[int, list[tuple[float, bool]]], unwritten: Collection[int]
) -> list[RankedRow]:
    """Return rows by their scores in each index: those with all words first, then the best."""
    count = len(search.expressions)
    if search.needs_all:
        scores = {rid: each for rid, each in scores.items() if len(each) == count}
    complete: Collection[int] = ()
    if search.all_first:
        complete = {rid for rid, each in scores.items() if len(each) == count and all(has_all for _, has_all in each)}
    elif search.literals:
        complete = scores.keys()
    if search.literals:
        complete = set(complete).difference(unwritten)
    found = [(rid in complete, sum([score for score, _ in each]), rid) for rid, each in scores.items()]
    # A narrow search tells all that it has found.
    best = sorted(found, reverse=True) if search.is_narrow else nlargest(search.limit, found)
    return [RankedRow(rid, score, has_all) for has_all, score, rid in best]


def _write_query(search: Search, expression: Expression, *, pruned: bool) -> tuple[str | None, str | None]:
    """
    Return the tsquery for the rows of an expression, and the one without the order of words in phrases.

    The first is None if no row can match; the second is None if there are no phrases.
    """
    if search.needs_all:
        sets: Pruning = [expression.required]
    elif pruned and search.pruning is not None:
        sets = search.pruning
    else:
        sets = [(atom,) for atom in expression.atoms]
    strict, loose = (
        " | ".join(filter(None, (_write_set(search, expression, atoms, loose=loose) for atoms in sets)))
        for loose in (False, True)
    )
    return strict or None, loose if loose != strict else None


def _write_set(search: Search, expression: Expression, atoms: Sequence[QueryToken], *, loose: bool) -> str | None:
    parts = [phrase.write(loose=loose) for phrase in search.list_phrases(expression, atoms)]
    return None if None in parts else f"({' & '.join(filter(None, parts))})"


def _list_tokens(phrases: Sequence[Phrase], expansions: Mapping[Phrase, list[str] | None]) -> str | None:
    """Return the tokens whose positions are needed; None for all tokens of the rows."""
    tokens: dict[str, None] = {}
    for phrase in phrases:
        whole = phrase.tokens[:-1] if phrase.prefix else phrase.tokens
        tokens |= dict.fromkeys(whole)
        if phrase.prefix and phrase.tokens:
            expanded = expansions[phrase]
            if expanded is None:
                return None
            tokens |= dict.fromkeys(expanded)
    return as_array(tokens)
