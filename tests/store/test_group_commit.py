"""Threads that add at once: one transaction for several, and for each an answer or an error of its own."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import memorist
from conftest import HashingEmbedder
from memorist import AlreadyExists, Memorist, Memory, NotFound, StoreBusy, StoreError
from memorist.engine.project_view import ProjectView
from memorist.store.group_commit import GroupCommit
from processes import FORK_OPTIONS, forks, start_program, wait_for_end
from timeouts import MAX_WAIT_SECONDS

Add = Callable[[], Memory]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the write lock, as another process does."""
    database = apsw.Connection(str(path))
    database.execute("begin immediate")
    try:
        yield
    finally:
        database.execute("rollback")
        database.close()


def count_commits(path: Path) -> int:
    database = apsw.Connection(str(path))
    try:
        return int(database.execute("select sum(changes) from namespace_changes").get)
    finally:
        database.close()


def add_together(memory: Memorist, path: Path, adds: Sequence[Add]) -> list[Future[Memory]]:
    """Have each thread begin to add while another process writes: one waits for that process, the others for it."""
    group = memory._store._adding
    with ThreadPoolExecutor(len(adds)) as threads:
        with locked(path):
            futures = [threads.submit(add) for add in adds]
            deadline = time.monotonic() + MAX_WAIT_SECONDS
            while group.waiting < len(adds) - 1 and time.monotonic() < deadline:
                threading.Event().wait(0.01)
        return futures


@pytest.fixture
def memory(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        memory.add("the first of all")  # from now on the model is known to be quick
        yield memory


def test_what_threads_add_at_once_is_committed_together(memory: Memorist, path: Path) -> None:
    before = count_commits(path)

    added = add_together(memory, path, [lambda n=n: memory.add(f"note {n}", tags=[f"tag{n}"]) for n in range(8)])

    assert count_commits(path) - before == 2  # the first of them, and the others
    assert [future.result().content for future in added] == [f"note {n}" for n in range(8)]
    assert [future.result().tags for future in added] == [(f"tag{n}",) for n in range(8)]
    assert all(memory.get(future.result().id).content == future.result().content for future in added)
    assert memory.stats().vectors == 9
    assert memory.check().problems == ()


def test_each_thread_gets_its_own_vectors_and_parts(memory: Memorist, path: Path) -> None:
    long = [
        " ".join(f"{name} speaks at length of {name} and of its {n}." for n in range(60)) for name in ("fox", "owl")
    ]
    texts = [long[0], "a short one", long[1], "another short one"]

    added = add_together(memory, path, [lambda text=text: memory.add(text) for text in texts])

    for future, text in zip(added, texts, strict=True):
        best = memory.search(text, mode="vector", limit=1)[0]
        assert best.memory.id == future.result().id
    assert memory.reembed() == 0
    assert memory.check().problems == ()


def test_one_that_is_refused_leaves_the_others_and_gets_its_own_error(memory: Memorist, path: Path) -> None:
    taken = memory.add("taken", id="taken").id
    adds: list[Add] = [
        lambda: memory.add("one"),
        lambda: memory.add("two"),
        lambda: memory.add("no such session", session="nowhere"),
        lambda: memory.add("three"),
        lambda: memory.add("refused", id=taken, if_exists="error"),
    ]

    added = add_together(memory, path, adds)

    assert [type(future.exception()) for future in added] == [
        type(None), type(None), NotFound, type(None), AlreadyExists
    ]  # fmt: skip
    assert {memory.content for memory in memory.list()} == {"the first of all", "taken", "one", "two", "three"}
    assert memory.check().problems == ()


def test_each_gets_what_it_has_written_under_an_id_that_others_write_at_once(memory: Memorist, path: Path) -> None:
    added = add_together(memory, path, [lambda n=n: memory.add(f"plan {n}", id="plan") for n in range(5)])

    assert [future.result().content for future in added] == [f"plan {n}" for n in range(5)]
    assert len(memory.history("plan")) == 4
    assert memory.reembed() <= 1
    assert memory.check().problems == ()


def test_where_the_file_stays_locked_all_are_told_so(path: Path) -> None:
    with memorist.open(path, embedder="none", busy_timeout=0.2) as memory:
        with locked(path), ThreadPoolExecutor(6) as threads:
            refused = [threads.submit(memory.add, f"note {n}") for n in range(6)]
            assert [type(future.exception()) for future in refused] == [StoreBusy] * 6
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(memory.add, [f"note {n}" for n in range(6)]))

        assert memory.count() == 6


def test_the_same_text_at_once_is_one_memory_that_is_new_to_one_thread(memory: Memorist, path: Path) -> None:
    added = add_together(memory, path, [lambda: memory.add("said by all")] * 6)

    assert len({future.result().id for future in added}) == 1
    assert memory.count() == 2


def test_names_that_callers_of_one_project_choose_at_once_stand_for_one_memory(path: Path) -> None:
    with memorist.open(path, embedder="none") as owner:
        owner.add("not of this project", id="plan", project="web")
        view = ProjectView(owner, "api")
        added = add_together(owner, path, [lambda n=n: view.add(f"plan {n}", id="plan") for n in range(4)])
        assert len({future.result().id for future in added}) == 1
        assert view.count() == 1


FORKING = """
    import os, sys, threading, memorist
    memory = memorist.open(sys.argv[1], embedder="none")
    stop = threading.Event()
    def add_on(name):
        number = 0
        while not stop.is_set():
            memory.add(f"{name} adds {number}", on_near_duplicate="off")
            number += 1
    threads = [threading.Thread(target=add_on, args=(name,)) for name in ("ann", "bob", "cy")]
    [thread.start() for thread in threads]
    for number in range(10):
        child = os.fork()
        if child == 0:
            import signal
            signal.alarm(60)  # a child that hangs is ended
            added = []
            thread = threading.Thread(target=lambda: added.append(memory.add(f"child {number}", kind="child")))
            thread.start()
            thread.join()
            os._exit(0 if added else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stop.set()
    [thread.join() for thread in threads]
    print(memory.check().problems)
"""


@forks
def test_a_child_forked_while_threads_wait_for_one_another_adds_as_well(path: Path) -> None:
    with start_program(FORKING, path, options=FORK_OPTIONS) as process:
        assert wait_for_end(process) == (0, "()\n")

    with memorist.open(path, embedder="none") as memory:
        assert {one.content for one in memory.list(kind="child")} == {f"child {n}" for n in range(10)}


def test_what_may_have_been_committed_is_not_written_again() -> None:
    group = GroupCommit[str, str]()
    begun, may_end, written = threading.Event(), threading.Event(), list[str]()

    def write(given: Sequence[str]) -> Sequence[str]:
        written.extend(given)
        if given == ["first"]:
            begun.set()
            may_end.wait(MAX_WAIT_SECONDS)
            return given
        raise StoreError("the connection was lost; what was written last may have happened")

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(group.write, "first", write)
        begun.wait(MAX_WAIT_SECONDS)
        others = [threads.submit(group.write, name, write) for name in ("second", "third")]
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while group.waiting < 2 and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        may_end.set()

        assert first.result() == "first"
        assert [type(one.exception()) for one in others] == [StoreError, StoreError]
    assert sorted(written) == ["first", "second", "third"]
