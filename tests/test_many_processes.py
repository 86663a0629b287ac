"""One file, many processes and threads: everything is kept, everybody sees it, nobody meets an error."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import memorist
from answers import all_texts
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist, NotFound, StoreBusy
from memorist.store.sqlite import maintenance
from processes import FORK_OPTIONS, expect, forks, read_line, send_line, start_program, wait_for_end
from timeouts import MAX_WAIT_SECONDS

WRITERS = 8
SEARCHERS = 2
# Processes


WRITER = """
    import sys, memorist
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with memorist.open(path, threads=1) as memory:
        memory.search("the model is loaded before the race begins")
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            memory.add(f"writer {name} made note {number}", project=f"project {number % 3}")
    print("done")
"""
SEARCHER = """
    import sys, memorist
    from pathlib import Path
    path, stop = sys.argv[1], Path(sys.argv[2])
    searches = most = found = 0
    with memorist.open(path, threads=1) as memory:
        memory.search("the model is loaded before the race begins")
        print("ready", flush=True)
        sys.stdin.readline()
        while searches < 5 or not stop.exists():
            hits = memory.search(f"which writer made note {searches % 25}", limit=20)
            assert len({hit.memory.id for hit in hits}) == len(hits)
            assert all(hit.memory.content.startswith("writer ") for hit in hits)
            kept = memory.stats().memories
            assert kept >= most, "a memory that was there is gone"
            searches, most, found = searches + 1, kept, found + len(hits)
    print("done" if found else "nothing was found")
"""


@pytest.mark.parametrize("count", [25, pytest.param(250, marks=pytest.mark.slow)])
def test_eight_processes_write_while_two_search_and_nothing_is_lost(path: Path, tmp_path: Path, count: int) -> None:
    stop = tmp_path / "stop"
    with ExitStack() as stack:
        writers = [stack.enter_context(start_program(WRITER, path, name, count)) for name in range(WRITERS)]
        searchers = [stack.enter_context(start_program(SEARCHER, path, stop)) for _ in range(SEARCHERS)]
        expect("ready", writers + searchers)
        for process in writers + searchers:
            send_line(process)
        written = [wait_for_end(process) for process in writers]
        stop.touch()
        searched = [wait_for_end(process) for process in searchers]

    assert written == [(0, "done\n")] * WRITERS
    assert searched == [(0, "done\n")] * SEARCHERS
    with memorist.open(path) as memory:
        assert all_texts(memory) == {f"writer {name} made note {n}" for name in range(WRITERS) for n in range(count)}
        stats = memory.stats()
        assert (stats.memories, stats.vectors, stats.pending) == (WRITERS * count, WRITERS * count, 0)
        assert memory.check().problems == ()


UPSERTER = """
    import sys, memorist
    target, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with memorist.open(target, embedder="none", on_near_duplicate="off") as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            text, shared = f"note {number} by {name}", f"shared/{number % 5}"
            memory.add(text, id=f"own/{name}/{number}", metadata={"by": name})
            memory.add(text, id=shared, metadata={"by": name})
            if number % 5 == 0:
                memory.add_many([{"content": text, "id": f"shared/{n}", "metadata": {"by": name}} for n in range(5)])
    print("done")
