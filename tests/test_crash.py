"""Kills, full disks and damaged files: what was acknowledged is there, and what cannot be done is said clearly."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import memorist
from answers import all_texts
from conftest import HashingEmbedder
from memorist import Memorist
from memorist.ingest.vectorizer import BATCH
from memorist.store.migrations import load_migrations
from memorist.store.sqlite.backend import SqliteBackend
from memorist.store.store import Store
from processes import expect, read_line, start_program
from statements import read_column

kills = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
SQLITE = load_migrations("sqlite")  # the migrations of this version


class CountingEmbedder(HashingEmbedder):
    """Remembers how many texts it was given."""

    texts = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += len(texts)
        return super().embed(texts)


def open_hashed(path: Path) -> Memorist:
    return memorist.open(path, embedder=HashingEmbedder())


def killed_after(process: subprocess.Popen[str], seconds: float) -> list[str]:
    """Kill a process after a while; the whole lines it had printed that nobody has read yet."""
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    printed = process.stdout.read()
    assert process.wait() == -signal.SIGKILL, f"it ended before it was killed:\n{printed}"
    return printed.splitlines()[: printed.count("\n")]


def killed_at_work(code: str, copy: Callable[[], Path], seed: int) -> Iterator[Path]:
    """Databases of processes that were killed at random moments between "ready" and "done"."""
    moments = random.Random(seed)
    with start_program(code, copy()) as process:
        expect("ready", [process])
        started = time.monotonic()
        expect("done", [process])
        longest = time.monotonic() - started
    for _ in range(5):
        path = copy()
        with start_program(code, path) as process:
            expect("ready", [process])
            killed_after(process, moments.uniform(0, longest))
        yield path


# Kills


WRITER = """
    import sys, memorist
    from conftest import HashingEmbedder
    with memorist.open(sys.argv[1], embedder=HashingEmbedder()) as memory:
        for number in range(1_000_000):
            text = f"round {sys.argv[2]} note {number}"
            print(memory.add(text).id, text, flush=True)
"""


@kills
@pytest.mark.parametrize("rounds", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_every_add_that_had_returned_survives_a_kill_at_any_moment(path: Path, rounds: int) -> None:
    moments = random.Random(rounds)
    acknowledged: dict[str, str] = {}
    for number in range(rounds):
        with start_program(WRITER, path, number) as writer:
            lines = [read_line(writer), *killed_after(writer, moments.uniform(0, 0.15))]
        acknowledged |= dict(said.split(" ", 1) for said in lines)

        with memorist.open(path, embedder="none") as memory:
            assert memory.check().problems == ()
            found = memory.get(list(acknowledged))
            assert {one.id: one.content for one in found} == acknowledged
            # At most one add a round had not returned yet, though its text was kept.
            assert 0 <= memory.stats().memories - len(acknowledged) <= number + 1

    assert len(acknowledged) >= rounds
    with open_hashed(path) as memory:
        memory.add("one more")
        assert memory.stats().pending == 0
        assert memory.check().problems == ()


STUCK = """
    import sys, time, memorist
    from conftest import HashingEmbedder

    class Stuck(HashingEmbedder):
        def embed(self, texts):
            if self.calls == int(sys.argv[3]):
                print("stuck", flush=True)
                time.sleep(3600)
            return super().embed(texts)

    with memorist.open(sys.argv[1], embedder=Stuck()) as memory:
        eval(sys.argv[2])
"""


@kills
@pytest.mark.parametrize("makes_up", [lambda memory: memory.add("another"), lambda memory: memory.reembed()])
def test_a_text_whose_vector_was_cut_short_by_a_kill_gets_it_later(
    path: Path, makes_up: Callable[[Memorist], object]
) -> None:
    with start_program(STUCK, path, "memory.add('red fox')", 0) as writer:
        expect("stuck", [writer])
        killed_after(writer, 0)

    with open_hashed(path) as memory:
        assert memory.stats().pending == 1
        assert [hit.memory.content for hit in memory.search("fox")] == ["red fox"]
        makes_up(memory)
        assert memory.stats().pending == 0
        assert [hit.memory.content for hit in memory.search("fox", mode="semantic", limit=1)] == ["red fox"]
        assert memory.check().problems == ()


MANY = """
    import sys, memorist
    from conftest import HashingEmbedder
    with memorist.open(sys.argv[1], embedder=HashingEmbedder()) as memory:
        memory.add_many(
            (f"item {number}" for number in range(1_000_000)), progress=lambda done: print(done, flush=True))
