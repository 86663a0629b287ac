"""A migration copies everything to another database, of either kind, and says so only if nothing differs."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import memorist
from answers import ids
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist, MemoristError, StoreCorrupt, StoreError
from memorist.engine import list_namespaces, migration
from memorist.store.loader import ExportLoader
from postgres_server import url_of
from test_export import full_life
from test_long_memories import ShortSighted, long


def exported(target: Path | str, namespace: str = "default") -> bytes:
    file = io.BytesIO()
    with memorist.open(target, namespace=namespace, embedder="none", read_only=True) as memory:
        memory.transfer.export(file, vectors=True)
    return file.getvalue()


def records(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()[1:-1]]


def fill(path: Path, count: int = 30, namespace: str = "default") -> None:
    with memorist.open(path, namespace=namespace, embedder=HashingEmbedder(), on_near_duplicate="off") as memory:
        memory.add_many(f"note {number} of the harbour" for number in range(count))
        first, second = memory.list(limit=2)
        memory.links.add(first.id, second.id, "about")


@pytest.fixture(params=["sqlite", "postgres"])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """An empty database of either kind."""
    found: Path | str = tmp_path / "copy.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def used(path: Path, tmp_path: Path) -> Path:
    """A database that has used every feature."""
    with memorist.open(path, embedder=ShortSighted("z-first", 32)) as memory:
        known = full_life(memory, tmp_path / "docs")
        odd = {"": "empty", "n": [1e-300, -0.0, 2**53 + 1, 1.5e300, None], "日本\u2028": {"\\u0000": "\\", "é": "é"}}
        memory.add(
            "東京の港は八時に閉まります",
            metadata=odd,
            tags=["港", "a'b\"c\\"],
            project="a/b ç",
            on_near_duplicate="off",
        )
        memory.add(long("港は九時に開きます。"), title="Long", on_near_duplicate="off")
        memory.files.create("/notes/todo.md", "buy tea")
        memory.files.edit("/notes/todo.md", lambda text: f"{text}\nand bread")
        memory.files.create("/notes/gone.md", "nothing")
        memory.files.forget("/notes/gone.md")
        other = memory.add("Retries are capped at six", on_near_duplicate="off")
        memory.review.merge(known["new"], [other.id])
        memory.search("harbour", record="log")
        memory.lenses.set("all of it", project="api")
        memory.forget(memory.add("erased for good").id, hard=True)
    with memorist.open(path, embedder=ShortSighted("a-second", 16)) as memory:
        memory.reembed()
        memory.update(known["third"], content="Der Hafen heißt jetzt 9090. " * 20)
        with memorist.open(path, embedder="none") as waiting:
            waiting.add("without a vector", on_near_duplicate="off")
    with memorist.open(path, namespace="other", embedder="none") as memory:
        memory.add("of another namespace")
    return path


def test_everything_goes_to_the_other_kind_of_database_and_back_byte_for_byte(
    used: Path, postgres_url: str, tmp_path: Path
) -> None:
    original, before = exported(used), used.read_bytes()
    made = records(original)
    lists = {name for record in made if record["type"] == "memory" for name in record}
    assert {record["type"] for record in made} == set(migration.RECORDS)
    optional = "versions strength facts sessions vectors old_vectors part_vectors deleted_at title summary source"
    assert set(optional.split()) <= lists
    assert [record["name"] for record in made if record["type"] == "model"] == ["a-second", "z-first"]

    there = memorist.migrate(used, postgres_url)
    back = memorist.migrate(postgres_url, tmp_path / "back.db")

    assert exported(postgres_url) == exported(tmp_path / "back.db") == original
    assert used.read_bytes() == before
    assert there.sha256 == back.sha256
    assert there.records == back.records
    assert (sum(there.records.values()), there.copied, there.present, there.damaged) == (len(made), len(made), 0, ())
    assert (there.source, there.target, there.namespace) == (str(used), back.source, "default")
    for copy in (postgres_url, tmp_path / "back.db"):
        with memorist.open(copy, embedder=HashingEmbedder("a-second", 16)) as memory:
            assert memory.check().problems == ()
            with memorist.open(used, embedder=HashingEmbedder("a-second", 16)) as first:
                assert memory.stats().pending == first.stats().pending
                for query in ("retries", "港", "harbour opens"):
                    assert ids(memory.search(query)) == ids(first.search(query)) != []


def test_a_copy_lives_on_and_numbers_what_is_new_behind_what_was_copied(
    used: Path, postgres_url: str, tmp_path: Path
) -> None:
    memorist.migrate(used, postgres_url)
    with memorist.open(postgres_url, embedder="none") as memory:
        new = memory.add("after the move", on_near_duplicate="off")
        memory.sessions.start("api")
    memorist.migrate(postgres_url, tmp_path / "back.db")

    assert [one["id"] for one in records(exported(tmp_path / "back.db")) if one["type"] == "memory"][-1] == new.id


def test_between_two_of_the_same_kind(used: Path, tmp_path: Path, postgres_url: str, postgres_user_url: str) -> None:
    memorist.migrate(used, tmp_path / "copy.db")
    memorist.migrate(tmp_path / "copy.db", postgres_url)
    memorist.migrate(postgres_url, postgres_user_url)

    assert exported(postgres_user_url) == exported(tmp_path / "copy.db") == exported(used)


def test_no_model_is_loaded_and_nothing_is_embedded(
    used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("memorist.embed.create_embedder", fail)
    monkeypatch.setattr("memorist.embed.local.LocalEmbedder.__init__", fail)

    assert memorist.migrate(used, tmp_path / "copy.db").records["model"] == 2


# Interrupted


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> Callable[[], None]:
    """Have the loader fail after so many batches; return what mends it."""
    put, done = ExportLoader.put, 0

    def fail(self: ExportLoader, records: Any) -> Any:
        nonlocal done
        done += 1
        if done > after:
            raise error
        return put(self, records)

    monkeypatch.setattr(ExportLoader, "put", fail)
    return lambda: monkeypatch.setattr(ExportLoader, "put", put)


@pytest.mark.parametrize("after", [0, 1, 4, 9])
def test_an_interrupted_migration_goes_on_where_it_stopped_and_copies_nothing_twice(
    used: Path, copy: Path | str, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(migration, "_BATCH", 2)
    mend = interrupt(monkeypatch, after, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        memorist.migrate(used, copy)
    mend()

    report = memorist.migrate(used, copy)
    again = memorist.migrate(used, copy)

    assert exported(copy) == exported(used)
    total = sum(report.records.values())
    assert report.copied + report.present == total
    assert report.present == (2 * after if after > 1 else 0)  # the first two are models that no vector has yet
    assert (again.copied, again.present) == (0, total)
    assert again.sha256 == report.sha256


def test_what_was_added_to_the_source_meanwhile_is_copied_by_the_next_run(path: Path, postgres_url: str) -> None:
    fill(path)
    memorist.migrate(path, postgres_url)
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        memory.add("a late one", session=memory.sessions.start("api").id, on_near_duplicate="off")
        memory.lenses.set("a", project="api")

    report = memorist.migrate(path, postgres_url)

    assert exported(postgres_url) == exported(path)
    assert report.present == 32


def test_a_server_that_is_lost_half_way_is_named_and_the_next_run_goes_on(
    path: Path, postgres_url: str, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, 60)
    monkeypatch.setattr(migration, "_BATCH", 10)
    killed = False

    def kill(stage: str, done: int, total: int) -> None:
        nonlocal killed
        if stage == "copying" and done >= 30 and not killed:
            killed = True
            insert = ExportLoader._put_record

            def lose(self: ExportLoader, *arguments: Any) -> Any:
                with psycopg.connect(url_of(postgres_server), autocommit=True) as admin:
                    database = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
                    sql = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s"
                    admin.execute(sql, (database,))
                return insert(self, *arguments)

            monkeypatch.setattr(ExportLoader, "_put_record", lose)

    with pytest.raises(StoreError, match="was lost"):
        memorist.migrate(path, postgres_url, progress=kill)
    monkeypatch.undo()

    report = memorist.migrate(path, postgres_url)
    assert report.present == 30
    assert exported(postgres_url) == exported(path)


# Other memories


def test_a_target_with_other_memories_is_refused_and_left_as_it_is(path: Path, copy: Path | str) -> None:
    fill(path)
    with memorist.open(copy, embedder="none") as memory:
        mine = memory.add("my own")
    before = exported(copy)

    with pytest.raises(InvalidInput, match=f"holds other memories.*memory {mine.id} is not.*export one and import"):
        memorist.migrate(path, copy)
    with pytest.raises(InvalidInput, match="holds other memories"):
        memorist.migrate(path, copy, keep_going=True)

    assert exported(copy) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda memory, id: memory.add("one more", on_near_duplicate="off"),
        lambda memory, id: memory.update(id, title="changed"),
        lambda memory, id: memory.forget(id, hard=True),
        lambda memory, id: memory.lenses.set("mine", project="api"),
        lambda memory, id: memory.sessions.start("api"),
    ],
)
def test_a_copy_that_is_in_use_is_never_written_over(
    path: Path, tmp_path: Path, change: Callable[[Memorist, str], object]
) -> None:
    fill(path)
    memorist.migrate(path, tmp_path / "copy.db")
    with memorist.open(tmp_path / "copy.db", embedder="none") as memory:
        change(memory, memory.list()[3].id)
    before = exported(tmp_path / "copy.db")

    with pytest.raises(InvalidInput, match="holds other memories"):
        memorist.migrate(path, tmp_path / "copy.db")

    assert exported(tmp_path / "copy.db") == before


def test_other_namespaces_of_the_target_stay_as_they_are(path: Path, copy: Path | str) -> None:
    fill(path)
    fill(path, 5, "team")
    with memorist.open(copy, namespace="mine", embedder=HashingEmbedder()) as memory:
        memory.add("my own")
    mine = exported(copy, "mine")

    memorist.migrate(path, copy)
    memorist.migrate(path, copy, namespace="team")

    assert exported(copy, "mine") == mine
    assert exported(copy) == exported(path)
    assert exported(copy, "team") == exported(path, "team")
    assert list_namespaces(copy) == ["default", "mine", "team"]


def test_vectors_of_another_model_under_the_same_name_are_refused(path: Path, tmp_path: Path) -> None:
    fill(path)
    with memorist.open(tmp_path / "copy.db", namespace="mine", embedder=HashingEmbedder("hashing-64", 32)) as memory:
        memory.add("my own")

    for keep_going in (False, True):
        with pytest.raises(InvalidInput, match=r"model hashing-64 cannot be copied: .*64 dimensions.*of another model"):
            memorist.migrate(path, tmp_path / "copy.db", keep_going=keep_going)


# Verified


def test_a_difference_is_an_error_that_names_the_first_record(path: Path, copy: Path | str) -> None:
    fill(path)
    known = [one["id"] for one in records(exported(path)) if one["type"] == "memory"]

    def meddle(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("copying", total):
            with memorist.open(copy, embedder="none") as memory:
                memory.pin(known[7])
                memory.pin(known[20])

    with pytest.raises(StoreError, match=f"is not the same as .*first difference is memory {known[7]}, which differs"):
        memorist.migrate(path, copy, progress=meddle)


def test_a_missing_or_an_extra_record_is_counted_and_named(path: Path, tmp_path: Path) -> None:
    fill(path)
    known = [one["id"] for one in records(exported(path)) if one["type"] == "memory"]
    acts: dict[str, Callable[[Memorist], object]] = {
        f"29 of 30 memory records.*first difference is memory {known[5]}": lambda memory: memory.forget(
            known[5], hard=True
        ),
        "1 of 0 lens records.*lens mine, which is not in the source": lambda memory: memory.lenses.set(
            "mine", kind="a"
        ),
    }
    for number, (said, act) in enumerate(acts.items()):
        copy = tmp_path / f"{number}.db"

        def meddle(stage: str, done: int, total: int) -> None:
            if (stage, done) == ("copying", total):
                with memorist.open(copy, embedder="none") as memory:  # noqa: B023
                    act(memory)  # noqa: B023

        with pytest.raises(StoreError, match=said):
            memorist.migrate(path, copy, progress=meddle)


def test_progress_is_told_by_stages(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path)
    monkeypatch.setattr(migration, "_BATCH", 10)
    told: list[tuple[str, int, int]] = []

    memorist.migrate(path, tmp_path / "copy.db", progress=lambda *step: told.append(step))
    memorist.migrate(path, tmp_path / "copy.db", progress=lambda *step: told.append(step))

    assert list(dict.fromkeys(stage for stage, _, _ in told)) == ["copying", "verifying", "comparing"]
    assert {total for _, _, total in told} == {32}
    assert ("copying", 10, 32) in told
    assert ("verifying", 32, 32) in told


# Damaged


DAMAGE = {
    "metadata": ("update memories set metadata = '{oops' where rid = 4", "its metadata is not JSON"),
    "text": ("update memories set content = 'another text' where rid = 4", "its text is not the one that was stored"),
    "bytes": ("update memories set content = cast(x'6eff' as text) where rid = 4", "its text is not the one"),
    "time": ("update memories set accessed_at = 9223372036854775807 where rid = 4", "its accessed_at is not a time"),
    "version": ("insert into memory_history values (4, 1, 1, '[]')", "its was is not JSON"),
    "vector": ("update vectors set vector = x'00' where rid = 4", "its vector is not of unit length"),
    "zeros": ("update vectors set vector = zeroblob(128) where rid = 4", "its vector is not of unit length"),
    "sector": ("update memories set sector = 'nowhere' where rid = 4", "sector cannot be 'nowhere'"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_named_and_the_rest_can_go_on(path: Path, postgres_url: str, damage: str) -> None:
    fill(path)
    id = records(exported(path))[4]["id"]
    act, said = DAMAGE[damage]
    _break(path, act)

    with pytest.raises((StoreCorrupt, InvalidInput), match=f"memory {id}.*{said}"):
        memorist.migrate(path, postgres_url)
    report = memorist.migrate(path, postgres_url, keep_going=True)
    again = memorist.migrate(path, postgres_url, keep_going=True)

    assert {place.partition(",")[0] for place, _ in report.damaged} == {f"memory {id}"}
    assert said in report.damaged[0][1]
    assert report.records["memory"] == (29 if damage == "sector" else 30)
    assert (again.sha256, again.damaged) == (report.sha256, report.damaged)


def _break(path: Path, sql: str) -> None:
    """Change a row behind the back of every trigger and constraint."""
    connection = apsw.Connection(str(path))
    connection.pragma("ignore_check_constraints", True)
    for (name,) in list(connection.execute("select name from sqlite_master where type = 'trigger'")):
        connection.execute(f"drop trigger {name}")
    connection.execute(sql)
    connection.close()


def test_records_that_refer_to_one_that_cannot_be_copied_are_left_out_as_well(path: Path, tmp_path: Path) -> None:
    fill(path)
    newest = records(exported(path))[30]["id"]
    _break(path, f"update memories set sector = 'nowhere' where id = '{newest}'")

    report = memorist.migrate(path, tmp_path / "copy.db", keep_going=True)

    assert [place.split()[0] for place, _ in report.damaged] == ["memory", "relation"]
    assert f"there is no memory '{newest}'" in report.damaged[1][1]
    assert report.records == {"model": 1, "memory": 29}
    assert memorist.migrate(path, tmp_path / "copy.db", keep_going=True).present == 30


def test_what_the_other_database_cannot_store_is_named(path: Path, postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("one.md", "two.md"):
        (tmp_path / "docs" / name).write_text(f"# {name}")
    with memorist.open(path, embedder="none") as memory:
        memory.documents.index(tmp_path / "docs")
    _break(path, f"update documents set path = '{random.Random(1).randbytes(4000).hex()}' where did = 1")
    id = records(exported(path))[0]["id"]

    with pytest.raises(InvalidInput, match=f"document {id} cannot be copied: .*too long for an index"):
        memorist.migrate(path, postgres_url)
    report = memorist.migrate(path, postgres_url, keep_going=True)

    assert [place for place, _ in report.damaged] == [f"document {id}"]
    assert report.records == {"document": 1}


# Wrong arguments


@pytest.mark.parametrize(
    ("source", "destination", "said"),
    [
        ("missing.db", "copy.db", "there is no database at missing.db"),
        ("memory.db", "memory.db", "cannot be copied to itself"),
        ("memory.db", "./memory.db", "cannot be copied to itself"),
        (":memory:", "copy.db", "in memory"),
        ("memory.db", ":memory:", "in memory"),
        ("memory.db", "", "is empty"),
        ("memory.db", "mysql://here/db", "mysql:// databases are not supported"),
        ("memory.db", "postgresql://nobody:secret@127.0.0.1:1/none", "cannot connect"),
        ("postgresql://nobody:secret@127.0.0.1:1/none", "copy.db", "cannot connect"),
        ("postgresql://:::", "copy.db", "cannot be read|cannot connect"),
        ("text.txt", "copy.db", "damaged or not a database"),
        ("memory.db", "text.txt", "damaged or not a database"),
        (None, "copy.db", "must be a path"),
    ],
)
def test_wrong_databases_are_refused_and_nothing_is_made(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, destination: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(path, 2)
    Path("text.txt").write_text("dear diary\n" * 100)
    before = exported(path)

    with pytest.raises(MemoristError, match=said) as failed:
        memorist.migrate(source, destination)

    assert "secret" not in str(failed.value)
    assert not Path("copy.db").exists()
    assert exported(path) == before


def test_a_namespace_with_nothing_in_it_is_refused(path: Path, tmp_path: Path, postgres_url: str) -> None:
    fill(path, 2)
    with pytest.raises(InvalidInput, match=r"has nothing in the namespace 'tema' \(it has: default\)"):
        memorist.migrate(path, tmp_path / "copy.db", namespace="tema")
    with pytest.raises(InvalidInput, match="has nothing in the namespace 'default'"):
        memorist.migrate(postgres_url, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    for wrong in ({"namespace": "a\x1fb"}, {"keep_going": 1}):
        with pytest.raises(InvalidInput):
            memorist.migrate(path, tmp_path / "copy.db", **wrong)  # type: ignore[arg-type]


def test_a_user_who_sees_one_namespace_cannot_list_them(path: Path, postgres_user_url: str) -> None:
    fill(path, 2)
    memorist.migrate(path, postgres_user_url)

    with pytest.raises(StoreError, match="sees one namespace at a time"):
        list_namespaces(postgres_user_url)
