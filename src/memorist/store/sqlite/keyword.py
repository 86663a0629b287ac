"""The keyword leg on FTS5.

FTS5 walks through the rows that hold a word almost for free; what costs is scoring and joining each of them. A natural
question holds words that stand in a tenth of all rows. So only rows that hold a rare word of the question, or a pair of
its commoner ones, are scored, with all words of the question: the *guard*. Its size is a number of rows, not a share,
so that small stores are ranked whole. If it leaves too few, the rest is ranked after all. Where a filter lets only few
memories through, those are the guard.

All that matches a question, and not only the page that is shown: counted by field, and by what keeps it out.
"""

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apsw

from memorist.forks import renew_after_fork
from memorist.records import NO_FILTER, Filter, Match, Query, Term
from memorist.store.base import KeywordMatches, Scope
from memorist.store.coverage import Atom, QueryWords, coverage, worth
from memorist.store.sqlite import as_of
from memorist.store.sqlite.connections import fetch
from memorist.store.sqlite.filters import CHANGED, EXISTED, FACT_KIND_THEN, MONTH, clauses, conditions, to_micros
from memorist.store.sqlite.rows import source
from memorist.text import tokenizer
from memorist.text.tokenizer import COLUMNS

STEMS, WORDS = "memories_stems", "memories_words"
INDEXES = (STEMS, WORDS)

# Chosen on LoCoMo's questions over 100,000 memories: a quarter of the time of ranking all, 99.6 % of the same ten best.
GUARD_ROWS = 1500
FILTERED_GUARD_ROWS = 3000  # a filter takes some away again
SHARE_OF_SINGLE_WORDS = 0.6
WORDS_IN_PAIRS = 4
PAIRS_ATTRACT = 1.5  # words of one question stand together this much more often than chance has it
ENOUGH = 20  # fewer than this from behind the guard, and the rest is ranked too
MOST_ATOMS = 128  # of one index in one search; SQLite's limits are further out
MOST_WORDS_ALL = 8  # more are never all there, and looking for it costs time
MERGE_EVERY, MERGE_PAGES = 4096, 2000  # rows added before the indexes are tidied, and how much at a time
SMALL_STORE, PARTS_UP_TO = 2000, 20_000  # rows; looking inside of words means looking at all of them
SURVEY_KEPT = 20_000
SURVEY_AGE, SURVEY_DRIFT = 60.0, 0.02  # seconds and share of rows after which counts are taken anew


def merge(connection: apsw.Connection) -> None:
    """Join segments that many small writes left behind: every search has to look into each of them."""
    for index in INDEXES:
        connection.execute(f"insert into {index}({index}, rank) values ('merge', ?)", (MERGE_PAGES,))


@dataclass(frozen=True, slots=True)
class Expression:
    """What to look for in one index: the atoms one by one, and all of them together."""

    index: str
    atoms: tuple[Atom, ...]
    all_of: str

    @property
    def any_of(self) -> str:
        return " OR ".join(atom.sql for atom in self.atoms)