"""


def test_eight_processes_that_write_the_same_ids_leave_one_memory_of_each(target: Path | str) -> None:
    count = 20
    with ExitStack() as stack:
        writers = [stack.enter_context(start_program(UPSERTER, target, name, count)) for name in range(WRITERS)]
        expect("ready", writers)
        for process in writers:
            send_line(process)
        written = [wait_for_end(process) for process in writers]

    assert written == [(0, "done\n")] * WRITERS
    with memorist.open(target, embedder="none") as memory:
        texts = {f"own/{name}/{n}": {f"note {n} by {name}"} for name in range(WRITERS) for n in range(count)}
        for shared in range(5):
            numbers = [n for n in range(count) if n % 5 in (0, shared)]
            texts[f"shared/{shared}"] = {f"note {n} by {name}" for name in range(WRITERS) for n in numbers}
        kept = list(memory.list(limit=1000))
        assert sorted(one.id for one in kept) == sorted(texts)
        for one in kept:
            assert one.content.endswith(f" by {one.metadata['by']}")  # both are of the same write
            assert {one.content, *(version.content for version in memory.history(one.id))} == texts[one.id]
        assert memory.check().problems == ()


CREATOR = """
    import sys, memorist
    memorist.open(":memory:", embedder="none").close()
    print("ready", flush=True)
    while path := sys.stdin.readline().rstrip():
        with memorist.open(path, embedder="none") as memory:
            memory.add(f"from {sys.argv[1]}")
        print("opened", flush=True)
"""


def test_processes_that_open_a_new_path_at_the_same_moment_make_one_database(tmp_path: Path) -> None:
    with ExitStack() as stack:
        creators = [stack.enter_context(start_program(CREATOR, name)) for name in range(WRITERS)]
        expect("ready", creators)
        for attempt in range(10):
            target = tmp_path / str(attempt) / "memory.db"
            for process in creators:
                send_line(process, str(target))

            expect("opened", creators)
            with memorist.open(target, embedder="none") as memory:
                assert all_texts(memory) == {f"from {name}" for name in range(WRITERS)}
                assert memory.check().problems == ()


MIGRATOR = """
    import sys
    from memorist.store.migrations import load_migrations
    from memorist.store.sqlite.backend import SqliteBackend
    print("ready", flush=True)
    while path := sys.stdin.readline().rstrip():
        SqliteBackend(path, migrations=load_migrations("sqlite") | {"900-extra": "create table extra(x)"}).close()
        print("opened", flush=True)
