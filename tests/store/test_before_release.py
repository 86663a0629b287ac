"""A database of the last version before the first release becomes one of the present schema; older ones are refused."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString

import apsw
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

import memorist
from before_release import load_old_database, place_old_database
from conftest import HashingEmbedder
from memorist import StoreError
from memorist.engine import Memorist
from memorist.store.migrations import load_migrations
from memorist.store.sqlite.backend import SqliteBackend
from statements import read_column

Rows = list[tuple[Any, ...]]
REFUSAL = r"from before the first release \(its schema ends with 0\d\d-.*nothing was changed. Export its memories"


@pytest.fixture
def old(path: Path) -> Path:
    place_old_database(path)
    return path


@pytest.fixture
def old_url(empty_postgres_url: str) -> str:
    load_old_database(empty_postgres_url)
    return empty_postgres_url


@pytest.fixture(params=["sqlite", "postgres"])
def old_target(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("old" if request.param == "sqlite" else "old_url"))


def read_sqlite(path: Path, sql: str) -> Rows:
    with closing(apsw.Connection(str(path))) as database:
        return list(database.execute(sql))


def read_postgres(url: str, sql: LiteralString) -> Rows:
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


class TestSchema:
    """What is brought up to date and what is new differ in nothing but white space, comments and parentheses."""

    @staticmethod
    def describe_sqlite(path: Path) -> dict[str, Rows]:
        schema = read_sqlite(path, "select type, name, tbl_name, sql from sqlite_schema")
        tables = sorted(name for type, name, *_ in schema if type in ("table", "view"))
        return {
            "schema": sorted((*names, normalise(sql)) for *names, sql in schema),
            "history": read_sqlite(path, "select * from _migrations"),
            "encoding": read_sqlite(path, "pragma encoding"),
            **{f"columns of {name}": read_sqlite(path, f"pragma table_xinfo({name})") for name in tables},
            **{f"settings of {name}": read_sqlite(path, f"select * from {name}_config") for name in INDEXES},
        }

    def test_on_sqlite(self, old: Path, tmp_path: Path) -> None:
        for path in (old, tmp_path / "new.db"):
            memorist.open(path, embedder="none").close()

        assert self.describe_sqlite(old) == self.describe_sqlite(tmp_path / "new.db")

    def test_on_postgres(self, old_url: str, postgres_url: str) -> None:
        memorist.open(old_url, embedder="none").close()

        for sql in CATALOG:
            assert without_parentheses(read_postgres(old_url, sql)) == without_parentheses(
                read_postgres(postgres_url, sql)
            )


LOGS = ("vector_log", "text_log", "changes")
INDEXES = ("memories_stems", "memories_words")


def normalise(sql: str | None) -> str:
    """Return a statement without comments and white space."""
    return re.sub(r"\s", "", re.sub("--.*", "", sql or ""))


def without_parentheses(rows: Rows) -> str:
    """Return rows as a text: what was dumped and loaded has its conditions in other parentheses."""
    return re.sub("[()]", "", "\n".join(map(str, rows)))


_OURS = """
    c.relnamespace = 'public'::regnamespace and not exists (
      select 1 from pg_depend e where e.objid = c.oid and e.deptype = 'e')