class KeywordLeg:
    """Full-text search in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._survey = _Survey()

    def match(
        self,
        connection: apsw.Connection,
        query: Query,
        scope: Scope,
        limit: int,
        page: int,
        weights: Mapping[str, float],
    ) -> KeywordMatches:
        """What holds the words, best first: all of them before some of them before only the commonest of them."""
        search, filter = self.prepare(query, scope), scope.filter
        search.values |= {"limit": limit, "enough": min(limit, max(page, ENOUGH))}
        search.values |= {f"weight{number}": weights.get(column, 0.0) for number, column in enumerate(COLUMNS)}
        found = None if query.raw is None else self._raw(connection, query.raw, search)
        raw, all_keys = None if found is None else query.raw, None
        if found is None:
            if not search.expressions:
                return KeywordMatches([])
            self._survey.look(connection, search)
            found, all_keys = _run(connection, search)
        if filter.as_of is not None:
            all_keys = None
            found += as_of.matches(connection, self.namespace, filter, search.wanted(raw), weights)
            found = sorted(found, key=lambda match: (not match.whole, -match.score, match.key))[:limit]
        # Where there are other namespaces, the index cannot tell which words are strange to this one.
        strange = (atom.text for atom, count in search.counts.items() if not count or search.company)
        return KeywordMatches(found, tuple(strange), all_keys)

    def _raw(self, connection: apsw.Connection, expression: str, search: "KeywordSearch") -> list[Match] | None:
        """What an expression in the index's own syntax finds; None where it is none."""
        # The index holds unspaced script as pairs, which only terms are cut into.
        if any(len(run) > 2 for run in tokenizer.find_unspaced_runs(expression)):
            return None
        raw = replace(search, all_needed=True, whole=False, few=False, literals=(), spare=[], part=None)
        self._survey.look(connection, raw)
        raw.expressions = [_raw_expression(expression)]
        search.rows, search.counts, search.worth, search.company = raw.rows, raw.counts, raw.worth, raw.company
        try:
            return _run(connection, raw)[0]
        except apsw.SQLError:
            return None  # not the index's syntax after all: plain words

    def prepare(self, query: Query, scope: Scope) -> "KeywordSearch":
        """What is to be asked of the index; `survey` tells how."""
        hides = not scope.filter.superseded and scope.filter.as_of is None
        where, values = conditions(replace(scope.filter, superseded=True) if hides else scope.filter)
        expressions = _expressions(query.terms, stemmed=query.stemmed)
        return KeywordSearch(
            expressions,
            where,
            values | {"namespace": self.namespace, "passing": scope.keys},
            all_needed=not query.any_of,
            whole=query.every and query.any_of,
            literals=tuple(term.text.lower() for term in query.terms if term.literal),
            spare=_expressions(query.spare, stemmed=query.stemmed),
            part=_part(query),
            few=scope.keys is not None and query.any_of and len(expressions) == 1,
            hidden=_SUPERSEDED_ROWS if hides else None,
        )

    def survey(self, connection: apsw.Connection, search: "KeywordSearch") -> None:
        self._survey.look(connection, search)

    def readable(self, connection: apsw.Connection, expression: str) -> Expression | None:
        """An expression in the index's own syntax, and the index to ask; None where it has an error."""
        raw = _raw_expression(expression)
        try:
            fetch(connection, f"select 1 from {raw.index} where {raw.index} match ? limit 1", (expression,))
        except apsw.SQLError:
            return None
        return raw


@dataclass(slots=True)
class KeywordSearch:
    """What one search asks of the index."""

    expressions: list[Expression]
    where: str
    values: dict[str, Any]
    all_needed: bool = False  # only rows with all words
    whole: bool = False  # rows with all words first
    literals: tuple[str, ...] = ()
    spare: list[Expression] = field(default_factory=list)
    part: str | None = None  # to look for inside words, if nothing else is found
    guard: str | None = None
    few: bool = False  # the filter lets so few memories through that they are the guard
    alone: bool = False  # no filter, and no other namespace: every row of the index may be found
    company: bool = False  # the index holds other namespaces, too
    hidden: str | None = None  # which rows are not to be found
    rows: int = 0
    counts: dict[Atom, int] = field(default_factory=dict)  # in how many rows each atom stands
    worth: dict[Atom, float] = field(default_factory=dict)  # how much each atom tells: the rarer, the more

    def shown(self, key: str) -> str:
        """That the row with this key may be found, as ` and ...`."""
        return f"and {key} not in ({self.hidden})" if self.hidden else ""

    def asked(self) -> list[QueryWords]:
        return [QueryWords.of(atom, each, self.literals) for atom, each in self.worth.items()]

    def wanted(self, raw: str | None = None) -> as_of.PastQuery:
        """The same, for texts that no index knows."""
        return as_of.PastQuery(
            self._counted(self.expressions),
            self.asked(),
            self.all_needed,
            raw,
            self._counted(self.spare),
            self.part,
        )

    def _counted(self, expressions: Sequence[Expression]) -> list[as_of.PastTerm]:
        """Each atom with the weight that BM25 gives it."""
        return [
            as_of.PastTerm.of(atom, self._idf(self.counts.get(atom, 0)), stemmed=expression.index == STEMS)
            for expression in expressions
            for atom in expression.atoms
        ]

    def _idf(self, count: int) -> float:
        return max(1e-6, math.log((self.rows - count + 0.5) / (count + 0.5))) if count <= self.rows else 1e-6


