"""A memory for asyncio: the same names, awaited; cancelled calls leave nothing half done."""

import asyncio
import gc
import inspect
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

import memorist
from conftest import HashingEmbedder
from memorist import AsyncMemorist, InvalidInput, Memorist
from memorist.engine.asynchronous import (
    AsyncDocuments,
    AsyncFacts,
    AsyncFiles,
    AsyncLenses,
    AsyncLinks,
    AsyncReview,
    AsyncSearches,
    AsyncSessions,
    AsyncTransfer,
)
from memorist.engine.documents import Documents
from memorist.engine.facts import Facts
from memorist.engine.files import Files
from memorist.engine.lenses import Lenses
from memorist.engine.links import Links
from memorist.engine.review import Review
from memorist.engine.searches import Searches
from memorist.engine.sessions import Sessions
from memorist.engine.transfer import Transfer
from timeouts import MAX_WAIT_SECONDS


def public(kind: type) -> dict[str, object]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


ROOMS = (
    (Memorist, AsyncMemorist), (Sessions, AsyncSessions), (Facts, AsyncFacts), (Links, AsyncLinks),
    (Documents, AsyncDocuments), (Files, AsyncFiles), (Lenses, AsyncLenses), (Searches, AsyncSearches),
    (Review, AsyncReview), (Transfer, AsyncTransfer),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "awaited_kind"), ROOMS)
def test_both_interfaces_have_the_same_names_and_parameters(kind: type, awaited_kind: type) -> None:
    plain, awaited = public(kind), public(awaited_kind)

    assert plain.keys() == awaited.keys()
    for name in plain.keys() - {"watch", "changes", "lost"}:
        assert inspect.iscoroutinefunction(awaited[name]), name
        assert inspect.signature(plain[name]) == inspect.signature(awaited[name]), name  # type: ignore[arg-type]
        assert inspect.getdoc(awaited[name]), name


def test_every_call_gives_what_the_plain_one_gives(target: Path | str) -> None:
    async def use() -> None:
        async with memorist.open_async(target, embedder=HashingEmbedder()) as memory:
            ids = await memory.add_many(f"note {number}" for number in range(20))
            found = await asyncio.gather(*(memory.search(f"note {number}", limit=1) for number in range(20)))
            assert [one[0].memory.id for one in found] == ids
            with pytest.raises(InvalidInput):
                await memory.search("note", limit=0)

    asyncio.run(use())
    with memorist.open(target, embedder="none") as memory:
        assert memory.count() == 20


def test_it_can_be_awaited_or_entered(path: Path) -> None:
    async def use() -> int:
        async with await memorist.open_async(path, embedder="none") as memory:
            await memory.add("one")
        opened = await memorist.open_async(path, embedder="none")
        count = await opened.count()
        await opened.close()
        await opened.close()
        return count

    assert asyncio.run(use()) == 1


def test_threads_hand_the_interpreter_over_sooner_while_a_memory_is_open(path: Path) -> None:
    before = sys.getswitchinterval()

    async def use() -> None:
        first = await memorist.open_async(path, embedder="none")
        async with memorist.open_async(path, embedder="none"):
            await first.close()
            await first.close()
            assert sys.getswitchinterval() == pytest.approx(0.0005)

    asyncio.run(use())
    assert sys.getswitchinterval() == before


def test_a_memory_that_is_dropped_without_being_closed_puts_the_switch_interval_back(path: Path) -> None:
    before = sys.getswitchinterval()

    async def drop() -> None:
        await memorist.open_async(path, embedder="none")

    asyncio.run(drop())
    gc.collect()
    assert sys.getswitchinterval() == before


def test_a_switch_interval_that_the_program_sets_is_kept(path: Path) -> None:
    before = sys.getswitchinterval()

    async def use() -> None:
        sys.setswitchinterval(0.0001)
        async with memorist.open_async(path, embedder="none"):
            assert sys.getswitchinterval() == pytest.approx(0.0001)
        assert sys.getswitchinterval() == pytest.approx(0.0001)
        sys.setswitchinterval(0.003)
        async with memorist.open_async(path, embedder="none"):
            sys.setswitchinterval(0.002)
        assert sys.getswitchinterval() == pytest.approx(0.002)

    try:
        asyncio.run(use())
    finally:
        sys.setswitchinterval(before)


class Waiting(HashingEmbedder):
    """A model that says when it is asked, and answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.set()
        assert self.may_answer.wait(MAX_WAIT_SECONDS)
        return super().embed(texts)


@pytest.mark.parametrize(
    ("write", "count"),
    [
        (lambda memory: memory.add("a note"), 1),
        (lambda memory: memory.add_many(f"note {number}" for number in range(300)), 300),
    ],
    ids=["add", "add_many"],
)
def test_a_write_that_is_cancelled_under_way_is_finished_as_a_whole(
    target: Path | str, write: Callable[[Any], Coroutine[Any, Any, object]], count: int
) -> None:
    model = Waiting()

    async def use() -> None:
        async with memorist.open_async(target, embedder=model, on_near_duplicate="off") as memory:
            adding = asyncio.create_task(write(memory))
            await asyncio.to_thread(model.asked.wait, 60)
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            model.may_answer.set()

    asyncio.run(use())
    with memorist.open(target, embedder=model) as memory:
        assert (memory.stats().memories, memory.stats().vectors) == (count, count)
        assert memory.check().ok


def test_an_import_that_is_cancelled_under_way_is_finished_as_a_whole(target: Path | str, tmp_path: Path) -> None:
    with memorist.open(tmp_path / "from.db", embedder="none") as memory:
        memory.add_many({"content": f"note {number}", "facts": [f"fact {number}"]} for number in range(300))
        memory.transfer.export(tmp_path / "all.jsonl")
    begun, may_go_on = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        begun.set()
        assert may_go_on.wait(MAX_WAIT_SECONDS)

    async def use() -> None:
        async with memorist.open_async(target, embedder="none") as memory:
            importing = asyncio.create_task(memory.transfer.import_(tmp_path / "all.jsonl", progress=wait))
            await asyncio.to_thread(begun.wait, 60)
            importing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await importing
            may_go_on.set()

    asyncio.run(use())
    with memorist.open(target, embedder="none") as memory:
        assert (memory.stats().memories, memory.stats().facts) == (300, 300)
        assert memory.check().ok


def test_a_write_that_waits_for_a_thread_and_is_cancelled_does_nothing(target: Path | str) -> None:
    model = Waiting()

    async def use() -> None:
        async with memorist.open_async(target, embedder=model, concurrency=1, on_near_duplicate="off") as memory:
            first = asyncio.create_task(memory.add("the first"))
            await asyncio.to_thread(model.asked.wait, 60)
            second = asyncio.create_task(memory.add("the second"))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            model.may_answer.set()
            await first

    asyncio.run(use())
    with memorist.open(target, embedder="none") as memory:
        assert [one.content for one in memory.list()] == ["the first"]


def test_files_are_watched(path: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.md").write_text("a note on trains")

    async def use() -> int:
        async with memorist.open_async(path, embedder="none") as memory:
            async for report in memory.documents.watch(tmp_path / "notes"):
                return report.added
        return 0

    assert asyncio.run(use()) == 1
