"""Databases of every earlier schema, whose migration to the present one is killed at any statement of it."""

import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import memorist
from memorist.store.migrations import load_migrations
from memorist.store.sqlite.backend import SqliteBackend
from memorist.store.writes import content_hash
from processes import FORK_OPTIONS, expect, forks, start_program

SQLITE = load_migrations("sqlite")  # the migrations of this version
kills = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")

# A child counts the statements that opening an old database takes; others open copies of it, and die at one of them.
KILLER = """
    import os, random, shutil, signal, sys
    import apsw, memorist
    memorist.open(":memory:", embedder="none").close()  # once, and not in each child: it imports the engine
    kills, *databases = sys.argv[1:]

    def open_in_child(path, statements):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            executed = 0
            def trace(cursor, sql, bindings):
                nonlocal executed
                if executed == statements:
                    os.kill(os.getpid(), signal.SIGKILL)
                executed += 1
                return True
            apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(trace))
            memorist.open(path, embedder="none").close()
            os.write(writing, str(executed).encode())
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        os.close(writing)
        with open(reading) as printed:
            return printed.read() if not os.WIFSIGNALED(status) else None

    print("ready", flush=True)
    for database in databases:
        shutil.copy(database, database + ".whole")
        total = int(open_in_child(database + ".whole", -1))
        moments = random.Random(database[-12:]).sample(range(total), min(int(kills), total))
        for moment in moments:
            shutil.copy(database, f"{database}.{moment}")
            assert open_in_child(f"{database}.{moment}", moment) is None
            print(f"{database}.{moment}", flush=True)
    print("done", flush=True)
"""


def make_old_databases(folder: Path) -> Iterator[Path]:
    """Yield a database of each earlier schema, with memories of it and of those before it."""
    path = folder / "growing.db"
    for number, last in enumerate(list(SQLITE)[:-1], 1):
        SqliteBackend(str(path), migrations=dict(list(SQLITE.items())[:number])).close()
        with closing(sqlite3.connect(path)) as database, database:
            for at in range(10):
                text, moment = f"note {at} about herons, of schema {number}", 1_000_000_000 * (number * 10 + at)
                database.execute(
                    """
                    insert into memories(id, namespace, content, content_hash, tags, sector, tier, salience, created_at,
                        updated_at, reinforced_at)
                    values (?, 'default', ?, ?, '["bird"]', 'semantic', 'project', 0.5, ?, ?, ?)
                    """,
                    (f"s{number}-{at}", text, content_hash(text), moment, moment, moment),
                )
        yield Path(shutil.copy(path, folder / f"{last}.db"))


@kills
@forks
@pytest.mark.parametrize("kills_each", [2, pytest.param(80, marks=pytest.mark.slow)])
def test_everything_is_there_when_it_is_opened_again(tmp_path: Path, kills_each: int) -> None:
    old = list(make_old_databases(tmp_path))
    with start_program(KILLER, kills_each, *old, options=FORK_OPTIONS) as killer:
        expect("ready", [killer])
        assert killer.stdout is not None
        killed = killer.stdout.read().splitlines()

    assert killed.pop() == "done", killed
    assert len(killed) > kills_each * len(old) // 2
    for path in killed:
        schema = next(number for number, one in enumerate(old, 1) if path.startswith(f"{one}."))
        with memorist.open(path, embedder="none") as memory:
            assert memory.check().problems == ()
            assert len(memory.list(limit=1000)) == 10 * schema
            assert len(memory.search("herons", limit=1000)) == 10 * schema
            assert memory.count(tags=["bird"]) == 10 * schema
