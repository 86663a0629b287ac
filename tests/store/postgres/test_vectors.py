"""Vectors on PostgreSQL: what is nearest, exactly and by an index, behind any filter, of one namespace and model."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pytest

from memorist.arguments import NO_FILTER, Filter
from memorist.errors import EmbedderError, StoreError
from memorist.records import Model
from memorist.store.filters import from_micros
from memorist.store.postgres import vectors as postgres_vectors
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.vectors import PostgresVectors, quote_text
from memorist.store.records import EmbeddingJob, Part, Scope
from memorist.store.rows import memories_table
from memorist.store.vectors import SPANS, compare_stored, decode_span, vector_column
from timeouts import MAX_WAIT_SECONDS

DIMENSIONS = 8
MODEL, OTHER = Model("test:one", DIMENSIONS), Model("test:two", DIMENSIONS)
ALL = Scope(NO_FILTER)
RNG = np.random.default_rng(11)


def unit(count: int) -> Any:
    raw = RNG.normal(size=(count, DIMENSIONS))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def direction(*numbers: float) -> Any:
    vector = np.zeros(DIMENSIONS, np.float32)
    vector[: len(numbers)] = numbers
    return vector / np.linalg.norm(vector)


QUERY = direction(1)


class Space:
    """A namespace with memories and vectors, written as the store would."""

    def __init__(self, database: PostgresDatabase, namespace: str = "default") -> None:
        self.database, self.namespace = database, namespace
        self.vectors = PostgresVectors(database, namespace)

    def add(self, *texts: str, project: str | None = None, title: str | None = None) -> list[EmbeddingJob]:
        jobs = []
        with self.database.writing() as connection:
            for text in texts:
                key = connection.fetch_value(
                    """
                    insert into memories(
                        id, namespace, project, title, content, content_hash, sector, tier, salience, created_at,
                        updated_at, reinforced_at, recorded_at)
                    values (
                        :id, :namespace, :project, :title, :content, :hash, 'semantic', 'project', .5, 10, 10, 10, 10)
                    returning rid
                    """,
                    {
                        "id": f"{self.namespace} {text}", "namespace": self.namespace, "project": project,
                        "title": title, "content": text, "hash": hashlib.sha256(text.encode()).digest(),
                    },
                )  # fmt: skip
                jobs.append(EmbeddingJob(key, title, text))
        return jobs

    def put(self, jobs: Sequence[EmbeddingJob], vectors: Any, parts: Sequence[Part] = (), model: Model = MODEL) -> None:
        self.vectors.put(model, jobs, np.asarray(vectors, np.float32), parts)

    def add_many(self, vectors: Any, project: Callable[[int], str] = lambda _: "all") -> list[int]:
        """Add a memory for each vector, in a few statements."""
        keys: list[int] = []
        with self.database.writing() as connection:
            numbers = connection.fetch(
                """
                insert into memories(
                    id, namespace, project, content, content_hash, sector, tier, salience, created_at, updated_at,
                    reinforced_at, recorded_at)
                select k.value::text, :namespace, p.value, k.value::text, sha256(k.value::text::bytea), 'semantic',
                    'project', .5, 10, 10, 10, 10
                from @numbered(:numbers) k
                join (select value, row_number() over () - 1 as place from @texts(:projects) t) p on p.place = k.place
                order by k.value
                returning rid
                """,
                {
                    "namespace": self.namespace,
                    "numbers": json.dumps(list(range(len(vectors)))),
                    "projects": json.dumps([project(number) for number in range(len(vectors))]),
                },
            )
            keys = [key for (key,) in numbers]
            jobs = [EmbeddingJob(key, None, str(number)) for number, key in enumerate(keys)]
            self.vectors.write(connection, MODEL, jobs, vectors)
        return keys

    def nearest(self, vector: Any = QUERY, scope: Scope = ALL, limit: int = 10, model: Model = MODEL) -> list[int]:
        return [match.key for match in self.vectors.find_nearest(model, vector, scope, limit).matches]

    def run(self, sql: str, values: Any = None) -> Any:
        with self.database.writing() as connection:
            return connection.fetch(sql, values)


@pytest.fixture
def space(database: PostgresDatabase) -> Space:
    return Space(database)


@contextmanager
def opened(url: str, namespace: str, **options: Any) -> Iterator[Space]:
    database = PostgresDatabase(url, namespace=namespace, **options)
    try:
        yield Space(database, namespace)
    finally:
        database.close()


def plan_of(space: Space, monkeypatch: pytest.MonkeyPatch, search: Callable[[], object]) -> str:
    """Return the plans of the searches within a call."""
    plans: list[str] = []
    original = PostgresVectors._search

    def explain(
        self: PostgresVectors, connection: Any, filter: Filter, nearest: str, values: Any, complete: str = "true"
    ) -> Any:
        sql = f"explain {nearest} {postgres_vectors._STATE.format(live=self._live, complete=complete)}"
        plans.extend(line for (line,) in connection.fetch(sql, values))
        return original(self, connection, filter, nearest, values, complete=complete)

    monkeypatch.setattr(PostgresVectors, "_search", explain)
    search()
    monkeypatch.setattr(PostgresVectors, "_search", original)
    return "\n".join(plans)


class TestWaitingTexts:
    def test_a_new_text_waits_until_its_vector_is_stored(self, space: Space) -> None:
        one, two = space.add("one", "two", title="a title")
        space.put([one], [QUERY])

        assert space.vectors.list_unembedded(0, 10) == [two]
        assert space.vectors.list_unembedded(two.key, 10) == []
        assert space.vectors.list_without_vector(MODEL, 0, 10) == [two]
        assert space.vectors.list_without_vector(OTHER, 0, 1) == [one]

    def test_of_a_project_only_its_own_are_listed(self, space: Space) -> None:
        space.add("elsewhere", project="p")
        (own,) = space.add("here", project="q")

        assert space.vectors.list_unembedded(0, 10, "q") == [own]

    def test_a_forgotten_text_does_not_wait(self, space: Space) -> None:
        (job,) = space.add("one")
        space.run("update memories set deleted_at = 20")

        assert space.vectors.list_unembedded(0, 10) == []
        assert space.vectors.list_without_vector(MODEL, job.key - 1, 10) == []

    def test_an_uncut_text_needs_a_vector_anew(self, space: Space) -> None:
        jobs = space.add("one")
        space.put(jobs, [QUERY])
        space.run("insert into uncut(rid) values (?)", (jobs[0].key,))

        assert space.vectors.list_without_vector(MODEL, 0, 10) == jobs
        space.put(jobs, [QUERY])
        assert space.vectors.list_without_vector(MODEL, 0, 10) == []

    def test_a_text_that_changed_meanwhile_gets_no_vector(self, space: Space) -> None:
        (job,) = space.add("before")
        space.run("update memories set content = 'after'")
        space.put([job], [QUERY, QUERY], [Part(job, 0, 3)])

        assert space.run("select count(*) from vectors") == [(0,)]
        assert space.run("select count(*) from part_vectors") == [(0,)]
        assert [job.content for job in space.vectors.list_unembedded(0, 10)] == ["after"]


class TestNearest:
    def test_the_nearest_are_first_and_equal_ones_by_key(self, space: Space) -> None:
        jobs = space.add("far", "near", "same", "same too")
        space.put(jobs, [direction(0, 1), direction(1, 0.2), QUERY, QUERY])

        found = space.vectors.find_nearest(MODEL, QUERY, ALL, 10)

        assert [match.key for match in found.matches] == [jobs[number].key for number in (2, 3, 1, 0)]
        assert [match.score for match in found.matches] == pytest.approx([1, 1, 0.9806, 0], abs=1e-3)
        assert (found.total, found.unembedded, found.unfiltered) == (4, 0, found.matches)

    def test_a_vector_comes_back_as_it_was_stored(self, space: Space) -> None:
        jobs = space.add("one")
        stored = unit(1)
        space.put(jobs, stored)
        with space.database.reading() as connection:
            blob = connection.fetch_value(f"select {vector_column(past=False)} from memories m", {"model": MODEL.name})

        assert blob == stored.astype(np.float16).tobytes()

    def test_limits_from_none_to_more_than_there_are(self, space: Space) -> None:
        space.put(space.add("one", "two"), unit(2))

        assert [len(space.nearest(limit=limit)) for limit in (0, 1, 50)] == [0, 1, 2]

    def test_a_memory_counts_by_its_nearest_part(self, space: Space) -> None:
        long, short = space.add("long and longer", "short")
        parts = [Part(long, 0, 4), Part(long, 5, 15)]
        space.put([long, short], [direction(0, 1), direction(1, 0.5), direction(0, 0, 1), QUERY], parts)

        found = space.vectors.find_nearest(MODEL, QUERY, ALL, 10).matches

        assert found.keys.tolist() == [long.key, short.key]
        assert found.scores[0] == pytest.approx(1, abs=1e-3)
        with space.database.reading() as connection:
            keys, wholes = np.array([short.key, long.key]), [direction(1, 0.5), direction(0, 1)]
            blobs = [np.asarray(vector, np.float16).tobytes() for vector in wholes]
            compared = compare_stored(connection, MODEL.name, keys, blobs, QUERY, np.ones(2, np.bool_))
            spans = connection.fetch_value(
                f"select ({SPANS}) from memories m where m.rid = :key", {"key": long.key, "model": MODEL.name}
            )
        assert [*compared.parts] == [1]
        assert compared.similarities[1] == pytest.approx(1, abs=1e-3)
        assert decode_span(spans, compared.parts[1]) == (5, 15)
        assert decode_span(spans, 2) is None  # it was embedded anew, and has fewer parts

    def test_parts_go_with_the_vector_of_their_memory(self, space: Space) -> None:
        (job,) = space.add("long and longer")
        space.put([job], [direction(0, 1), QUERY], [Part(job, 0, 4)])
        space.put([job], [direction(0, 1)])

        assert space.run("select count(*) from part_vectors") == [(0,)]

    def test_whether_there_are_parts_is_known_after_a_search(self, space: Space) -> None:
        (job,) = space.add("long and longer")
        space.put([job], [QUERY])
        assert space.vectors.have_parts(MODEL)  # perhaps

        space.nearest()
        assert not space.vectors.have_parts(MODEL)

        space.put([job], [QUERY, QUERY], [Part(job, 0, 4)])
        assert space.vectors.have_parts(MODEL)

    def test_a_vector_of_zeros_is_similar_to_nothing(self, space: Space) -> None:
        jobs = space.add("one", "two")
        space.put(jobs, [np.zeros(DIMENSIONS), direction(-1)])

        found = space.vectors.find_nearest(MODEL, QUERY, ALL, 10).matches

        assert [(match.key, match.score) for match in found] == [(jobs[0].key, 0), (jobs[1].key, -1)]

    def test_what_is_forgotten_is_not_found_and_comes_back(self, space: Space) -> None:
        one, two = space.add("one", "two")
        space.put([one, two], [QUERY, QUERY])
        space.run("update memories set deleted_at = 20 where rid = ?", (one.key,))

        assert space.nearest() == [two.key]
        space.run("update memories set deleted_at = null")
        assert space.nearest() == [one.key, two.key]
        space.run("delete from memories where rid = ?", (one.key,))
        assert space.nearest() == [two.key]
        assert space.run("select count(*) from vectors") == [(1,)]

    def test_a_text_that_changes_loses_its_vector(self, space: Space) -> None:
        jobs = space.add("one")
        space.put(jobs, [QUERY])
        space.run("update memories set content = 'two'")

        found = space.vectors.find_nearest(MODEL, QUERY, ALL, 10)

        assert (len(found.matches), found.total, found.unembedded) == (0, 1, 1)


class TestFilters:
    def test_keys_that_were_listed_are_compared(self, space: Space) -> None:
        vectors = unit(300)
        keys = space.add_many(vectors)
        few = np.array(sorted(keys[::7]), np.int64)

        found = space.nearest(scope=Scope(Filter(project=("all",)), few), limit=10)

        exact = [keys[number] for number in np.argsort(-(vectors.astype(np.float16) @ QUERY), kind="stable")]
        assert found == [key for key in exact if key in few][:10]

    def test_a_page_that_is_not_full_tells_what_there_is_without_the_filter(self, space: Space) -> None:
        one, two = *space.add("one", project="p"), *space.add("two", project="q")
        space.put([one, two], [QUERY, QUERY])

        found = space.vectors.find_nearest(MODEL, QUERY, Scope(Filter(project=("p",))), 10)

        assert [match.key for match in found.matches] == [one.key]
        assert [match.key for match in found.unfiltered] == [one.key, two.key]

    def test_behind_a_wall_nothing_else_is_told_or_counted(self, space: Space) -> None:
        one, two = *space.add("one", project="p"), *space.add("two", "three", project="q")[:1]
        space.put([one, two], [QUERY, QUERY])
        wall = Filter(project=("p",), restricted=True)

        found = space.vectors.find_nearest(MODEL, QUERY, Scope(wall), 10)

        assert [match.key for match in found.matches] == [match.key for match in found.unfiltered] == [one.key]
        assert (found.total, found.unembedded) == (1, 0)
        assert space.vectors.find_nearest(OTHER, QUERY, Scope(wall), 10).total == 1


class TestModels:
    def test_only_vectors_of_the_same_model_are_compared(self, space: Space) -> None:
        one, two = space.add("one", "two")
        space.put([one, two], [QUERY, direction(0, 1)])
        space.put([two], [QUERY], model=OTHER)

        assert space.nearest() == [one.key, two.key]
        found = space.vectors.find_nearest(OTHER, QUERY, ALL, 10)
        assert [match.key for match in found.matches] == [two.key]
        assert (found.total, found.unembedded) == (2, 1)

    def test_a_model_without_vectors_finds_nothing(self, space: Space) -> None:
        space.add("one")

        found = space.vectors.find_nearest(MODEL, QUERY, ALL, 10)

        assert (len(found.matches), found.total, found.unembedded) == (0, 1, 1)

    def test_dropping_others_makes_their_memories_wait(self, space: Space) -> None:
        one, two = space.add("one", "two")
        space.put([one, two], [QUERY, QUERY])
        space.put([one], [QUERY], model=OTHER)
        space.nearest()

        assert space.vectors.drop_others(OTHER) == 2
        assert space.vectors.list_unembedded(0, 10) == [two]
        assert space.run("select name from models") == [(OTHER.name,)]
        assert space.nearest() == []

    def test_models_that_another_namespace_uses_stay(self, space: Space) -> None:
        chunks = Space(space.database, "default\x1fdocuments")
        space.put(space.add("one"), [QUERY])
        chunks.put(chunks.add("a chunk"), [QUERY])

        assert space.vectors.drop_others(OTHER) == 1
        assert len(chunks.nearest()) == 1
        assert space.run("select name from models order by name") == [(MODEL.name,), (OTHER.name,)]

    def test_other_dimensions_are_another_model(self, space: Space) -> None:
        jobs = space.add("one")
        space.put(jobs, [QUERY])
        wider = Model(MODEL.name, 9)

        with pytest.raises(EmbedderError, match="now gives 9 dimensions"):
            space.vectors.put(wider, jobs, np.ones((1, 9), np.float32))
        with pytest.raises(EmbedderError, match="now gives 9 dimensions"):
            space.vectors.find_nearest(wider, np.ones(9, np.float32), ALL, 10)

    def test_dimensions_that_another_process_changed_are_noticed(self, space: Space) -> None:
        jobs = space.add("one")
        space.put(jobs, [QUERY])
        space.nearest()
        narrow = PostgresVectors(space.database, space.namespace)
        narrow.drop_others(OTHER)
        narrow.put(Model(MODEL.name, 3), jobs, np.ones((1, 3), np.float32))

        with pytest.raises(EmbedderError, match="stored under that name have 3"):
            space.nearest()

    def test_another_metric_is_refused(self, space: Space) -> None:
        space.put(space.add("one"), [QUERY])
        space.run("update models set metric = 'dot'")

        with pytest.raises(EmbedderError, match="compared by dot"):
            PostgresVectors(space.database, "default").find_nearest(MODEL, QUERY, ALL, 10)


def test_tenants_are_apart(postgres_url: str) -> None:
    with opened(postgres_url, "one") as one, opened(postgres_url, "two") as two:
        own, others = one.add("text"), two.add("text", "more")
        one.put(own, [QUERY])
        two.put(others, [QUERY, QUERY])

        assert one.nearest() == [own[0].key]
        assert two.nearest() == [job.key for job in others]
        assert two.vectors.drop_others(OTHER) == 2
        assert one.nearest() == [own[0].key]


def test_chunks_of_files_are_apart_from_memories(space: Space) -> None:
    chunks = Space(space.database, "default\x1fdocuments")
    own, others = space.add("text"), chunks.add("chunk", "waiting")
    space.put(own, [QUERY])
    chunks.put(others[:1], [QUERY])

    assert (space.nearest(), chunks.nearest()) == ([own[0].key], [others[0].key])
    assert space.vectors.find_nearest(MODEL, QUERY, ALL, 10).unembedded == 0
    assert chunks.vectors.find_nearest(MODEL, QUERY, ALL, 10).unembedded == 1


COUNT = 3000


@pytest.fixture(scope="module")
def many(postgres_databases: Any) -> Iterator[tuple[PostgresDatabase, Any, list[int]]]:
    """A namespace with an index, where one memory of a thousand is in the project "rare"; nothing is written to it."""
    with postgres_databases.lend("migrated", "postgres") as url, opened(url, "default") as space:
        vectors = unit(COUNT)
        keys = space.add_many(vectors, lambda number: "rare" if number % 1000 == 0 else f"p{number % 2}")
        space.vectors.build_index(MODEL)
        yield space.database, vectors, keys


class TestIndex:
    @pytest.fixture(autouse=True)
    def eager(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Use the index wherever there is one."""
        monkeypatch.setattr(postgres_vectors, "_EXACT_FACTOR", 0)

    @pytest.fixture
    def indexed(self, many: tuple[PostgresDatabase, Any, list[int]]) -> tuple[Space, Any, list[int]]:
        return Space(many[0]), many[1], many[2]

    @pytest.fixture
    def few(self, space: Space) -> Space:
        space.add_many(unit(200))
        space.vectors.build_index(MODEL)
        return space

    def exact(self, vectors: Any, keys: Sequence[int], query: Any, chosen: Any = slice(None)) -> list[int]:
        order = np.argsort(-(vectors.astype(np.float16).astype(np.float32) @ query), kind="stable")
        allowed = set(np.array(keys)[chosen].tolist())
        return [keys[number] for number in order if keys[number] in allowed]

    def test_it_is_used_and_finds_the_nearest(self, indexed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        space, vectors, keys = indexed
        found = []

        plan = plan_of(space, monkeypatch, lambda: found.extend(space.nearest(limit=20)))

        assert "using vectors_nearest_" in plan
        assert len(set(found) & set(self.exact(vectors, keys, QUERY)[:20])) >= 19
        similar = [match.score for match in space.vectors.find_nearest(MODEL, QUERY, ALL, 20).matches]
        assert similar == sorted(similar, reverse=True)

    @pytest.mark.parametrize("project", ["p0", "p1", "rare"])
    def test_pages_are_full_behind_any_filter(self, indexed: Any, project: str) -> None:
        space, vectors, keys = indexed
        chosen = [number for number in range(COUNT) if (number % 1000 == 0) == (project == "rare")
                  and (project == "rare" or f"p{number % 2}" == project)]  # fmt: skip
        limit = min(20, len(chosen))

        for query in unit(5):
            found = space.nearest(query, Scope(Filter(project=(project,))), limit)

            assert len(found) == limit
            assert len(set(found) & set(self.exact(vectors, keys, query, chosen)[:limit])) >= limit - 1

    def test_where_little_passes_all_of_it_is_compared(self, indexed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        space, vectors, keys = indexed
        monkeypatch.setattr(postgres_vectors, "_EXACT_FACTOR", 25)
        rare = Scope(Filter(project=("rare",)))
        found = []

        plan = plan_of(space, monkeypatch, lambda: found.extend(space.nearest(scope=rare, limit=3)))

        assert "_nearest_" not in plan
        assert found == self.exact(vectors, keys, QUERY, slice(None, None, 1000))[:3]

    def test_an_index_that_gives_up_too_early_is_not_relied_on(
        self, indexed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        space, vectors, keys = indexed
        monkeypatch.setattr(postgres_vectors, "_MAX_SCANNED", 1)
        rare = Scope(Filter(project=("rare",)))

        for _ in range(2):  # the second time it is not even asked
            assert space.nearest(scope=rare, limit=3) == self.exact(vectors, keys, QUERY, slice(None, None, 1000))[:3]

    @pytest.mark.parametrize("most_compared", [0, 5000])
    def test_a_memory_with_many_parts_hides_no_other(
        self, few: Space, monkeypatch: pytest.MonkeyPatch, most_compared: int
    ) -> None:
        monkeypatch.setattr(postgres_vectors, "_MAX_COMPARED", most_compared)
        long, short = few.add("a long text", "a short one")
        away = direction(0, 0, 0, 1)
        near = [direction(1, number / 10_000) for number in range(700)]
        parts = [Part(long, number, number + 1) for number in range(700)] + [Part(short, 0, 1)]
        few.put([long, short], [away, away, *near, direction(1, 0.1)], parts)

        assert few.nearest(limit=5)[:2] == [long.key, short.key]

    def test_parts_that_an_index_gives_up_on_are_not_missed(self, few: Space, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_vectors, "_MAX_SCANNED", 1)
        monkeypatch.setattr(postgres_vectors, "_MAX_COMPARED", 0)
        others = few.add(*(f"text {number}" for number in range(300)), project="other")
        far, near = [direction(0, 0, 1)] * 300, [direction(1, number / 1000) for number in range(300)]
        few.put(others, [*far, *near], [Part(other, 0, 1) for other in others])
        ours = few.add(*(f"our text {number}" for number in range(5)), project="ours")
        few.put(ours, [*[direction(1, 0.5)] * 5, direction(1, 0.35)], [Part(ours[-1], 0, 1)])

        assert few.nearest(scope=Scope(Filter(project=("ours",))), limit=5)[0] == ours[-1].key

    def test_a_wall_is_never_searched_by_it(self, indexed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        space, _, _ = indexed
        restricted = Scope(Filter(project=("p0",), restricted=True))

        assert "_nearest_" not in plan_of(space, monkeypatch, lambda: space.nearest(scope=restricted))

    def test_it_follows_every_change(self, few: Space) -> None:
        new, long = few.add("new", "long")
        few.put([new, long], [QUERY, direction(0, 1), QUERY], [Part(long, 0, 3)])

        assert few.nearest(limit=2) == [new.key, long.key]
        few.run("update memories set deleted_at = 20 where rid = ?", (new.key,))
        assert few.nearest(limit=1) == [long.key]
        few.run("update memories set content = 'other' where rid = ?", (long.key,))
        assert not {new.key, long.key} & set(few.nearest(limit=20))

    def test_settings_of_a_search_end_with_it(self, indexed: Any) -> None:
        space, _, _ = indexed
        with space.database.reading() as connection:
            before = connection.fetch_value("select current_setting('hnsw.ef_search')")
        space.nearest(limit=100)
        with space.database.reading() as connection:
            assert connection.fetch_value("select current_setting('hnsw.ef_search')") == before

    def test_another_tenant_has_another(self, few: Space, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with opened(postgres_url, "it's @keys(:a) \\ ü") as other:
            vectors = unit(200)
            keys = other.add_many(vectors)
            assert "_nearest_" not in plan_of(other, monkeypatch, other.nearest)

            other.vectors.build_index(MODEL)
            plan = plan_of(other, monkeypatch, lambda: other.nearest(limit=10))

            assert "using vectors_nearest_" in plan
            assert set(other.nearest(limit=200)) == set(keys)

    def test_a_build_that_was_stopped_is_done_again(self, few: Space, postgres_url: str) -> None:
        broken = """
            update pg_index set indisvalid = false
            where indexrelid in (select oid from pg_class where relname like '%vectors_nearest_%')
        """
        valid = """
            select bool_and(i.indisvalid) from pg_index i
            join pg_class c on c.oid = i.indexrelid where c.relname like '%vectors_nearest_%'
        """
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(broken)
            assert len(PostgresVectors(few.database, "default").find_nearest(MODEL, QUERY, ALL, 5).matches) == 5
            few.vectors.build_index(MODEL)
            few.vectors.build_index(MODEL)

            assert admin.execute(valid).fetchone() == (True,)

    def test_of_many_that_would_build_it_one_does(self, space: Space) -> None:
        space.add_many(unit(200))
        builders = [PostgresVectors(space.database, "default") for _ in range(4)]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda builder: builder.build_index(MODEL), builders))

        assert space.run("select count(*) from pg_class where relname like '%vectors_nearest_%'") == [(2,)]

    def test_the_index_of_a_dropped_model_goes(self, few: Space) -> None:
        few.vectors.drop_others(OTHER)

        assert few.run("select count(*) from pg_class where relname like '%vectors_nearest_%'") == [(0,)]

    def test_an_ordinary_user_who_owns_the_tables_builds_it(self, postgres_user_url: str) -> None:
        with opened(postgres_user_url, "default") as space:
            space.add_many(unit(50))
            space.vectors.build_index(MODEL)

            assert space.run("select count(*) from pg_class where relname like '%vectors_nearest_%'") == [(2,)]

    def test_a_search_has_it_built_once_there_are_vectors_enough(
        self, space: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        built: list[Model] = []
        monkeypatch.setattr(PostgresVectors, "_build_in_background", lambda self, model: built.append(model))
        monkeypatch.setattr(postgres_vectors, "INDEX_AFTER", 3)
        monkeypatch.setattr(postgres_vectors, "_SECONDS_KNOWN", 0)
        jobs = space.add("one", "two", "three")

        space.put(jobs, unit(3))
        space.nearest()
        assert built == []
        space.put(jobs[:1], unit(2), [Part(jobs[0], 0, 2)])
        assert built == []
        space.nearest()
        assert built == [MODEL]

    def test_one_that_was_dropped_is_built_again_later(self, space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_vectors, "INDEX_AFTER", 3)
        monkeypatch.setattr(postgres_vectors, "_SECONDS_KNOWN", 0)
        monkeypatch.setattr(postgres_vectors, "_REBUILD_SECONDS", 0)
        built: list[Model] = []
        monkeypatch.setattr(PostgresVectors, "_try_to_build", lambda _, model: built.append(model))
        space.add_many(unit(20))

        for _ in range(2):
            space.nearest()
        assert built == [MODEL, MODEL]

    def test_it_is_built_beside_what_else_happens(self, space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_vectors, "INDEX_AFTER", 3)
        space.add_many(unit(20))
        before = threading.active_count()
        space.nearest()
        for thread in threading.enumerate():
            if thread.name == "memorist-index":
                thread.join(MAX_WAIT_SECONDS)

        assert threading.active_count() <= before
        assert space.run("select count(*) from pg_class where relname like '%vectors_nearest_%'") == [(2,)]

    def test_a_failed_build_disturbs_nobody(self, space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise StoreError("not the owner")

        monkeypatch.setattr(PostgresVectors, "build_index", fail)
        space.vectors._try_to_build(MODEL)


@pytest.mark.parametrize("text", ["plain", "it's", "back\\slash", "@keys(:x)", "?", "ünï\U0001f600", "a\nb", "%s $1"])
def test_any_name_can_be_a_constant_of_a_statement(database: PostgresDatabase, text: str) -> None:
    with database.reading() as connection:
        assert connection.fetch_value(f"select {quote_text(text)}") == text


class TestPast:
    """As of a time, a memory is as near as the text that it had then."""

    @pytest.fixture(autouse=True)
    def changed(self, space: Space) -> None:
        """At 20, the text "one" becomes "other"; "two" comes at 30."""
        self.one, self.still = space.add("one", "still")
        space.put([self.one, self.still], [QUERY, direction(1, 1)])
        snapshot: dict[str, Any] = {
            "content": "one",
            "title": None,
            "sector": "semantic",
            "tier": "project",
            "tags": [],
            "metadata": {},
        }
        space.run(
            "insert into memory_history(rid, version, replaced_at, snapshot) values (?, 1, 20, ?)",
            (self.one.key, json.dumps(snapshot)),
        )
        space.run("update memories set content = 'other' where rid = ?", (self.one.key,))
        space.put([EmbeddingJob(self.one.key, None, "other")], [direction(0, 1)])
        (self.two,) = space.add("two")
        space.run("update memories set created_at = 30, recorded_at = 30 where rid = ?", (self.two.key,))
        space.put([self.two], [QUERY])

    @pytest.mark.parametrize(("at", "expected"), [(15, ["one", "still"]), (25, ["still", "one"])])
    def test_a_memory_has_the_vector_of_its_text_at_that_time(self, space: Space, at: int, expected: list[str]) -> None:
        scope = Scope(Filter(as_of=from_micros(at)))

        assert space.nearest(scope=scope) == [getattr(self, name).key for name in expected]

    def test_now_there_is_one_more(self, space: Space) -> None:
        assert space.nearest() == [self.two.key, self.still.key, self.one.key]

    def test_the_past_is_searched_beside_the_index(self, space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_vectors, "_EXACT_FACTOR", 0)
        space.vectors.build_index(MODEL)

        assert space.nearest(scope=Scope(Filter(as_of=from_micros(15))), limit=2) == [self.one.key, self.still.key]

    def test_the_vector_of_a_version_can_be_read(self, space: Space) -> None:
        sql = f"select {vector_column(past=True)} from {memories_table(past=True)} where m.rid = :rid"
        values = {"model": MODEL.name, "rid": self.one.key, "as_of": 15}
        with space.database.reading() as connection:
            assert connection.fetch_value(sql, values) == QUERY.astype(np.float16).tobytes()
            assert connection.fetch_value(sql, values | {"as_of": 25}) == direction(0, 1).astype(np.float16).tobytes()
