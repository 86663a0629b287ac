"""The keyword leg on PostgreSQL finds what the one on SQLite finds, in the same order and with the same scores."""

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

import memorist
from keyword_parity import IndexPair, copy_memories, open_pair
from memorist.arguments import NO_FILTER, Filter
from memorist.profiles.profile import ALL_COLUMNS
from memorist.records import Query, Term
from memorist.search.query import parse_query
from memorist.store.database import Connection
from memorist.store.image_follower import ImageFollower
from memorist.store.near_duplicates import list_sharing
from memorist.store.postgres import text_index
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.keyword import PostgresKeywordIndex
from memorist.store.postgres.text_index import Phrase, index_queued, tokenize_columns, write_tsvector
from memorist.store.records import Scope

WORDS = """
    deploy deployed server servers database user_id ADR-016 running runs test testing 東京都庁 東京 漢字 สวัสดี café naïve
    C++ .NET postgres cat cats dog the of a and to memory agent Zürich O'Brien 3.14 v2.0 foo.bar() it's state-of-the-art
""".split()
QUERIES = (
    "deploy", "deploy server", "user_id", "ADR-016 deploy", '"deploy server"', "dep* server", "東京", "東京都",
    "京", "京都庁 漢字",
    "c++", ".net", "the of", "the deploy", "cafe naive", "running test", '"cats dog" user', "zzz", "zzz deploy", "ploy",
    "s*", "alpha", "docs", "state-of-the-art", "o'brien it's", '"the cat of"', "'\"\\", "!!!", "v2 0", "foo.bar",
    "ZÜRICH",
    '"user id"*', "what did the agent deploy to the server in Zürich?", "สวัสดี", "a", "notes", "birthday paris",
)  # fmt: skip
EXPRESSIONS = (
    "deploy AND server", "deploy NOT server", "server OR (dog AND cat)", "NEAR(deploy server, 3)", "serv* OR do*",
    '"deploy server" + dog', "deploy AND", "(", "東京都", "deploy", "zzz OR zzy", "NOT deploy",
    "title: deploy", "^deploy", "{title tags}: deploy OR dog", "- title: (user guide)", "^serv* dog",
    "tags: al* AND cat",
)  # fmt: skip
RED = Filter(project=("red",))
FILTERS = (
    NO_FILTER,
    RED,
    Filter(project=("red",), restricted=True),
    Filter(superseded=False),
    Filter(tags=("alpha",), superseded=False),
    Filter(since=datetime(2026, 2, 1, tzinfo=UTC), until=datetime(2026, 5, 1, tzinfo=UTC)),
    Filter(project=("none",)),
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some hundred memories with everything that is searched: titles, tags, sources and facts."""
    path = tmp_path_factory.mktemp("keyword") / "memories.db"
    chance = random.Random(5)
    with memorist.open(path, embedder="none") as memory:
        ids = [
            memory.add(
                " ".join(chance.choices(WORDS, k=chance.randint(3, 40))) + f" n{number}",
                title=chance.choice([None, "deploy notes", "東京 plan", "user guide"]),
                tags=chance.choice([[], ["alpha", "deploy"], ["beta"]]),
                project=chance.choice([None, "red", "blue"]),
                source=chance.choice([None, "docs/user_id.md"]),
                facts=chance.choice([None, None, ["The birthday of the cat is in Paris", "Servers run"]]),
                created_at=datetime(2026, chance.randint(1, 9), 1, tzinfo=UTC),
                on_near_duplicate="off",
            ).id
            for number in range(300)
        ]
        for place in range(0, 60, 6):
            memory.supersede(ids[place], ids[place + 1])
        for place in range(60, 90, 10):
            memory.forget(ids[place])
    return path


@pytest.fixture
def twins(filled: Path, postgres_url: str) -> Iterator[IndexPair]:
    opened = open_pair(filled, postgres_url)
    yield opened
    opened.database.close()


class TestBothBackends:
    @pytest.mark.parametrize("grammar", ["auto", "and", "or", "or_prefix"])
    def test_find_the_same(self, twins: IndexPair, grammar: str) -> None:
        differences = [
            difference for filter in FILTERS for text in QUERIES for difference in twins.compare(text, grammar, filter)
        ]
        assert differences == []

    def test_find_the_same_by_expressions(self, twins: IndexPair) -> None:
        differences = [
            difference
            for filter in FILTERS[:4]
            for text in EXPRESSIONS
            for difference in twins.compare(text, "fts5", filter)
        ]
        assert differences == []

    @pytest.mark.parametrize("limit", [1, 5])
    def test_find_the_same_of_a_short_page(self, twins: IndexPair, limit: int) -> None:
        assert [each for text in QUERIES for each in twins.compare(text, limit=limit, page=1)] == []

    @pytest.mark.parametrize("rows", [20, 60])
    def test_find_the_same_behind_the_guard(self, twins: IndexPair, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
        monkeypatch.setattr("memorist.store.keyword_search.PRUNING_ROWS", rows)
        for module in ("keyword_search", "postgres.keyword"):
            monkeypatch.setattr(f"memorist.store.{module}.FILTERED_PRUNING_ROWS", 2 * rows)
        for module in ("filters", "image", "keyword_search"):  # no filter is narrow
            monkeypatch.setattr(f"memorist.store.{module}.MAX_SCOPE_KEYS", 10)
        differences = [each for filter in FILTERS for text in QUERIES for each in twins.compare(text, "auto", filter)]
        assert differences == []

    def test_select_the_same(self, twins: IndexPair) -> None:
        # Of unspaced script, SQLite counts what the expression matches, though it searches for its pairs of characters.
        queries = [parse_query(text, "fts5") for text in EXPRESSIONS if text.isascii()]
        for query in (*queries, *(parse_query(text, "auto") for text in QUERIES)):
            for filter, filtered in itertools.product(FILTERS[:4], (True, False)):
                scope = twins.store.resolve_scope(filter) if filtered else Scope(filter.restriction)
                ours, passed = select_on_sqlite(twins, query, scope, filtered)
                with twins.database.reading() as connection:
                    sql, values, also = twins.index.select_matching(connection, query, scope, [3, 4], filtered=filtered)
                    theirs: dict[int, int] = dict(connection.fetch(sql, values))
                if query.raw:  # SQLite leaves it to the caller to filter
                    assert theirs.keys() <= ours.keys(), query
                else:
                    assert (ours, passed) == (theirs, also), query

    def test_texts_that_share_words_are_looked_up_once_on_postgresql(
        self, twins: IndexPair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lookups: list[str] = []
        select = PostgresKeywordIndex.select_sharing

        def select_and_count(index: PostgresKeywordIndex, *args: Any, **options: Any) -> Any:
            lookups.append("one")
            return select(index, *args, **options)

        monkeypatch.setattr(PostgresKeywordIndex, "select_sharing", select_and_count)
        words = {word: word for word in ("deploy", "server", "test", "cat", "dog", "agent")}
        with twins.database.reading() as connection:
            theirs = list_sharing(connection, "default", twins.index, words, 1, NO_FILTER)

        assert theirs == twins.store.list_sharing(words, 1, NO_FILTER)
        assert len(theirs) == 200  # though there are more than are looked for at first
        assert lookups == ["one"]

    def test_know_the_same_words(self, twins: IndexPair) -> None:
        terms = [
            Term(word, prefix=prefix) for word in (*WORDS, "zzz", "dep", "deploy server") for prefix in (False, True)
        ]
        similar = ("deplyo", "sever", "Zurch", "cafes", "postgers", "memroy", "x", "zzzzzz", "東京")
        with twins.store._pool.reading() as file, twins.database.reading() as connection:
            vocabulary = twins.store._keyword
            assert vocabulary.find_known(file, terms) == twins.index.find_known(connection, terms)
            assert not twins.index.find_known(connection, [])
            for word in similar:
                assert vocabulary.find_similar(file, word) == twins.index.find_similar(connection, word), word


def select_on_sqlite(twins: IndexPair, query: Query, scope: Scope, filtered: bool) -> tuple[dict[int, int], bool]:
    """Return the keys of all that matches, and whether they are known to pass the filter."""
    with twins.store._pool.reading() as connection:
        index = twins.store._keyword
        sql, values, passed = index.select_matching(connection, query, scope, [3, 4], filtered=filtered)
        rows: Any = connection.execute(sql, {"namespace": "default", "project": "red"} | values)
        return dict(rows), passed


INSERT = """
    insert into memories(
        rid, id, namespace, content, content_hash, title, project, segments, sector, tier, salience, created_at,
        updated_at, reinforced_at, recorded_at)
    values (:rid, :id, :namespace, :content, :hash, :title, :project, null, 'semantic', 'project', .5, 1, 1, 1, 1)
"""


def insert(
    connection: Connection, rid: int, content: str, title: str | None = None, project: str | None = None
) -> None:
    values = {"rid": rid, "id": str(rid), "namespace": "default", "content": content, "title": title}
    connection.execute(INSERT, values | {"hash": rid.to_bytes(4, "big"), "project": project})


@pytest.fixture
def indexed(database: PostgresDatabase) -> PostgresDatabase:
    database.before_commit = index_queued
    return database


def read_statistics(database: PostgresDatabase) -> tuple[dict[tuple[bool, str], int], tuple[int, int]]:
    """Return the counts of words and the totals, as the tables have them."""
    with database.reading() as connection:
        counts = {(stemmed, term): count for stemmed, term, count in connection.fetch(_COUNTS)}
        return counts, connection.fetch_value("select memories, tokens from text_statistics")


_COUNTS = "select stemmed, term, count from vocabulary"
_RECOUNT = """
    select k.stemmed, term, count(*) from memory_texts t
    cross join lateral (values (true, t.stems), (false, t.words)) k(stemmed, tokens)
    cross join lateral unnest(tsvector_to_array(k.tokens)) term group by 1, 2
"""


def recount(database: PostgresDatabase) -> tuple[dict[tuple[bool, str], int], tuple[int, int]]:
    """Return the same from the texts."""
    with database.reading() as connection:
        counts = {(stemmed, term): count for stemmed, term, count in connection.fetch(_RECOUNT)}
        totals = connection.fetch_value("select count(*), coalesce(sum(length), 0) from memory_texts")
        return counts, totals


def find(database: PostgresDatabase, text: str, filter: Filter = NO_FILTER) -> list[int]:
    with database.reading() as connection:
        found = PostgresKeywordIndex(database.namespace, ImageFollower(database, database.namespace, 0)).match(
            connection, parse_query(text, "auto"), Scope(filter), 10, 10, ALL_COLUMNS
        )
    return [match.key for match in found.matches]


class TestUpkeep:
    def test_statistics_follow_every_change(self, indexed: PostgresDatabase) -> None:
        with indexed.writing() as connection:
            for rid in range(1, 6):
                insert(connection, rid, f"deploying the server {rid} deployed", title="a note" if rid % 2 else None)
        for statement in (
            "update memories set content = 'testing a database' where rid = 1",
            "update memories set title = null where rid in (1, 3)",
            "update memories set deleted_at = 1 where rid = 2",
            "update memories set salience = .7",
            "update memories set deleted_at = null, content = 'back again' where rid = 2",
            "delete from memories where rid in (3, 4)",
            "update memories set facts = 'a cat' where rid = 5",
            "delete from memories where rid in (1, 2)",
        ):
            with indexed.writing() as connection:
                connection.execute(statement)
            assert read_statistics(indexed) == recount(indexed), statement
        assert find(indexed, "server") == [5]
        assert find(indexed, "cat") == [5]
        with indexed.writing() as connection:
            connection.execute("delete from memories")
        assert read_statistics(indexed) == ({}, (0, 0))

    def test_many_at_once(self, indexed: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(text_index, "_MAX_ROWS", 7)
        monkeypatch.setattr(text_index, "_MAX_CHARACTERS", 30)
        with indexed.writing() as connection:
            for rid in range(1, 30):
                insert(connection, rid, f"word{rid} and more")
        assert read_statistics(indexed) == recount(indexed)
        assert read_statistics(indexed)[1] == (29, 87)

    def test_what_is_not_committed_is_not_found(self, indexed: PostgresDatabase) -> None:
        def fail() -> None:
            with indexed.writing() as connection:
                insert(connection, 1, "deploy")
                index_queued(connection)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert find(indexed, "deploy") == []


class TestLimits:
    """PostgreSQL limits a tsvector to 16,383 positions, 256 of a word, 2 KB a word, and 1 MB in all."""

    def test_long_texts_are_scored_alike(self, tmp_path: Path, postgres_url: str) -> None:
        path = tmp_path / "long.db"
        far = " ".join(f"word{number % 5000}" for number in range(17_000)) + " needle in hay ADR-016 done"
        with memorist.open(path, embedder="none") as memory:
            memory.add(far, title="needle notes", on_near_duplicate="off")
            memory.add("the cat " * 400 + "needle", on_near_duplicate="off")
            memory.add("a cat and a needle in hay, see ADR-016", on_near_duplicate="off")
            memory.add("in needle, adr and 016", on_near_duplicate="off")
        twins = open_pair(path, postgres_url)
        queries = (
            "needle",
            "cat",
            '"needle in hay"',
            "ADR-016",
            "the cat needle",
            "word4999 needl*",
            '"hay adr 016 do"*',
        )
        differences = [each for text in queries for grammar in ("auto", "and") for each in twins.compare(text, grammar)]
        twins.database.close()
        assert differences == []

    def test_nothing_is_too_long(self, indexed: PostgresDatabase) -> None:
        unspaced = "x" * 300_000
        numbers = " ".join(f"{number:x}" for number in range(150_000))
        with indexed.writing() as connection:
            insert(connection, 1, f"{unspaced} short")
            insert(connection, 2, numbers)
            insert(connection, 3, "it " * 300_000)
            insert(connection, 4, "\ud7ff\U0010fffd 🙂 \u0301 ' \\ : ' \"quoted\" <-> & | !")
        assert find(indexed, unspaced[:9000]) == [1]
        assert find(indexed, "short") == [1]
        assert find(indexed, "ffff") == [2]
        assert find(indexed, "quoted") == [4]

    def test_a_tsvector_stays_below_a_megabyte(self) -> None:
        positions = tokenize_columns({"content": " ".join(map(str, range(300_000)))}, stemmed=True).positions
        written, clipped = write_tsvector(positions)
        assert clipped
        assert len(written.split()) < len(positions)

    def test_phrases_do_not_cross_columns(self, indexed: PostgresDatabase) -> None:
        with indexed.writing() as connection:
            insert(connection, 1, "server is down", title="deploy the")
            insert(connection, 2, "deploy the server")
        assert find(indexed, '"deploy the server"') == [2]

    def test_a_phrase_of_the_same_word(self) -> None:
        assert sorted(Phrase(("a", "a"), prefix=False).find({"a": "1A,2A,3A,5A,6A", "b": "4A"})) == [2, 3, 6]


class TestWalls:
    def test_a_namespace_sees_its_own_texts_only(self, indexed: PostgresDatabase, postgres_url: str) -> None:
        other = PostgresDatabase(postgres_url, namespace="other")
        other.before_commit = index_queued
        for database, rid in ((indexed, 1), (other, 2)):
            with database.writing() as connection:
                insert(connection, rid, "deploy the server")
                connection.execute("update memories set namespace = ?", (database.namespace,))
        assert (find(indexed, "deploy"), find(other, "deploy")) == ([1], [2])
        with indexed.reading() as connection:
            for function in (
                "find_texts(:n, true, 'deploy', null)",
                "scan_texts(:n, true, 'deploy', null, '{deploy}')",
            ):
                assert not connection.fetch(f"select * from {function}", {"n": "other"})
        other.close()

    def test_a_project_is_scored_by_itself(self, indexed: PostgresDatabase) -> None:
        restricted = Filter(project=("red",), restricted=True)
        with indexed.writing() as connection:
            for rid in range(1, 9):
                insert(connection, rid, f"deploy server {rid}" if rid % 2 else "dog", project="red")
        before = search_scores(indexed, restricted)
        with indexed.writing() as connection:
            for rid in range(10, 40):
                insert(connection, rid, "deploy " * rid, project="blue")
        assert search_scores(indexed, restricted) == before

    @pytest.mark.parametrize("user", ["postgres_url", "postgres_user_url"])
    def test_a_search_reads_the_index(self, request: pytest.FixtureRequest, user: str) -> None:
        database = PostgresDatabase(request.getfixturevalue(user), namespace="default")
        database.before_commit = index_queued
        with database.writing() as connection:
            for rid in range(1, 400):
                insert(connection, rid, f"deploy number{rid}")
        with psycopg.connect(request.getfixturevalue(user), autocommit=True) as owner:
            owner.execute("vacuum analyze memory_texts")
        with database.writing() as connection:
            connection.execute("set local enable_seqscan = off")
            index = PostgresKeywordIndex("default", ImageFollower(database, "default", 0))
            query = parse_query("number7", "auto")
            assert index.match(connection, query, Scope(NO_FILTER), 5, 5, ALL_COLUMNS).matches
            scans = connection.fetch_value(
                "select pg_stat_get_xact_numscans(cast(cast('memory_texts_stems' as regclass) as oid))"
            )
        database.close()
        assert scans == 1


def search_scores(database: PostgresDatabase, filter: Filter) -> list[tuple[int, float]]:
    with database.reading() as connection:
        found = PostgresKeywordIndex("default", ImageFollower(database, "default", 0)).match(
            connection, parse_query("deploy server", "auto"), Scope(filter), 10, 10, ALL_COLUMNS
        )
    return [(match.key, match.score) for match in found.matches]


def test_copies_are_indexed_once(filled: Path, database: PostgresDatabase) -> None:
    """Memories that came without the tokenizer are indexed by the next write."""
    copy_memories(filled, database, "default")
    assert find(database, "deployed server") == []
    database.before_commit = index_queued
    with database.writing():
        pass
    assert find(database, "deployed server")
    with database.reading() as connection:
        assert connection.fetch_value("select count(*) from unindexed") == 0
