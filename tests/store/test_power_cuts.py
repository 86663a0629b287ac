"""Power cuts at any moment: what was acknowledged is there, nothing is half there, and the database is sound."""

import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import apsw
import pytest

import memorist
from before_release import place_old_database
from conftest import HashingEmbedder
from memorist import Memorist, StoreCorrupt, StoreError
from memorist.atomic_file import sync_to_disk
from memorist.store.sqlite.copies import COMPANIONS
from memorist.store.writes import content_hash
from simulated_disk import Disk, Files, Sync, SyncFolder, cut_power, write_files

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the disk is simulated as POSIX has it")
DATABASE = "data/memory.db"
PAGES_IN_LOG = 40  # after so many it is copied into the database: often, for short scenarios
State = dict[str, object]  # all records of a database by their keys, and its schema
IN_PIECES = "in pieces"  # yielded by a scenario after an operation of several transactions
PURGED = 3  # the operation of `purging` after which nothing that was forgotten is left on the disk
NOT_OURS = "not ours"  # yielded after damage was done, through which no power cut is to be survived


def open_memory(path: Path) -> Memorist:
    return memorist.open(path, embedder=HashingEmbedder())


# Scenarios: they yield after every operation that was acknowledged


def fill(path: Path) -> None:
    with open_memory(path) as memory:
        memory.add_many(f"old note {number} says {'much ' * 20}" for number in range(6))
        for number in range(4):
            memory.forget(memory.add(f"secret {number} {'hidden ' * 50}").id)


def creating(path: Path, outside: Path) -> Iterator[str | None]:
    new = path.parent / "made" / "for it" / "memory.db"
    with open_memory(new) as memory:
        yield IN_PIECES
        memory.add("the first of all", tags=["new"])
        yield None
        memory.add("the second")
        yield None
    yield None


def adding(path: Path, outside: Path) -> Iterator[str | None]:
    for round in range(2):
        with open_memory(path) as memory:
            memory.add(f"red fox {round}", tags=["animal"], facts=["foxes are red"])
            yield None
            memory.add_many(f"note {number} of round {round}" for number in range(4))
            yield None
            memory.add(f"a long one {round}: {'and on and on ' * 1000}")
            yield None
            session = memory.sessions.start(project="den")
            yield None
            memory.add(f"in a session {round}", session=session.id)
            yield None
            memory.sessions.end(session.id, "all was said")
            yield None
            memory.sessions.add_turn("user", f"and said {round}", conversation="talk")
            yield None
        yield None


def updating(path: Path, outside: Path) -> Iterator[str | None]:
    with open_memory(path) as memory:
        first, second, third, fourth = (one.id for one in memory.list(limit=4))
        memory.update(first, content="said anew, and longer " * 100, tags=["changed"])
        yield None
        memory.forget(second)
        yield None
        memory.restore(second)
        yield None
        memory.supersede(first, second)
        yield None
        memory.unsupersede(first)
        yield None
        memory.links.add(first, third, "about")
        yield None
        memory.pin(third)
        yield None
        memory.facts.add(third, "it is so", confidence=0.5)
        yield None
        memory.review.merge(third, [fourth])
        yield None
        memory.searches.add_feedback(third, True, query="note")
        yield None
        memory.forget(first, hard=True)
        yield None
        memory.reembed(HashingEmbedder("other-32", 32), prune=True)
        yield None
    yield None


def importing(path: Path, outside: Path) -> Iterator[str | None]:
    with memorist.open(outside / "other.db", embedder=HashingEmbedder()) as other:
        ids = other.add_many(f"imported {number} {'with text ' * 10}" for number in range(12))
        other.links.add(ids[0], ids[1], "about")
        other.transfer.export(outside / "export.jsonl", vectors=True)
    with open_memory(path) as memory:
        yield None
        memory.transfer.import_(outside / "export.jsonl")
        yield IN_PIECES
        memory.transfer.import_(io.BytesIO(json.dumps([{"id": "m1", "memory": "from mem0"}]).encode()))
        yield IN_PIECES
    yield None


def indexing(path: Path, outside: Path) -> Iterator[str | None]:
    folder = outside / "notes"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\n" + "\n\n".join(f"{n} words " * 40 for n in range(5)))
    with open_memory(path) as memory:
        yield None
        memory.documents.index(folder)
        yield IN_PIECES
        (folder / "1.md").write_text("# Changed\n\nOther words")
        (folder / "2.md").unlink()
        memory.documents.index(folder)
        yield IN_PIECES
        memory.documents.remove(folder / "3.md")
        yield None
    yield None


