"""Exports in a stream: some at once, each as fast as it is read, and none that seems whole and is not."""

import asyncio
import io
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from memorist import Memorist
from memorist.web import streams
from memorist.web.problems import Refusal
from memorist.web.streams import Export, Exports, ReaderStalled
from timeouts import MAX_WAIT_SECONDS


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> Exports:
    monkeypatch.setattr(streams, "MAX_EXPORTS", 2)
    monkeypatch.setattr(streams, "_CHUNK_BYTES", 10)
    return Exports()


@pytest.fixture
def begin(memory: Memorist, exports: Exports) -> Callable[[], Export]:
    memory.add_many(f"number {number}" for number in range(20))
    return lambda: exports.begin(lambda: nullcontext(memory), False)


async def read(export: Export) -> bytes:
    return b"".join([chunk async for chunk in export.lines()])


def run(scenario: Coroutine[Any, Any, None]) -> None:
    with ThreadPoolExecutor(1) as thread:  # the browser's tests leave a loop in this one
        thread.submit(asyncio.run, asyncio.wait_for(scenario, MAX_WAIT_SECONDS)).result()


def test_exports_are_bounded_and_give_their_place_back(memory: Memorist, begin: Callable[[], Export]) -> None:
    async def scenario() -> None:
        first, second = begin(), begin()
        with pytest.raises(Refusal, match="exports") as refused:
            begin()
        assert (refused.value.status, refused.value.name) == (503, "too-many-exports")
        for left in (first, second):
            left.leave()
            await read(left)
        whole = io.BytesIO()
        memory.transfer.export(whole)
        assert sorted((await read(begin())).splitlines()) == sorted(whole.getvalue().splitlines())

    run(scenario())


def test_an_export_whose_reader_stalls_does_not_seem_whole(
    memory: Memorist, exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_STALL_SECONDS", 0.01)
    memory.add_many(f"number {number}" for number in range(20))
    given_up = threading.Event()

    @contextmanager
    def use() -> Iterator[Memorist]:
        try:
            yield memory
        finally:
            given_up.set()

    async def scenario() -> None:
        export = exports.begin(use, False)
        await asyncio.to_thread(given_up.wait, MAX_WAIT_SECONDS)
        with pytest.raises(ReaderStalled):
            await read(export)

    run(scenario())
