"""The index of fields of metadata: named in the settings, kept in step by the database, and never wrong."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memorist
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist
from memorist.arguments import Filter
from memorist.engine.backends import open_backend
from memorist.metadata_filter import parse_metadata_filter
from memorist.store.database import Connection
from memorist.store.filters import filter_conditions
from memorist.store.metadata_index import MetadataIndex
from memorist.store.store import Store

Open = Callable[..., Memorist]


@pytest.fixture
def open_with(target: Path | str) -> Iterator[Open]:
    """Open the same memory again and again."""
    opened: list[Memorist] = []

    def open_memory(fields: list[str] | None = None, **options: Any) -> Memorist:
        opened.append(memorist.open(target, embedder="none", metadata_index=fields, **options))
        return opened[-1]

    yield open_memory
    for memory in opened:
        memory.close()


@pytest.fixture
def store(target: Path | str) -> Iterator[Store]:
    store = Store(open_backend(str(target), "default", read_only=False, busy_timeout=5))
    yield store
    store.close()


def add_users(memory: Memorist, count: int = 20) -> None:
    memory.add_many(
        {"content": f"note {number}", "metadata": {"user": f"u{number % 5}", "n": number, "tags": ["a", f"t{number}"]}}
        for number in range(count)
    )


def indexed_fields(store: Store) -> set[tuple[str, ...]]:
    with store._pool.reading() as connection:
        return set(MetadataIndex("default").list_fields(connection))


def entries(store: Store) -> list[tuple[Any, ...]]:
    with store._pool.reading() as connection:
        return connection.fetch("select distinct kind, text, number from memory_fields order by 1, 2, 3")


class TestNamingFields:
    def test_what_is_there_already_is_indexed(self, open_with: Open, store: Store) -> None:
        add_users(open_with())

        memory = open_with(["n"])

        assert len(entries(store)) == 20
        assert memory.count(metadata={"n": {"$lt": 3}}) == 3
        assert memory.check().ok

    def test_fields_that_are_no_longer_named_are_dropped(self, open_with: Open, store: Store) -> None:
        add_users(open_with(["user", "n"]))

        open_with(["user"])

        assert indexed_fields(store) == {("user",)}
        assert entries(store) == [("text", f"u{number}", 0) for number in range(5)]

    def test_an_empty_list_drops_all_and_none_leaves_all(self, open_with: Open, store: Store) -> None:
        add_users(open_with(["user", "n"]))

        open_with(None)
        assert indexed_fields(store) == {("user",), ("n",)}
        open_with([])
        assert (indexed_fields(store), entries(store)) == (set(), [])

    def test_who_only_reads_changes_nothing(self, open_with: Open, store: Store) -> None:
        add_users(open_with(["user"]))

        memory = open_with(["n"], read_only=True)

        assert indexed_fields(store) == {("user",)}
        assert memory.count(metadata={"n": 7, "user": "u2"}) == 1

    def test_namespaces_have_indexes_of_their_own(self, open_with: Open, store: Store) -> None:
        add_users(open_with(["user"]))
        other = open_with(["n"], namespace="other")
        add_users(other)

        assert indexed_fields(store) == {("user",)}
        assert (
            len(other.search("note", metadata={"n": 7}))
            == len(other.search("note", metadata={"user": "u2", "n": 7}))
            == 1
        )

    def test_many_that_open_at_once_make_one_index(self, target: Path | str, store: Store, open_with: Open) -> None:
        add_users(open_with())
        barrier, failed = threading.Barrier(6), []

        def open_and_add(number: int) -> None:
            try:
                barrier.wait()
                with memorist.open(target, embedder="none", metadata_index=["user", "n"]) as memory:
                    memory.add(f"late {number}", metadata={"user": "late", "n": number})
            except Exception as exc:
                failed.append(exc)

        threads = [threading.Thread(target=open_and_add, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        memory = open_with()
        assert not failed
        assert indexed_fields(store) == {("user",), ("n",)}
        assert len(memory.search("late", metadata={"user": "late"})) == 6
        assert memory.check().ok

    @pytest.mark.parametrize(
        ("fields", "about"),
        [
            ([""], "empty"),
            ([5], "must be text"),
            (["$eq"], "not operators"),
            (["a.b.c.d"], "more than 3 keys"),
            (["a\\"], "backslash"),
            ([f"f{number}" for number in range(21)], "at most 20"),
        ],
    )
    def test_what_cannot_be_indexed_is_refused(self, target: Path | str, fields: Any, about: str) -> None:
        with pytest.raises(InvalidInput, match=about):
            memorist.open(target, embedder="none", metadata_index=fields)

    @pytest.mark.parametrize("field", ["x'); drop table memories; --", '"', "a]", "日本", "\\$d", "a\\.b"])
    def test_a_name_is_never_read_as_sql(self, open_with: Open, field: str) -> None:
        memory = open_with(["user", field])
        key = field.replace("\\", "")
        added = memory.add("a note", metadata={key: "v"})

        assert memory.search("note", metadata={field: "v"})[0].memory.id == added.id
        assert memory.check().ok


class TestFollowing:
    @pytest.fixture
    def memory(self, open_with: Open) -> Memorist:
        return open_with(["user", "who.city"])

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_an_update_a_restoring_and_an_erasure_are_followed(self, memory: Memorist, store: Store) -> None:
        note = memory.add("a note", metadata={"user": "anna", "who": [{"city": "Rome"}, {"city": ["Bonn", "Rome"]}]})
        assert entries(store) == [("array", "", 0), ("text", "Bonn", 0), ("text", "Rome", 0), ("text", "anna", 0)]

        memory.update(note.id, metadata={"user": 5})
        assert entries(store) == [("number", "", 5)]
        memory.forget(note.id)
        memory.restore(note.id)
        assert memory.search("note", metadata={"user": 5})
        memory.forget(note.id, hard=True)
        assert entries(store) == []

    def test_an_import_is_followed(self, memory: Memorist, target: Path | str, tmp_path: Path) -> None:
        memory.add("a note", metadata={"user": "anna"})
        memory.transfer.export(tmp_path / "all.jsonl")
        memory.forget_many(metadata={"user": "anna"}, hard=True)

        memory.transfer.import_(tmp_path / "all.jsonl")

        assert memory.search("note", metadata={"user": "anna"})
        assert memory.check().ok

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize("damage", ["delete from memory_fields", "update memory_fields set text = 'ben'"])
    def test_a_check_finds_and_repairs_what_is_wrong(self, memory: Memorist, store: Store, damage: str) -> None:
        memory.add("a note", metadata={"user": "anna"})
        with store._pool.writing() as connection:
            connection.execute(damage)

        assert any("index of fields" in problem for problem in memory.check().problems)
        assert memory.check(repair=True).ok
        assert memory.search("note", metadata={"user": "anna"})


SERVED: list[dict[str, Any]] = [
    {"user": "u3"}, {"user": {"$in": ["u1", "u2"]}}, {"n": {"$in": [1, 2.0]}}, {"n": {"$gte": 1995}},
    {"n": {"$gt": 5, "$lt": 9}}, {"user": {"$lt": "u1"}}, {"tags": "t7"}, {"$or": [{"n": 5}, {"tags": "t7"}]},
    {"other": 5, "user": "u1"},
]  # fmt: skip
NOT_LISTED: list[dict[str, Any]] = [
    {"user": {"$ne": "u1"}}, {"$not": {"n": 5}}, {"$or": [{"n": 5}, {"other": 5}]}, {"other": 5},
]  # fmt: skip
DECIDED: list[dict[str, Any]] = [
    *SERVED[:-1], {"user": {"$ne": "u1"}}, {"$not": {"n": 5}}, {"user": "u1", "n": {"$lt": 9}},
    {"user": {"$nin": ["u1", "u2"]}, "tags": "a"}, {"$or": [{"n": 5}, {"$not": {"tags": "a"}}]}, {"user": {"$in": []}},
    {"n": {"$exists": True}},
]  # fmt: skip
LEFT_TO_METADATA: list[dict[str, Any]] = [
    {"other": 5}, {"user": "u1", "other": 5}, {"n": 2**53}, {"n": {"$gt": -(2.0**53)}}, {"user": "x" * 200},
]  # fmt: skip


class TestLookingUp:
    @pytest.fixture
    def memory(self, open_with: Open) -> Memorist:
        memory = open_with(["user", "n", "tags"])
        add_users(memory, 2000)
        return memory

    def test_the_database_reads_the_index_and_not_all_memories(
        self, memory: Memorist, store: Store, target: Path | str
    ) -> None:
        with store._pool.writing() as connection:
            if "://" in str(target):
                connection.execute("analyze memory_fields")
            for filter in SERVED:
                narrowed, _, values = write_conditions(connection, filter)
                explain = "explain" if "://" in str(target) else "explain query plan"
                keys = narrowed.removeprefix(" and m.rid in (").removesuffix(")")
                plan = str(connection.fetch(f"{explain} {keys}", values))
                assert "memory_fields_pkey" in plan or "SEARCH f USING PRIMARY KEY" in plan, (filter, plan)

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_what_the_index_cannot_list_is_tested_one_by_one(self, memory: Memorist, store: Store) -> None:
        with store._pool.reading() as connection:
            for filter in NOT_LISTED:
                assert write_conditions(connection, filter)[0] == ""

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize("filter", DECIDED, ids=str)
    def test_the_index_alone_decides_where_it_can(self, memory: Memorist, store: Store, filter: dict[str, Any]) -> None:
        with store._pool.snapshot() as connection:
            condition = parse_metadata_filter(filter)
            assert condition is not None
            found = MetadataIndex("default").find_keys(connection, condition, 10_000)
            test = write_conditions(connection, filter)[1]
            where, values = filter_conditions(Filter(metadata=condition))
            rows = connection.fetch(f"select m.rid from memories m where true {where}", values)
            every = {rid for (rid,) in connection.fetch("select rid from memories")}
        assert found is not None
        keys = set(found.keys.tolist())
        assert (every - keys if found.inverted else keys) == {rid for (rid,) in rows}
        assert "@field(" not in test

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize("filter", LEFT_TO_METADATA, ids=lambda filter: str(filter)[:40])
    def test_what_it_cannot_tell_is_left_to_the_metadata(
        self, memory: Memorist, store: Store, filter: dict[str, Any]
    ) -> None:
        with store._pool.snapshot() as connection:
            condition = parse_metadata_filter(filter)
            assert condition is not None
            assert MetadataIndex("default").find_keys(connection, condition, 10_000) is None
            assert "@field(" in write_conditions(connection, filter)[1]

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_more_than_is_asked_for_is_not_read(self, memory: Memorist, store: Store) -> None:
        condition = parse_metadata_filter({"tags": "a"})
        assert condition is not None
        with store._pool.snapshot() as connection:
            assert MetadataIndex("default").find_keys(connection, condition, 1999) is None
            assert MetadataIndex("default").find_keys(connection, condition, 2000) is not None

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_large_numbers_and_long_texts_are_told_apart(self, memory: Memorist) -> None:
        for number, value in enumerate((2**53, 2**53 + 1, "x" * 200, "x" * 201, "x" * 199)):
            memory.add(f"large {number}", id=f"large{number}", metadata={"n": value})

        for number, value in enumerate((2**53, 2**53 + 1, "x" * 200, "x" * 201, "x" * 199)):
            assert [one.id for one in memory.list(metadata={"n": value})] == [f"large{number}"]
            assert [hit.memory.id for hit in memory.search("large", metadata={"n": value})] == [f"large{number}"]
        assert memory.count(metadata={"n": {"$gt": 2**53}}) == 1
        assert memory.count(metadata={"n": {"$gt": "x" * 199}}) == 2

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_range_may_be_met_by_two_items_of_a_list(self, memory: Memorist) -> None:
        memory.add("a list", metadata={"n": [-1, -9]})
        memory.add("another list", metadata={"n": [-1, -2]})

        assert memory.count(metadata={"n": {"$gt": -5, "$lt": -5}}) == 1
        assert len(memory.search("list", metadata={"n": {"$gt": -5, "$lt": -5}})) == 1

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_field_dropped_by_another_process_hides_nothing(self, memory: Memorist, store: Store) -> None:
        with store._pool.snapshot() as connection:
            narrowed, test, values = write_conditions(connection, {"n": 5})
            store.index_metadata([("user",)])

            found = connection.fetch_value(f"select count(*) from memories m where true {narrowed} {test}", values)
        assert found == memory.count(metadata={"n": 5}) == len(memory.search("note", metadata={"n": 5})) == 1


def write_conditions(connection: Connection, filter: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    values: dict[str, Any] = {"namespace": "default"}
    condition = Filter(metadata=parse_metadata_filter(filter))
    narrowed, test = MetadataIndex("default").write_conditions(connection, condition, values)
    return narrowed, test, values


@pytest.mark.parametrize("filter", [{"team": "a"}, {"team": {"$ne": "b"}}], ids=str)
@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_what_is_forgotten_superseded_or_expired_is_not_found_by_the_index(
    target: Path | str, mode: str, filter: dict[str, Any]
) -> None:
    with memorist.open(target, embedder=HashingEmbedder(), metadata_index=["team"]) as memory:
        for name in ("kept", "forgotten", "erased", "old", "new", "expired"):
            memory.add(f"a note that is {name}", id=f"note-{name}", metadata={"team": "a"}, on_near_duplicate="off")
        memory.add("a note of others", metadata={"team": "b"}, on_near_duplicate="off")
        memory.forget("note-forgotten")
        memory.forget("note-erased", hard=True)
        memory.supersede("note-old", "note-new")
        memory.update("note-expired", expires_at=datetime.now(UTC) + timedelta(milliseconds=1))
        while memory.list(metadata={"team": "a"}, limit=10).memories[0].id == "note-expired":
            pass

        def find(**options: Any) -> set[str]:
            return {hit.memory.id for hit in memory.search("a note", mode=mode, metadata=filter, **options)}

        assert find() == {"note-kept", "note-new"}
        assert find(include_superseded=True) == {"note-kept", "note-old", "note-new"}
        assert find(project="none") == set()


def test_a_salvaged_database_keeps_its_index(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none", metadata_index=["user"]) as memory:
        add_users(memory)

    memorist.salvage(path, tmp_path / "new.db")

    with memorist.open(tmp_path / "new.db", embedder="none") as memory:
        assert memory.check().ok
        assert len(memory.search("note", metadata={"user": "u1"})) == 4


def test_a_page_is_exact_and_full_beyond_what_is_listed(target: Path | str) -> None:
    with memorist.open(target, embedder=HashingEmbedder(), metadata_index=["team", "user"]) as memory:
        memory.add_many(
            {"content": f"note {number} on trains", "metadata": {"team": number % 2, "user": number % 100}}
            for number in range(5000)
        )
        for filter in ({"team": 1}, {"user": 7}, {"team": 1, "user": 7}, {"team": {"$ne": 1}}):
            found = memory.search("trains", metadata=filter, limit=20)
            assert len(found) == 20
            assert all(passes(filter, hit.memory.metadata) for hit in found)
            assert memory.count(metadata=filter) == sum(
                passes(filter, {"team": number % 2, "user": number % 100}) for number in range(5000)
            )


def passes(filter: dict[str, Any], metadata: Any) -> bool:
    return all(
        metadata[name] != wanted["$ne"] if isinstance(wanted, dict) else metadata[name] == wanted
        for name, wanted in filter.items()
    )


def test_facets_of_one_word_hold_to_indexed_and_other_fields_alike() -> None:
    with memorist.open(":memory:", embedder="none", metadata_index=["user"]) as memory:
        memory.add("the authentication layer", metadata={"user": "anna", "n": 7}, project="p1")
        memory.add("another authentication story", metadata={"user": "anna", "n": 1}, project="p2")

        counted = memory.facets("authentication", fields=["project"], metadata={"user": "anna", "n": {"$gt": 5}})

    assert counted == {"project": {"p1": 1}}