class _Survey:
    """In how many rows words stand: remembered for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._counts: dict[Any, int] = {}
        self._expires = 0.0

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def look(self, connection: apsw.Connection, search: KeywordSearch) -> None:
        """Find out how much each atom tells, and which rows are worth scoring."""
        rows, others, counts = self._counted(connection, search)
        search.rows, search.counts = rows, counts
        if rows > (SMALL_STORE if search.where else PARTS_UP_TO):
            search.part = None
        search.company = bool(others)
        search.alone = not others and not search.where
        search.worth = {atom: worth(count, rows) for atom, count in counts.items()}
        search.whole = search.whole and 1 < len(counts) <= MOST_WORDS_ALL
        one_of_many = not search.all_needed and len(search.expressions) == 1 and rows > GUARD_ROWS
        if one_of_many and not search.few:
            search.guard = _guard(counts, rows, FILTERED_GUARD_ROWS if search.where else GUARD_ROWS)

    def _counted(self, connection: apsw.Connection, search: KeywordSearch) -> tuple[int, int, dict[Atom, int]]:
        """
        All rows, whether there are other namespaces, and rows of each atom.
        """
        asked: dict[Any, str] = {
            "rows": "select max(rid) from memories",
            "others": """
                select exists (select 1 from memories where namespace < :namespace)
                     + exists (select 1 from memories where namespace > :namespace)
            """,
        }
        names: dict[str, str] = {}
        for expression in search.expressions:
            for atom in expression.atoms:
                name = f"atom{len(names)}"
                names[name] = atom.sql
                asked[atom] = f"select count(*) from {expression.index} where {expression.index} match :{name}"
        with self._lock:
            if time.monotonic() > self._expires or len(self._counts) > SURVEY_KEPT:
                self._counts, self._expires = {}, time.monotonic() + SURVEY_AGE
            known = {key: self._counts[key] for key in asked if key in self._counts}
        before = known.pop("rows", None)
        known.pop("others", None)  # asked every time: no matter for a guess
        values = search.values | names
        known |= self._ask(connection, {key: sql for key, sql in asked.items() if key not in known}, values)
        if before is not None and abs(known["rows"] - before) > SURVEY_DRIFT * before:
            with self._lock:
                self._counts = {}
            known = self._ask(connection, asked, values)
        counts = {key: known[key] for key in asked if isinstance(key, Atom)}
        return known["rows"], known["others"], counts

    def _ask(self, connection: apsw.Connection, asked: Mapping[Any, str], values: Mapping[str, Any]) -> dict[Any, int]:
        columns = ", ".join(f"({sql})" for sql in asked.values())
        (counted,) = fetch(connection, f"select {columns}", values)
        new = dict(zip(asked, (count or 0 for count in counted), strict=True))
        with self._lock:
            self._counts |= new
        return new


def _part(query: Query) -> str | None:
    """What to look for inside of words: the one word that was asked for, if it is long enough to tell anything."""
    text = query.terms[0].text.lower() if len(query.terms) == 1 else ""
    return text if len(text) > 2 else None


def _raw_expression(expression: str) -> Expression:
    return Expression(WORDS if "*" in expression else STEMS, (), expression)


def _expressions(terms: Sequence[Term], *, stemmed: bool) -> list[Expression]:
    """The terms by index: beginnings in the unstemmed one, all else in the stemmed one if it is wanted."""
    found = []
    for index in (STEMS, WORDS):
        atoms: dict[Atom, None] = {}
        whole = []
        for term in terms:
            if index == (STEMS if stemmed and not term.prefix else WORDS):
                every, single = _atoms(term)
                whole += every
                atoms |= dict.fromkeys(single)
        if atoms:
            some = tuple(atoms)[:MOST_ATOMS]
            found.append(Expression(index, some, " AND ".join(atom.sql for atom in whole[:MOST_ATOMS])))
    return found


def _atoms(term: Term) -> tuple[list[Atom], list[Atom]]:
    """A term as atoms that together ask for all of it, and as atoms any of which is something."""
    every, single = [], []
    for stretch, unspaced in tokenizer.split_unspaced(term.text):
        if not unspaced:
            if any(character.isalnum() for character in stretch):
                single.append(Atom(stretch, term.prefix))
                every.append(single[-1])
        elif len(stretch) == 1:
            single.append(Atom(stretch, prefix=True))  # every character begins a pair
            every.append(single[-1])
        else:
            pairs = [stretch[at : at + 2] for at in range(len(stretch) - 1)]
            every.append(Atom(" ".join(pairs)))
            single += [every[-1]] if term.exact else [Atom(pair) for pair in pairs]
    return every, single


def _guard(counts: Mapping[Atom, int], rows: int, budget: int) -> str | None:
    """The expression whose rows are worth scoring: rare atoms alone, commoner ones in pairs. None: all are."""
    if sum(counts.values()) <= 1.5 * budget:
        return None
    rare_first = sorted((count, atom.sql) for atom, count in counts.items())
    alone, total = 0, 0.0
    while alone < len(rare_first) and total + rare_first[alone][0] <= SHARE_OF_SINGLE_WORDS * budget:
        total += rare_first[alone][0]
        alone += 1
    parts = [atom for _, atom in rare_first[:alone]]
    rest = rare_first[alone : alone + WORDS_IN_PAIRS]
    pairs = sorted(
        (PAIRS_ATTRACT * first[0] * second[0] / rows, first[1], second[1])
        for place, first in enumerate(rest)
        for second in rest[place + 1 :]
    )
    for expected, first_word, second_word in pairs:
        if parts and total + expected > budget:
            break
        parts.append(f"({first_word} AND {second_word})")
        total += expected
    return " OR ".join(parts) or rare_first[0][1]


def _run(connection: apsw.Connection, search: KeywordSearch) -> tuple[list[Match], list[int] | None]:
    """
    The rows behind the guard; if they are too few, what else there is, in one more statement. Then the keys of all that
    holds a word, where the guard is everything that may be found.
    """
    for number, expression in enumerate(search.expressions):
        wanted = expression.all_of if search.all_needed else expression.any_of
        search.values |= {f"wanted{number}": wanted, f"all{number}": expression.all_of}
    search.values["guard"] = search.guard
    found: dict[int, Match] = {}
    _collect(connection, found, [_ranked(search, guarded=True)], search)
    all_keys = list(found) if search.few and found else None
    more = _more(search, len(found)) if len(found) < search.values["enough"] else []
    if more:
        _collect(connection, found, more, search)
    return list(found.values())[: search.values["limit"]], all_keys


def _collect(connection: apsw.Connection, found: dict[int, Match], stages: list[str], search: KeywordSearch) -> None:
    union = " union all ".join(f"select {place} as stage, * from ({stage})" for place, stage in enumerate(stages))
    sql = f"""
        select u.rid, u.score, u.whole, iif(row_number() over best <= :limit, {_TEXT}, '')
        from ({union}) u cross join memories m on m.rid = u.rid and m.namespace = :namespace
        window best as (order by u.stage, u.whole desc, u.score desc, u.rid)
        order by u.stage, u.whole desc, u.score desc, u.rid
    """
    asked = search.asked()
    for rid, score, whole, text in fetch(connection, sql, search.values):
        if rid not in found:
            found[rid] = Match(rid, score, bool(whole), coverage(asked, text) if score else 0.0)


_TEXT = "concat_ws(' ', m.title, m.tags, m.source, m.segments, m.facts, m.content)"


def _more(search: KeywordSearch, found: int) -> list[str]:
    """All rows with one of the words; rows with only the commonest words; or the text inside of words."""
    stages = [_ranked(search, guarded=False)] if search.guard is not None else []
    if search.spare:
        stages.append(_newest(search))
    if search.part is not None and not found:
        stages.append(_inside_words(search))
    return stages


def _ranked(search: KeywordSearch, *, guarded: bool) -> str:
    """Rows scored by BM25, those of several indexes added up."""
    scored = " union all ".join(
        _scored(search, number, expression.index, guarded=guarded)
        for number, expression in enumerate(search.expressions)
    )
    if len(search.expressions) > 1:
        having = f"having count(*) = {len(search.expressions)}" if search.all_needed else ""
        scored = f"select rid, sum(score) as score from ({scored}) group by rid {having}"
    return f"""
        select s.rid, s.score, {_whole(search)} as whole
        from ({scored}) s
        order by whole desc, s.score desc, s.rid
        limit {-1 if guarded and search.few else ":limit"}
    """


PASSING = "select value from json_each(:passing)"
_SUPERSEDED_ROWS = """
    select rid from memories indexed by memories_superseded
    where namespace = :namespace and valid_until is not null and deleted_at is null