"""
CATALOG: list[LiteralString] = [
    "select name, sha256 from _migrations order by 1",
    "select extname from pg_extension order by 1",
    f"""
    select c.relname, c.relkind::text, c.relacl::text, c.reloptions, c.relrowsecurity, c.relforcerowsecurity
    from pg_class c where {_OURS} order by 1
    """,
    f"""
    select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage::text,
      a.attidentity::text, a.attgenerated::text, a.attcollation, pg_get_expr(d.adbin, d.adrelid)
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where {_OURS} and c.relkind <> 'S' and a.attnum > 0 order by 1, 2
    """,
    f"""
    select c.relname, k.conname, pg_get_constraintdef(k.oid)
    from pg_constraint k join pg_class c on c.oid = k.conrelid where {_OURS} order by 1, 2
    """,
    "select indexname, indexdef from pg_indexes where schemaname = 'public' order by 1",
    f"""
    select c.relname, t.tgname, pg_get_triggerdef(t.oid)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid where {_OURS} and not t.tgisinternal order by 1, 2
    """,
    f"""
    select c.relname, p.polname, p.polcmd::text, p.polroles::text, p.polpermissive,
      pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid)
    from pg_policy p join pg_class c on c.oid = p.polrelid where {_OURS} order by 1, 2
    """,
    """
    select p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proacl::text from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and not exists (
      select 1 from pg_depend e where e.objid = p.oid and e.deptype = 'e') order by 1
    """,
]


class TestContent:
    def test_every_row_of_sqlite_is_there(self, old: Path) -> None:
        before = self.read_all_of_sqlite(old)
        memorist.open(old, embedder="none").close()

        assert self.read_all_of_sqlite(old) == before
        assert {name for name, rows in before.items() if not rows} == {"uncut"}

    @staticmethod
    def read_all_of_sqlite(path: Path) -> dict[str, Rows]:
        """
        Return the rows of all tables but the logs of changes, which tell running processes what to read again, and the
        segments of the indexes of words, which are made anew.
        """
        tables = read_column(path, "select name from sqlite_schema where type = 'table' and name <> '_migrations'")
        left_out = {*LOGS, *(f"memories_{index}_{part}" for index in ("stems", "words") for part in ("data", "idx"))}
        found = {str(name): read_sqlite(path, f"select * from {name}") for name in tables if name not in left_out}
        found["sqlite_sequence"] = [row for row in found["sqlite_sequence"] if row[0] not in LOGS]
        return found

    def test_every_row_of_postgres_is_there(self, old_url: str) -> None:
        before = self.read_all_of_postgres(old_url)
        memorist.open(old_url, embedder="none").close()

        assert self.read_all_of_postgres(old_url) == before
        assert {name for name, rows in before.items() if not rows} == {"uncut", "unindexed"}

    @staticmethod
    def read_all_of_postgres(url: str) -> dict[str, Rows]:
        """Return the rows of all tables but the log of changes, and what counts writes: some texts are indexed anew."""
        with psycopg.connect(url) as connection:
            tables = connection.execute(
                "select tablename from pg_tables where schemaname = 'public' and tablename <> '_migrations'"
            ).fetchall()
            return {
                name: connection.execute(
                    SQL("select * from {table} order by {table}::text").format(table=Identifier(name))
                ).fetchall()
                for (name,) in tables
                if name not in {*LOGS, "namespace_changes", "text_statistics"}
            }

    @pytest.fixture
    def memory(self, old_target: str) -> Iterator[Memorist]:
        with memorist.open(old_target, embedder=HashingEmbedder()) as memory:
            yield memory

    def test_it_is_sound(self, memory: Memorist) -> None:
        assert memory.check().problems == ()
        assert memory.stats().schema == "001-schema"

    def test_it_is_found_by_word_and_by_meaning(self, memory: Memorist) -> None:
        for mode in ("keyword", "vector", "hybrid"):
            assert memory.search("port", mode=mode)[0].memory.id == "port-new"
        assert memory.search("メモ")[0].memory.id == "unspaced-one"
        assert memory.search("fish")[0].facts[0].text == "herons eat fish"
        assert len(memory.search("heron*", limit=100, mode="keyword")) == 39
        assert memory.search("quokka", mode="vector")[0].memory.id == "long-one"  # by a part of it
        assert {hit.path.rpartition("/")[2] for hit in memory.documents.search("harbour berth")} == {
            "setup.md",
            "ships.md",
        }

    def test_what_belongs_to_it_is_there(self, memory: Memorist) -> None:
        corrected = memory.search("corrected twice")[0].memory
        assert [version.content for version in memory.history(corrected.id)][-1] == "note 0 about herons by the lake"
        assert memory.get("port-old").superseded_by.id == "port-new"  # type: ignore[union-attr]
        assert memory.count(tags=["bird"], metadata={"weight": {"$lt": 5}}) == 5
        assert [turn.content for turn in memory.sessions.turns("deploy")] == [
            f"turn {number} of the talk about deploy" for number in range(4)
        ]
        assert {session.id for session in memory.sessions.list(deleted=True)} == {"chat:harbour"}
        mentioned = memory.related(memory.search("note 4 about")[0].memory.id)[0]
        assert mentioned.memory.content == "note 5 about herons by the lake"
        assert mentioned.relation is not None
        assert mentioned.relation.said_by == "ben"
        assert len(memory.searches.list()) == len(memory.searches.list_feedback()) == 2
        assert memory.lenses.get("birds").name == "birds"

    def test_it_goes_on(self, memory: Memorist) -> None:
        added = memory.add("a heron of today", session=memory.sessions.start(id="today").id)
        memory.update(memory.search("note 12 about")[0].memory.id, content="an egret, not that bird")
        memory.sessions.restore("harbour")
        memory.purge()

        assert memory.search("heron of today")[0].memory.id == added.id
        assert memory.search("egret")
        assert memory.check().problems == ()

    def test_a_namespace_stays_a_wall(self, old_target: str) -> None:
        with memorist.open(old_target, namespace="team", embedder=HashingEmbedder()) as memory:
            assert [hit.memory.id for hit in memory.search("heron")] == ["other-one"]


class TestCopies:
    def test_the_file_is_kept_as_it_was(self, old: Path) -> None:
        before = read_sqlite(old, "select * from _migrations")
        memorist.open(old, embedder="none").close()

        kept = Path(f"{old}.before-001-schema")
        assert read_sqlite(kept, "select * from _migrations") == before
        assert read_column(kept, "select count(*) from memories") == read_column(old, "select count(*) from memories")
        assert sorted(file.name for file in old.parent.iterdir()) == [old.name, kept.name]

    def test_a_purge_removes_copies_from_before_the_first_release_as_well(self, old: Path) -> None:
        for name in ("006-positions", "013-prefixes"):
            Path(f"{old}.before-{name}").write_text("a heron")
        Path(f"{old}.before-lunch").write_text("not ours")

        with memorist.open(old, embedder="none") as memory:
            memory.purge()

            assert [file.name for file in old.parent.glob("*.before-*")] == [f"{old.name}.before-lunch"]


def test_a_full_text_index_that_is_gone_is_filled_from_the_text_once(old: Path) -> None:
    for index in INDEXES:
        read_sqlite(old, f"drop table {index}")

    with memorist.open(old, embedder="none") as memory:
        assert len(memory.search("heron*", limit=100)) == 39
        assert memory.check().ok
    before = old.read_bytes()
    with memorist.open(old, embedder="none") as memory:
        assert len(memory.search("heron*", limit=100)) == 39

    assert old.read_bytes() == before


def test_later_migrations_follow(old: Path) -> None:
    migrations = load_migrations("sqlite") | {"900-one": "create table one(x)"}
    SqliteBackend(str(old), migrations=migrations).close()

    assert read_column(old, "select name from _migrations order by name") == list(migrations)
    assert [file.name for file in old.parent.glob("*.before-*")] == [f"{old.name}.before-001-schema"]


def test_read_only_it_asks_to_be_opened_for_writing_once(old_target: str) -> None:
    with pytest.raises(StoreError, match="older schema; open it once for writing"):
        memorist.open(old_target, embedder="none", read_only=True)


_OPEN = "import memorist, sys; print(memorist.open(sys.argv[1], embedder='none').check().problems)"


def test_several_processes_bring_it_up_to_date_at_once(old_target: str) -> None:
    command = [sys.executable, "-c", _OPEN, old_target]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]

    assert [process.communicate(timeout=300) for process in processes] == [("()\n", "")] * 4


class TestOlder:
    """Databases with an earlier history, or another one, are left alone."""

    CHANGES = pytest.mark.parametrize(
        "change",
        [
            "delete from _migrations where name > '005'",
            "update _migrations set sha256 = 'another' where name like '004-%'",
            "insert into _migrations(name, sha256) values ('099-later', 'another')",
        ],
        ids=["earlier", "another", "later"],
    )

    @CHANGES
    def test_on_sqlite(self, old: Path, change: str) -> None:
        read_sqlite(old, change)
        before = old.read_bytes()

        for read_only in (False, True):
            with pytest.raises(StoreError, match=REFUSAL):
                memorist.open(old, embedder="none", read_only=read_only)

        assert old.read_bytes() == before
        assert not list(old.parent.glob("*.before-*"))

    @CHANGES
    def test_on_postgres(self, old_url: str, change: LiteralString) -> None:
        with psycopg.connect(old_url, autocommit=True) as connection:
            connection.execute(change)
        before = read_postgres(old_url, "select * from _migrations order by 1")

        with pytest.raises(StoreError, match=REFUSAL):
            memorist.open(old_url, embedder="none")

        assert read_postgres(old_url, "select * from _migrations order by 1") == before

    def test_a_backup_of_one_is_not_restored(self, old: Path, tmp_path: Path) -> None:
        read_sqlite(old, "delete from _migrations where name > '005'")

        with pytest.raises(StoreError, match=REFUSAL):
            memorist.restore_backup(old, tmp_path / "restored.db")

        assert not (tmp_path / "restored.db").exists()