"""


def test_processes_that_migrate_at_the_same_moment_do_it_once_and_the_copy_is_of_before(tmp_path: Path) -> None:
    with ExitStack() as stack:
        migrators = [stack.enter_context(start_program(MIGRATOR)) for _ in range(4)]
        expect("ready", migrators)
        for attempt in range(6):
            target = tmp_path / f"{attempt}.db"
            with memorist.open(target, embedder="none") as memory:
                memory.add_many(f"old text {number} " * 20 for number in range(500))
            for process in migrators:
                send_line(process, str(target))

            expect("opened", migrators)
            with memorist.open(f"{target}.before-900-extra", embedder="none") as copy:
                assert len(all_texts(copy)) == 500
                assert copy.stats().schema < "900-extra"
            assert not Path(f"{target}.before-900-extra.part").exists()


# Fork


FORKING = """
    import os, sys, memorist
    from conftest import HashingEmbedder

    def work(name, count):
        for number in range(count):
            memory.add(f"{name} {number}")
            assert f"{name} {number}" in [hit.memory.content for hit in memory.search(f"{name} {number}")]

    memory = memorist.open(sys.argv[1], embedder=HashingEmbedder())
    work("before", 3)
    forked, closed = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        work("child", 10)
        os.write(forked[1], b"!")
        os.read(closed[0], 1)
        work("orphan", 10)
        memory.close()
        sys.exit(0)
    work("parent", 10)
    os.read(forked[0], 1)
    if sys.argv[2] == "parent closes first":
        memory.close()
        with memorist.open(sys.argv[1], embedder="none") as other:
            other.add("reopened 0")
    else:
        memory.add("reopened 0")
    os.write(closed[1], b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    memory.close()
    print("done")
"""
# Newer Pythons warn of forks in a process with threads; the searches' own threads are idle at the fork.


@forks
@pytest.mark.parametrize("order", ["parent closes first", "child ends first"])
def test_parent_and_child_of_a_fork_both_go_on_and_nothing_is_lost(path: Path, order: str) -> None:
    with start_program(FORKING, path, order, options=FORK_OPTIONS) as process:
        assert wait_for_end(process) == (0, "done\n")

    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        counts = {"before": 3, "child": 10, "orphan": 10, "parent": 10, "reopened": 1}
        assert all_texts(memory) == {f"{name} {number}" for name, count in counts.items() for number in range(count)}
        assert memory.check().problems == ()
        assert memory.reembed() <= 1  # only the one that was added without a model
        assert memory.stats().pending == 0


WRITTEN_TO = """
    import os, signal, sys, threading, memorist
    memory = memorist.open(sys.argv[1], embedder="none")
    memory.add("before the fork")
    stop = threading.Event()
    def count():
        os.utime(sys.argv[1])  # as a checkpoint of another process does: it is read again whose file this is
        return memory.count()
    def count_on():
        while not stop.is_set():
            count()
    threads = [threading.Thread(target=count_on, daemon=True) for _ in range(2)]
    [thread.start() for thread in threads]
    for _ in range(30):
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that hangs is ended
            os._exit(0 if count() == 1 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stop.set()
    [thread.join() for thread in threads]
    print("done")
"""


@forks
def test_a_child_forked_while_threads_find_the_file_written_to_goes_on(path: Path) -> None:
    with start_program(WRITTEN_TO, path, options=FORK_OPTIONS) as process:
        assert wait_for_end(process) == (0, "done\n")


# What another process writes


UNUSED = """
    import os, sys, memorist
    memory = memorist.open(sys.argv[1], embedder="none")
    memory.add("before the fork")
    child = os.fork()
    if child == 0:
        if sys.argv[2] == "closes":
            memory.close()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with memorist.open(sys.argv[1], embedder="none") as other:
        other.add("beside the parent")
    memory.add("after the child")
    memory.close()
    print("done")
"""


@forks
@pytest.mark.parametrize("child", ["closes", "only ends"])
def test_a_forked_child_that_never_uses_the_memory_does_not_disturb_its_parent(path: Path, child: str) -> None:
    with start_program(UNUSED, path, child, options=FORK_OPTIONS) as process:
        assert wait_for_end(process) == (0, "done\n")

    with memorist.open(path, embedder="none") as memory:
        assert all_texts(memory) == {"before the fork", "beside the parent", "after the child"}
        assert memory.check().problems == ()


OTHER = """
    import json, sys, memorist
    from conftest import HashingEmbedder
    with memorist.open(sys.argv[1], embedder=HashingEmbedder(*json.loads(sys.argv[2]))) as memory:
        print("ready", flush=True)
        while order := sys.stdin.readline():
            verb, arguments, options = json.loads(order)
            answer = getattr(memory, verb)(*arguments, **options)
            print(json.dumps(getattr(answer, "id", answer)), flush=True)
"""
Other = Callable[..., Any]


@contextmanager
def other_process(path: Path, *model: object) -> Iterator[Other]:
    """A memory of the same file in another process: call it with a verb and its arguments."""
    with start_program(OTHER, path, json.dumps(model)) as process:
        expect("ready", [process])

        def call(verb: str, *arguments: object, **options: object) -> Any:
            send_line(process, json.dumps([verb, arguments, options]))
            answer = read_line(process)
            try:
                return json.loads(answer)
            except ValueError:
                process.kill()
                pytest.fail(f"the other process failed: {answer}\n{process.communicate()[0]}")

        yield call


@pytest.fixture
def other(path: Path) -> Iterator[Other]:
    with other_process(path) as call:
        yield call


@pytest.fixture
def warm(hashed: Memorist) -> Memorist:
    """A memory whose scan is in memory already."""
    hashed.add("red fox")
    hashed.add("grey wolf")
    assert by_meaning(hashed, "fox") == ["red fox"]
    return hashed


def by_meaning(memory: Memorist, query: str) -> list[str]:
    """What meaning alone finds, as far as it shares a word."""
    found = memory.search(query, mode="semantic", min_similarity=0.1)
    assert found.degraded is None
    return [hit.memory.content for hit in found]


def test_what_another_process_adds_is_found_by_a_warm_searcher(warm: Memorist, other: Other) -> None:
    other("add", "blue bird")
    assert by_meaning(warm, "bird") == ["blue bird"]

    other("add_many", [f"bird number{number}" for number in range(5)])
    assert len(by_meaning(warm, "bird")) == 6


def test_what_another_process_forgets_and_restores_is_followed(warm: Memorist, other: Other) -> None:
    id = warm.search("fox")[0].memory.id

    other("forget", id)
    assert by_meaning(warm, "fox") == []
    assert [hit.memory.content for hit in warm.search("fox", mode="keyword")] == []

    other("restore", id)
    assert by_meaning(warm, "fox") == ["red fox"]
    assert [hit.memory.content for hit in warm.search("fox", mode="keyword")] == ["red fox"]


def test_what_another_process_updates_is_found_by_its_new_text_only(warm: Memorist, other: Other) -> None:
    other("update", warm.search("fox")[0].memory.id, content="green frog")

    assert by_meaning(warm, "frog") == ["green frog"]
    assert by_meaning(warm, "fox") == []


def test_what_another_process_erases_is_gone(warm: Memorist, other: Other) -> None:
    id = warm.search("fox")[0].memory.id

    other("forget", id, hard=True)

    assert by_meaning(warm, "fox") == []
    assert by_meaning(warm, "wolf") == ["grey wolf"]
    with pytest.raises(NotFound):
        warm.get(id)


def test_a_purge_by_another_process_does_not_disturb_a_warm_searcher(warm: Memorist, other: Other) -> None:
    other("forget", warm.search("fox")[0].memory.id)

    assert other("purge") == 1
    assert by_meaning(warm, "wolf") == ["grey wolf"]
    other("add", "blue bird")
    assert by_meaning(warm, "bird") == ["blue bird"]


def test_a_searcher_that_lags_behind_the_whole_log_still_finds_everything(
    warm: Memorist, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "LOG_KEPT", 3)
    with memorist.open(path, embedder=HashingEmbedder()) as beside:
        beside.forget(warm.search("fox")[0].memory.id)
        for number in range(10):
            beside.add(f"bird number{number}")

    assert len(by_meaning(warm, "bird")) == 10
    assert by_meaning(warm, "fox") == []


def test_a_searcher_says_so_when_another_process_writes_with_another_model(warm: Memorist, path: Path) -> None:
    with other_process(path, "other-32", 32) as other:
        other("add", "blue bird")

        found = warm.search("bird")

    assert found.degraded is not None
    assert "1 of 3" in found.degraded


def test_a_searcher_recovers_after_another_process_pruned_its_model(warm: Memorist, path: Path) -> None:
    with other_process(path, "other-32", 32) as other:
        other("reembed", prune=True)
    assert warm.search("fox").degraded is not None

    warm.reembed()

    assert by_meaning(warm, "fox") == ["red fox"]
    warm.add("blue bird")
    assert by_meaning(warm, "bird") == ["blue bird"]


# A lock that does not end


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else holds the write lock."""
    holder = apsw.Connection(str(path))
    try:
        holder.execute("begin immediate")
        yield
    finally:
        holder.close()


WRITES: dict[str, Callable[[Memorist, str, str], object]] = {
    "add": lambda memory, live, forgotten: memory.add("new"),
    "add a known text": lambda memory, live, forgotten: memory.add("live"),
    "add_many": lambda memory, live, forgotten: memory.add_many(["new", "newer"]),
    "update": lambda memory, live, forgotten: memory.update(live, content="new"),
    "forget": lambda memory, live, forgotten: memory.forget(live),
    "erase": lambda memory, live, forgotten: memory.forget(live, hard=True),
    "restore": lambda memory, live, forgotten: memory.restore(forgotten),
    "purge": lambda memory, live, forgotten: memory.purge(),
    "reembed": lambda memory, live, forgotten: memory.reembed(HashingEmbedder("other-32", 32)),
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_gives_up_with_a_clear_error_when_the_file_stays_locked(path: Path, verb: str) -> None:
    with memorist.open(path, embedder=HashingEmbedder(), busy_timeout=0.1) as memory:
        live, forgotten = memory.add("live"), memory.add("forgotten")
        memory.forget(forgotten.id)

        with locked(path):
            started = time.monotonic()
            with pytest.raises(StoreBusy, match=r"memory\.db stayed locked by another process for 0\.1 s"):
                WRITES[verb](memory, live.id, forgotten.id)
            assert 0.1 <= time.monotonic() - started < 60

        assert list(memory.list()) == [live]
        assert [one.id for one in memory.list(deleted=True)] == [forgotten.id]
        assert memory.history(live.id) == []
        assert memory.check().problems == ()
        WRITES[verb](memory, live.id, forgotten.id)


def test_reading_does_not_wait_for_a_writer(path: Path) -> None:
    with memorist.open(path, embedder=HashingEmbedder(), busy_timeout=0.1) as memory:
        memory.add("red fox")

        with locked(path), memorist.open(path, embedder=HashingEmbedder(), busy_timeout=0.1) as fresh:
            for reader in (memory, fresh):
                assert [hit.memory.content for hit in reader.search("fox")] == ["red fox"]
                assert reader.stats().memories == 1


def test_an_add_whose_text_is_kept_succeeds_though_its_vector_meets_a_lock(path: Path) -> None:
    """The text is safe then: an error would ask the caller to add it again."""
    with ExitStack() as lock:

        class Interrupted(HashingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                lock.enter_context(locked(path))
                return super().embed(texts)

        with memorist.open(path, embedder=Interrupted(), busy_timeout=0.1) as memory:
            id = memory.add("red fox").id
        lock.close()

    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        assert memory.get(id).content == "red fox"
        assert memory.reembed() == 1


# Threads


def test_threads_add_search_and_forget_on_one_memory(hashed: Memorist) -> None:
    def write(name: int) -> None:
        for number in range(20):
            hashed.add(f"thread {name} made note {number}")
            extra = hashed.add(f"thread {name} regrets {number}")
            hashed.forget(extra.id, hard=number % 2 == 0)

    def search(name: int) -> int:
        most = 0
        for number in range(30):
            hits = hashed.search(f"note {number % 20}", limit=50)
            assert len({hit.memory.id for hit in hits}) == len(hits)
            most = max(most, len(hits))
        return most

    with ThreadPoolExecutor(12) as threads:
        writing = [threads.submit(write, name) for name in range(8)]
        searching = [threads.submit(search, name) for name in range(4)]
        for future in writing + searching:
            future.result(timeout=MAX_WAIT_SECONDS)

    assert all_texts(hashed) == {f"thread {name} made note {number}" for name in range(8) for number in range(20)}
    assert hashed.stats().pending == 0
    assert hashed.check().problems == ()
    assert len(hashed.search("regrets", mode="keyword")) == 0
    assert len(hashed.search("thread", limit=1000)) == 160


def test_threads_that_add_the_same_text_make_one_memory(hashed: Memorist) -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = {memory.id for memory in threads.map(lambda _: hashed.add("said by all"), range(16))}

    assert len(ids) == 1
    assert hashed.stats().memories == hashed.stats().vectors == 1


def test_threads_that_add_the_same_id_get_one_memory_and_clear_refusals(hashed: Memorist) -> None:
    def add(number: int) -> bool:
        try:
            hashed.add(f"text {number}", id="the-one-id", if_exists="error")
        except InvalidInput:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(add, range(8))) == [False] * 7 + [True]
    assert hashed.stats().memories == 1