def purging(path: Path, outside: Path) -> Iterator[str | None]:
    with open_memory(path) as memory:
        memory.transfer.backup(outside / "backup.db")
        memorist.restore_backup(outside / "backup.db", path, overwrite=True)
        yield None
        memory.add("before the purge")
        yield None
        memory.purge()
        yield None
        memory.add("after the purge")
        yield None
    yield None


def migrating(path: Path, outside: Path) -> Iterator[str | None]:
    """Another process keeps the database open meanwhile, and has written to its log."""
    other = apsw.Connection(str(path))
    with other:
        other.executemany(
            """
            insert into memories(
                id, namespace, content, content_hash, sector, tier, salience, created_at, updated_at, reinforced_at)
            values (?, 'default', ?, ?, 'semantic', 'project', 0.5, 1000, 1000, 1000)
            """,
            [(f"old-{n}", f"old text {n}", content_hash(f"old text {n}")) for n in range(1, 9)],
        )
    yield IN_PIECES
    with open_memory(path) as memory:
        yield IN_PIECES
        memory.add("after the migration")
        yield None
    other.close()
    yield None


def backing_up(path: Path, outside: Path) -> Iterator[str | None]:
    backup, export = path.parent / "backup.db", path.parent / "export.jsonl"
    with open_memory(path) as memory:
        memory.transfer.backup(backup)
        yield None
        memory.transfer.export(export)
        yield None
        memory.add("after the backup")
        yield None
        memory.transfer.backup(backup, overwrite=True)
        yield None
        memory.transfer.export(export)
        yield None
    yield None


def restoring(path: Path, outside: Path) -> Iterator[str | None]:
    backup = outside / "backup.db"
    with open_memory(path) as memory:
        memory.transfer.backup(backup)
        memory.add("after the backup")
        yield None
        memorist.restore_backup(backup, path, overwrite=True)
        yield None
        memory.add("after the restore")
        yield None
    yield None
    memorist.restore_backup(backup, path, overwrite=True)
    yield None


def restoring_anew(path: Path, outside: Path) -> Iterator[str | None]:
    """The database is gone, then it is damaged; a log of it is left each time."""
    backup, log = outside / "backup.db", Path(f"{path}-wal")
    with open_memory(path) as memory:
        memory.transfer.backup(backup)
        memory.add("after the backup")
        left = log.read_bytes()
    yield None
    for damaged in (None, b"damaged" * 2000):
        path.unlink()
        write_safely(log, left)
        if damaged is not None:
            write_safely(path, damaged)
        yield NOT_OURS
        memorist.restore_backup(backup, path, overwrite=True)
        yield IN_PIECES
    with open_memory(path) as memory:
        memory.add("after the restore")
        yield None


def write_safely(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_to_disk(path.parent)


Scenario = Callable[[Path, Path], Iterator[str | None]]
SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        creating, adding, updating, importing, indexing, purging, migrating, backing_up, restoring, restoring_anew
    )
}  # fmt: skip


# What is compared


@dataclass(frozen=True)
class Moment:
    """The disk when an operation was acknowledged."""

    event: int
    state: State
    files: Files
    how: str | None


class Observer:
    """Opens what is on a disk, each time in a folder of its own, and adds to it."""

    def __init__(self, folder: Path) -> None:
        self._folders = (folder / str(number) for number in count())

    def observe(self, files: Files) -> tuple[State, Files]:
        """Return all that a database holds, and the other files that are complete, once all was found sound."""
        folder = next(self._folders)
        write_files(files, folder)
        state: State = {}
        for path in folder.rglob("memory.db"):
            try:
                state |= {"schema": read_schema(path)} | look_into(path)
            except (apsw.NotADBError, apsw.CorruptError, StoreCorrupt):
                state["damaged"] = True
        shutil.rmtree(folder, ignore_errors=True)
        return state, {name: content for name, content in files.items() if is_other(name)}


def is_other(name: str) -> bool:
    temporary = ".part" in name or name.endswith(COMPANIONS)
    return not temporary and not name.endswith("memory.db")


def read_schema(path: Path) -> str:
    connection = apsw.Connection(str(path))
    try:
        made = connection.execute("select 1 from sqlite_master where name = '_migrations'").get
        return str(connection.execute("select max(name) from _migrations").get) if made else ""
    finally:
        connection.close()


def look_into(path: Path) -> State:
    with memorist.open(path, embedder="none") as memory:
        exported = io.BytesIO()
        memory.transfer.export(exported)
        report = memory.check()
        assert report.ok, report.problems
        new = memory.add("it goes on")
        assert [hit.memory.id for hit in memory.search("it goes on", limit=1)] == [new.id]
        assert memory.check().ok
    lines = [json.loads(line) for line in exported.getvalue().splitlines()[1:-1]]
    return {record_key(record): record for record in lines}