"""
_WEIGHTS = ", ".join(f":weight{number}" for number in range(len(COLUMNS)))


def _scored(search: KeywordSearch, number: int, index: str, *, guarded: bool) -> str:
    score = f"""
        select {index}.rowid as rid, -bm25({index}, {_WEIGHTS}) as score
        from {index}
    """
    joined = f"cross join memories m on m.rid = {index}.rowid"
    mine = f"and m.namespace = :namespace {search.where}"
    shown = search.shown(f"+{index}.rowid")
    if guarded and search.few:
        guard = PASSING
    elif guarded and search.guard is not None and search.alone:
        guard = f"select rowid from {index} where {index} match :guard"
    elif guarded and search.guard is not None:
        guard = f"select {index}.rowid from {index} {joined} where {index} match :guard {mine}"
    elif search.alone:
        return f"{score} where {index} match :wanted{number} {shown}"
    else:
        return f"{score} {joined} where {index} match :wanted{number} {shown} {mine}"
    # The plus keeps SQLite from asking the index anew for each row behind the guard: a hundred times slower.
    return f"{score} where {index} match :wanted{number} and +{index}.rowid in ({guard}) {shown}"


def _whole(search: KeywordSearch) -> str:
    """Whether a row has all that was asked for: every word, and symbols such as the ++ of C++ as they were written."""
    tests = []
    if search.whole:
        tests += [
            f"s.rid in (select rowid from {expression.index} where {expression.index} match :all{number})"
            for number, expression in enumerate(search.expressions)
        ]
    for number, literal in enumerate(search.literals):
        search.values[f"literal{number}"] = literal
        written = f"instr(lower(concat_ws(' ', m.title, m.content)), :literal{number}) > 0"
        tests.append(f"(select {written} from memories m where m.rid = s.rid)")
    return " and ".join(tests) or "0"


def _newest(search: KeywordSearch) -> str:
    """Rows that hold only words so common that they say little, when the page is not full."""
    index = search.spare[0].index
    search.values["spare"] = search.spare[0].any_of
    return f"""
        select {index}.rowid as rid, 0.0 as score, 0 as whole
        from {index} cross join memories m on m.rid = {index}.rowid
        where {index} match :spare and m.namespace = :namespace {search.where} {search.shown("m.rid")}
        order by {index}.rowid desc limit :enough
    """


def inside_words(part: str) -> tuple[str, str]:
    """What is asked of a memory `m` that has this inside of a word. SQLite's lower() knows ASCII only."""
    if part.isascii():
        return "instr(lower(m.content), :part) > 0", part
    return "instr(folded(m.content), :part) > 0", tokenizer.fold(part)