"""


@kills
@pytest.mark.parametrize("seed", range(3))
def test_add_many_keeps_whole_batches_when_killed_and_can_be_run_again(path: Path, seed: int) -> None:
    with start_program(MANY, path) as writer:
        done = [read_line(writer), *killed_after(writer, random.Random(seed).uniform(0, 0.3))]

    with open_hashed(path) as memory:
        assert memory.check().problems == ()
        kept = memory.stats().memories
        assert kept - int(done[-1]) in (0, *(BATCH << doublings for doublings in range(6)))  # a batch, or none
        items = [f"item {number}" for number in range(kept + 10)]
        memory.add_many(items)
        assert all_texts(memory) == set(items)
        assert memory.stats().memories == len(items)
        assert memory.stats().pending == 0


@kills
def test_a_killed_reembed_goes_on_where_it_stopped(path: Path) -> None:
    total = 5 * BATCH
    with memorist.open(path, embedder="none") as memory:
        memory.add_many(f"item {number}" for number in range(total))
    with start_program(STUCK, path, "memory.reembed()", 3) as process:
        expect("stuck", [process])
        killed_after(process, 0)

    embedder = CountingEmbedder()
    with memorist.open(path, embedder=embedder) as memory:
        assert memory.stats().vectors == 3 * BATCH
        assert memory.reembed() == embedder.texts == total - 3 * BATCH
        assert memory.stats().vectors == total
        assert memory.check().problems == ()


PURGER = """
    import sys, memorist
    memory = memorist.open(sys.argv[1], embedder="none")
    print("ready", flush=True)
    memory.purge()
    print("done", flush=True)
    sys.stdin.readline()
"""


@kills
def test_a_purge_killed_at_any_moment_loses_no_live_memory_and_can_be_run_again(
    copy: Callable[[], Path],
) -> None:
    for path in killed_at_work(PURGER, copy, seed=7):
        with open_hashed(path) as memory:
            stats = memory.stats()
            assert (stats.memories, stats.pending) == (1000, 0)
            assert stats.deleted in (0, 1000)
            assert memory.check().problems == ()
            assert memory.purge() == stats.deleted
        assert b"hidden" not in b"".join(file.read_bytes() for file in path.parent.iterdir())
        assert b"live 999 and well" in path.read_bytes()


# Migrations


ROWS = 100_000
SLOW_MIGRATION = f"""
    create table numbers(number integer primary key, text text);
    insert into numbers
        with recursive counted(n) as (select 1 union all select n + 1 from counted where n < {ROWS})
        select n, hex(randomblob(20)) from counted;
    create index numbers_by_text on numbers(text);
"""
MIGRATOR = f"""
    import sys
    from memorist.store.migrations import load_migrations
    from memorist.store.sqlite.backend import SqliteBackend
    print("ready", flush=True)
    SqliteBackend(sys.argv[1], migrations=load_migrations("sqlite") | {{"900-numbers": {SLOW_MIGRATION!r}}})
    print("done", flush=True)
    sys.stdin.readline()
"""


@kills
def test_a_migration_killed_at_any_moment_is_done_whole_or_not_at_all(copy: Callable[[], Path]) -> None:
    for path in killed_at_work(MIGRATOR, copy, seed=3):
        recorded = "900-numbers" in read_column(path, "select name from _migrations")
        assert ("numbers" in read_column(path, "select name from sqlite_master")) is recorded
        store = Store(SqliteBackend(str(path), migrations=SQLITE | {"900-numbers": SLOW_MIGRATION}))
        assert store.check(repair=False).problems == ()
        assert store.stats(None).memories == 1000
        store.close()
        assert read_column(path, "select count(*) from numbers") == [ROWS]
        with memorist.open(f"{path}.before-900-numbers", embedder="none") as old:
            assert old.stats().memories == 1000
