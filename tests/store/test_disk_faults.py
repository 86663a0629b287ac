"""Disks that fail, fill up or return too little: an operation is done or refused, and the memory goes on afterwards."""

import io
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memorist
from before_release import place_old_database
from conftest import HashingEmbedder
from failing_system import DEFECT, FULL, SHORT_CALLS, FailingSystem, Fault
from memorist import Memorist, MemoristError
from memorist.store.sqlite.connections import ConnectionPool
from simulated_disk import IN_MEMORY, Disk

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the disk is simulated as POSIX has it")
Verb = Callable[[Memorist, Path, str], object]


def open_memory(path: Path) -> Memorist:
    return memorist.open(path, embedder=HashingEmbedder(), busy_timeout=1)


def oldest(memory: Memorist, number: int = 0) -> str:
    return memory.timeline(limit=3)[number].id


def export_of(memory: Memorist) -> bytes:
    written = io.BytesIO()
    memory.transfer.export(written)
    return written.getvalue()


WHOLE: dict[str, Verb] = {  # done whole or not at all
    "add": lambda memory, path, text: memory.add(text, tags=["new"], facts=[text]),
    "add_many": lambda memory, path, text: memory.add_many([text, f"{text} again", "long " * 5000 + text]),
    "update": lambda memory, path, text: memory.update(oldest(memory), content=text),
    "forget": lambda memory, path, text: memory.forget(oldest(memory)),
    "forget for good": lambda memory, path, text: memory.forget(oldest(memory), hard=True),
    "supersede": lambda memory, path, text: memory.supersede(oldest(memory, 0), oldest(memory, 1)),
    "merge": lambda memory, path, text: memory.review.merge(oldest(memory, 0), [oldest(memory, 1)]),
    "import": lambda memory, path, text: memory.transfer.import_(path.parent.parent / "other.jsonl"),
    "restore a backup": lambda memory, path, text: memorist.restore_backup(
        path.parent.parent / "backup.db", path, overwrite=True, busy_timeout=1
    ),
}
OTHER: dict[str, Verb] = {
    "open": lambda memory, path, text: open_memory(path).close(),
    "search": lambda memory, path, text: memory.search("live well", explain=True),
    "index": lambda memory, path, text: memory.documents.index(path.parent.parent / "notes"),
    "export": lambda memory, path, text: memory.transfer.export(path.with_suffix(".jsonl")),
    "backup": lambda memory, path, text: memory.transfer.backup(path.with_suffix(".backup"), overwrite=True),
    "purge": lambda memory, path, text: memory.purge(),
    "reembed": lambda memory, path, text: memory.reembed(HashingEmbedder("other-32", 32), prune=True),
    "migrate": lambda memory, path, text: open_memory(path.with_name("old.db")).close(),
    "check": lambda memory, path, text: memory.check(),
    "create": lambda memory, path, text: open_memory(path.parent / text / "new.db").close(),
}
VERBS = WHOLE | OTHER


FAULTS: dict[str, tuple[dict[str, int], bool]] = {
    "a call fails": (DEFECT, False),
    "all calls fail": (DEFECT, True),
    "the disk is full for a call": (FULL, False),
    "the disk is full": (FULL, True),
    "a call is done by half": (SHORT_CALLS, False),
    "all calls are done by half": (SHORT_CALLS, True),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, and what is imported into it, restored and indexed."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "disk").mkdir()
    (folder / "notes").mkdir()
    (folder / "notes" / "one.md").write_text("# One\n\nA note with words")
    (folder / "notes" / "two.md").write_text("# Two\n\nAnother note")
    with Disk(folder).attached():
        with open_memory(folder / "other.db") as other:
            other.add_many(f"imported {number}" for number in range(5))
            other.transfer.export(folder / "other.jsonl")
            other.transfer.backup(folder / "backup.db")
        with open_memory(folder / "disk" / "memory.db") as memory:
            memory.add_many(f"we live well in house {number} {'and so on ' * 50}" for number in range(20))
            memory.forget(memory.add("forgotten").id)
            memory.transfer.backup(folder / "disk" / "memory.db.before-restore")
            memory.transfer.export(folder / "before.jsonl")
    place_old_database(folder / "disk" / "old.db")
    return folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Path(name)


def copy(prepared: Path, folder: Path) -> Path:
    shutil.rmtree(folder / "copy", ignore_errors=True)
    shutil.copytree(prepared, folder / "copy")
    return folder / "copy" / "disk" / "memory.db"


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, list[str]]:
    """The kinds of calls that each verb makes on a disk without faults; filled as they are needed."""
    return {}


def list_calls(path: Path, system: FailingSystem, verb: Verb) -> list[str]:
    with open_memory(path) as memory:
        first = len(system.calls)
        verb(memory, path, "undisturbed")
        return system.calls[first:]


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "tries", [pytest.param(1, id="1 try"), pytest.param(25, id="25 tries", marks=pytest.mark.slow)]
)
def test_a_failing_disk_is_reported_and_survived(
    name: str, fault: str, tries: int, prepared: Path, undisturbed: dict[str, list[str]], folder: Path
) -> None:
    verb, (errors, lasting) = VERBS[name], FAULTS[fault]
    before = (prepared / "before.jsonl").read_bytes()
    chance = random.Random(f"{name} {fault}")
    with FailingSystem().installed() as system:
        if name not in undisturbed:
            undisturbed[name] = list_calls(copy(prepared, folder), system, verb)
        calls = [number for number, kind in enumerate(undisturbed[name]) if kind in errors]
        for number in sorted(chance.sample(calls, min(tries, len(calls)))):
            path = copy(prepared, folder)
            with open_memory(path) as memory:
                system.fault = Fault(len(system.calls) + number, errors, lasting)
                try:
                    verb(memory, path, f"{name} at {number}")
                    refused = False
                except MemoristError:
                    refused = True
                system.fault = None
                where = f"{undisturbed[name][number]}, call {number} of {calls[-1]}"
                if name in WHOLE:
                    assert (export_of(memory) == before) is refused, where
                new = memory.add(f"written after {name} at {number}")
                for mode in ("keyword", "semantic"):
                    assert new.id in [hit.memory.id for hit in memory.search(new.content, mode=mode)], where
                report = memory.check()
                assert report.ok, (where, report.problems)
                verb(memory, path, f"{name} after {number}")


def test_a_connection_made_while_the_disk_was_full_writes_afterwards(prepared: Path, folder: Path) -> None:
    path = copy(prepared, folder)
    pool = ConnectionPool(str(path), read_only=False, busy_timeout=1, synchronous="full")
    with FailingSystem().installed() as system, open_memory(path) as other:
        other.add("the log is there")
        system.fault = Fault(len(system.calls), FULL, lasting=True)
        with pool.reading() as connection:
            assert connection.fetch_value("select count(*) from memories") == 22
        system.fault = None
        with pool.writing() as connection:
            connection.execute("delete from memories where content = 'the log is there'")
        pool.close()
        assert other.stats().memories == 20