def _inside_words(search: KeywordSearch) -> str:
    """The one thing asked for as a part of a longer word, when no word is it."""
    has_it, search.values["part"] = inside_words(search.part or "")
    return f"""
        select m.rid, 1e-6 as score, 0 as whole
        from memories m
        where m.namespace = :namespace and m.deleted_at is null and {has_it} {search.where}
          {search.shown("m.rid")}
        order by m.rid desc limit :enough
    """


MOST_HELD_BACK = 5000  # rows looked at to say what a filter keeps out
MOST_COUNTED = 30_000  # rows with any of the words; of more, only those are counted that the keyword leg would score
MOST_VALUES = 100  # of one field; the rest is rarer still

_ROW_FIELDS = ("project", "sector", "tier", "kind", "source", "month")


def facets(
    connection: apsw.Connection,
    leg: KeywordLeg,
    query: Query | None,
    scope: Scope,
    keys: Sequence[int],
    fields: Sequence[str],
) -> dict[str, dict[str, int]]:
    """
    How many of the matching memories have each value of a field, the commonest first.

    By its words a question matches what holds any of them; where these are so common that they stand in tens of
    thousands of memories, what holds a rare one or several of them. `keys` are what matched otherwise; it has passed
    the filter.
    """
    if not fields:
        return {}
    filter = scope.filter
    then = filter.as_of is not None
    where, values = conditions(filter, then=then)
    values |= {"namespace": leg.namespace}
    if query is not None:
        matching, more, passed = _found(connection, leg, query, scope, keys)
        values |= more
        where = "" if passed else where
        joined = f"from ({matching}) found cross join {source(then=then)} on m.rid = found.rid"
        where += _UNCHANGED if then else ""
    else:
        joined = f"from {source(then=then)}"
    arms = " union all ".join(_arm(field, then) for field in fields)
    sql = f"""
        with seen as materialized (
            select m.rid, m.project, m.sector, m.tier, m.kind, m.source, m.tags, {MONTH} as month
            {joined}
            where {"+" if query is not None else ""}m.namespace = :namespace and m.deleted_at is null {where})
        {arms}
        order by 3 desc, 2
    """
    counted: dict[str, dict[str, int]] = {field: {} for field in fields}
    for name, value, count in fetch(connection, sql, values):
        if len(counted[name]) < MOST_VALUES:
            counted[name][value] = count
    return counted


_UNCHANGED = f" and (not found.by_words or not {CHANGED})"


