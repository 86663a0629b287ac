"""A database of before the first release, whose way to the present schema is killed at any statement of it."""

import signal
from pathlib import Path

import pytest

import memorist
from answers import all_texts
from before_release import place_old_database
from conftest import HashingEmbedder
from processes import FORK_OPTIONS, expect, forks, start_program
from statements import read_column

kills = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")

# A child counts the statements that opening an old database takes; each other opens a copy of it, and dies at another.
KILLER = """
    import os, shutil, signal, sys
    import apsw, memorist
    memorist.open(":memory:", embedder="none").close()  # once, and not in each child: it imports the engine
    kills, database = sys.argv[1:]

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
    shutil.copy(database, database + ".whole")
    total = int(open_in_child(database + ".whole", -1))
    for moment in range(total - 1, 0, -max(total // int(kills), 1)):  # from the last one on
        shutil.copy(database, f"{database}.{moment}")
        assert open_in_child(f"{database}.{moment}", moment) is None
        print(f"{database}.{moment}", flush=True)
    print("done", flush=True)
"""


@kills
@forks
@pytest.mark.parametrize("kills", [12, pytest.param(1000, marks=pytest.mark.slow, id="all")])
def test_everything_is_there_when_it_is_opened_again(tmp_path: Path, kills: int) -> None:
    old = tmp_path / "old.db"
    place_old_database(old)
    with start_program(KILLER, kills, old, options=FORK_OPTIONS) as killer:
        expect("ready", [killer])
        assert killer.stdout is not None
        killed = killer.stdout.read().splitlines()

    assert killed.pop() == "done", killed
    assert len(killed) >= 12
    histories = set()
    for path in map(Path, killed):
        histories.add(tuple(read_column(path, "select name from _migrations")))
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            assert memory.check().problems == ()
            assert memory.stats().schema == "001-schema"
            assert memory.stats().memories == len(all_texts(memory)) == 48
            assert memory.count(tags=["bird"]) == 38
            for mode in ("keyword", "vector"):
                assert len(memory.search("herons", mode=mode, limit=100)) >= 38
    assert {len(history) for history in histories} == {1, 17}  # the new one or the old one, and nothing between