def record_key(record: dict[str, object]) -> str:
    own = [record.get("id") or record.get("name") or [record.get(end) for end in ("source", "target", "memory")]]
    return json.dumps([record["type"], *own])


def is_between(state: State, before: State, after: State, *, in_pieces: bool) -> bool:
    if not in_pieces:
        return state in (before, after)
    if state.get("schema", "") not in (before.get("schema", ""), after.get("schema", "")):
        return False
    keys = (state.keys() | before.keys() | after.keys()) - {"schema"}
    return all(state.get(key) in (before.get(key), after.get(key)) for key in keys)


# The test


@contextmanager
def short_logs() -> Iterator[None]:
    hook = lambda connection: connection.wal_autocheckpoint(PAGES_IN_LOG)  # noqa: E731
    apsw.connection_hooks.append(hook)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)


def read_files(folder: Path) -> Files:
    """The files as they are: a database and its log, but nothing that is in memory only."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith("-shm")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def prepare(scenario: Scenario, folder: Path) -> Disk:
    (folder / "outside").mkdir()
    database = folder / "disk" / DATABASE
    database.parent.mkdir(parents=True)
    if scenario is migrating:
        place_old_database(database)
    elif scenario is not creating:
        with Disk(folder).attached():
            fill(database)
    return Disk(folder / "disk")


def record(scenario: Scenario, folder: Path, disk: Disk, observer: Observer) -> list[Moment]:
    """Run a scenario; return the moments at which an operation was acknowledged, and before the first."""
    moments = [Moment(0, *observer.observe(read_files(folder / "disk")), None)]
    with short_logs():
        for how in scenario(folder / "disk" / DATABASE, folder / "outside"):
            moments.append(Moment(len(disk.events), *observer.observe(read_files(folder / "disk")), how))
    return moments


def choose_moments(disk: Disk, number: int, chance: random.Random) -> list[int]:
    """Most of them just before or after a sync of a file or a folder, when most is at stake."""
    folders = [at for at, event in enumerate(disk.events) if isinstance(event, SyncFolder)]
    files = [at + after for at, event in enumerate(disk.events) if isinstance(event, Sync) for after in (0, 1)]
    anywhere = range(len(disk.events) + 1)
    return [chance.choice(chance.choice([folders, files, anywhere])) for _ in range(number)]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(
    "cuts", [pytest.param(10, id="10 cuts"), pytest.param(500, id="500 cuts", marks=pytest.mark.slow)]
)
def test_a_power_cut_loses_nothing_that_was_acknowledged(name: str, cuts: int, tmp_path: Path) -> None:
    scenario, observer = SCENARIOS[name], Observer(tmp_path / "observed")
    disk = prepare(scenario, tmp_path)
    with disk.attached():
        moments = record(scenario, tmp_path, disk, observer)
        for event, files in cut_power(disk, choose_moments(disk, cuts, random.Random(name)), seed=cuts):
            done = max(number for number, moment in enumerate(moments) if moment.event <= event)
            before, after = moments[done], moments[min(done + 1, len(moments) - 1)]
            if after.how == NOT_OURS:
                continue
            state, others = observer.observe(files)
            where = f"event {event} of {len(disk.events)}, after operation {done}"
            assert is_between(state, before.state, after.state, in_pieces=after.how == IN_PIECES), where
            for file in before.files.keys() | after.files.keys() | others.keys():
                assert others.get(file) in (before.files.get(file), after.files.get(file)), f"{file} at {where}"
            if name == "purging" and done >= PURGED:
                assert not any(b"hidden" in content for content in files.values()), where
            if state != before.state:
                assert others.keys() >= after.files.keys(), where


@pytest.mark.parametrize("syncs", range(4))
def test_what_follows_a_failed_sync_survives_a_power_cut(syncs: int, tmp_path: Path) -> None:
    """SQLite must not take what it wrote before for safe, as a system that forgets a failure would let it."""
    observer, disk = Observer(tmp_path / "observed"), prepare(adding, tmp_path)
    with disk.attached(), short_logs(), open_memory(tmp_path / "disk" / DATABASE) as memory:
        disk.syncs_until_failure = syncs
        done = []
        for number in range(5):
            with suppress(StoreError):
                done.append(memory.add(f"number {number} {'and more ' * 1000}").id)
        assert disk.syncs_until_failure < -1
        assert len(done) >= 4
        for event, files in cut_power(disk, [len(disk.events)] * 5, seed=syncs):
            state, _ = observer.observe(files)
            assert {json.dumps(["memory", id]) for id in done} <= state.keys(), event