def _arm(field: str, then: bool) -> str:
    if field in _ROW_FIELDS:
        return f"select '{field}', {field}, count(*) from seen where {field} is not null group by {field}"
    if field == "tag":
        return "select 'tag', t.value, count(*) from seen, json_each(seen.tags) t group by t.value"
    kind, known = (FACT_KIND_THEN, "f.created_at <= :as_of") if then else ("f.kind", "true")
    return f"""
        select 'fact_kind', {kind} as fact_kind, count(distinct f.rid)
        from seen cross join facts f on f.rid = seen.rid
        where fact_kind is not null and {known}
        group by fact_kind
    """


def held_back(
    connection: apsw.Connection, leg: KeywordLeg, query: Query, filter: Filter, keys: Sequence[int]
) -> dict[str, int]:
    """How many matching memories each part of a filter keeps out; one that several keep out counts for the first."""
    then = filter.as_of is not None
    named, values = clauses(filter, then=then)
    if filter.as_of is not None:
        values["as_of"] = to_micros(filter.as_of)
    elif not named:
        return {}
    anything = Scope(replace(NO_FILTER, as_of=filter.as_of))
    matching, more, _ = _found(connection, leg, query, anything, keys, filtered=False)
    failed = " ".join(f"when ({clause}) is not true then '{name}'" for name, clause in named.items())
    found = f"""(
        select f.rid, f.by_words
        from ({matching}) f cross join memories n on n.rid = f.rid
        where n.namespace = :namespace
        limit {MOST_HELD_BACK}) found
    """
    sql = f"""
        select {f"case {failed} end" if failed else "null"} as filter, count(*)
        from {found} cross join {source(then=then)} on m.rid = found.rid
        where +m.namespace = :namespace and m.deleted_at is null {_UNCHANGED if then else ""}
        group by filter
    """
    if then:
        sql += f"""
            union all
            select 'as_of', count(*)
            from {found} cross join memories m on m.rid = found.rid
            where +m.namespace = :namespace and m.deleted_at is null and not {EXISTED}
        """
    held = dict(fetch(connection, sql, values | more | {"namespace": leg.namespace}))
    return {name: held[name] for name in (*named, "as_of") if held.get(name)}


def _found(
    connection: apsw.Connection,
    leg: KeywordLeg,
    query: Query,
    scope: Scope,
    keys: Sequence[int],
    *,
    filtered: bool = True,
) -> tuple[str, dict[str, Any], bool]:
    """
    A statement for the keys of all that matches, each with whether words found it, and the values for it.

    With `filtered` it may be that all of them pass the filter, and need not be asked again: then the last is True.
    """
    search, filter = leg.prepare(query, scope), scope.filter
    if search.expressions and (filtered or filter.as_of is not None):
        leg.survey(connection, search)
    expressions: Sequence[Expression] = search.expressions
    guard = search.guard if sum(search.counts.values()) > MOST_COUNTED else None
    wanted = [each.all_of if search.all_needed else guard or each.any_of for each in expressions]
    raw = None
    if query.raw is not None and (readable := leg.readable(connection, query.raw)) is not None:
        expressions, wanted, raw = [readable], [query.raw], query.raw
    if filter.as_of is not None and query:
        changed = as_of.matches(connection, leg.namespace, filter, search.wanted(raw), {})
        keys = [*keys, *(match.key for match in changed)]
    values: dict[str, Any] = {"found_keys": json.dumps(list(keys))}
    values |= {f"found{number}": text for number, text in enumerate(wanted)}
    arms = [
        f"select rowid as rid, 1 as by_words from {each.index} where {each.index} match :found{number}"
        for number, each in enumerate(expressions)
    ]
    if filtered and search.few:
        arms = [f"{arm} and +rowid in ({PASSING})" for arm in arms]
        values |= search.values
    if search.all_needed and len(arms) > 1:
        arms = [f"select * from ({' intersect '.join(arms)})"]
    arms += _parts(search, arms, values)
    arms.append("select value as rid, 0 as by_words from json_each(:found_keys)")
    sql = f"select rid, min(by_words) as by_words from ({' union all '.join(arms)}) group by rid"
    passed = search.few or not expressions
    return sql, values, filtered and passed and search.part is None and filter.as_of is None


def _parts(search: KeywordSearch, arms: Sequence[str], values: dict[str, Any]) -> list[str]:
    """What has the one thing asked for inside of a word, where no word is it."""
    if search.part is None or not arms:
        return []
    has_it, values["part"] = inside_words(search.part)
    return [
        f"""
        select m.rid, 1
        from memories m
        where not exists ({" union all ".join(arms)})
          and m.namespace = :namespace and m.deleted_at is null and {has_it}
        """
    ]
