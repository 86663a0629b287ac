"""MemoristStore with the names that SqliteStore and AsyncSqliteStore have, for their tests."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import memorist
from conftest import HashedWords
from memorist.adapters.langchain import LangChainEmbedder
from memorist.adapters.langgraph import MemoristStore


class SqliteNames(MemoristStore):
    _known = 0

    @property
    def embeddings(self) -> Any:
        return (self.index_config or {}).get("embed")

    @classmethod
    @contextmanager
    def from_conn_string(cls, target: str, *, index: Any = None, ttl: Any = None) -> Iterator[Any]:
        if index is not None and index.get("text_fields"):
            index = {**index, "fields": index["text_fields"]}
        model = HashedWords() if index is None else LangChainEmbedder(index["embed"], dimensions=index["dims"])
        with memorist.open(target, embedder=model) as memory:
            # The model of these tests knows characters; a keyword leg would compare words instead.
            yield cls(memory, index=index, ttl=ttl, mode="semantic")

    def setup(self) -> None:
        """Do nothing: a memory is set up when it is opened."""

    def sweep_ttl(self) -> int:
        """Return how many items expired since the last call: a memory sweeps by itself."""
        before, self._known = self._known, self.memory.count()
        return max(0, before - self._known)

    def start_ttl_sweeper(self) -> None:
        """Do nothing: expired items are not returned, and erased by later writes."""

    def stop_ttl_sweeper(self) -> None:
        """Do nothing."""


class AsyncSqliteNames(MemoristStore):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, target: str, *, index: Any = None, ttl: Any = None) -> AsyncIterator[Any]:
        with SqliteNames.from_conn_string(target, index=index, ttl=ttl) as store:
            yield AsyncSqliteNames(store)

    def __init__(self, store: SqliteNames) -> None:
        self._store = store
        self.index_config, self.ttl_config = store.index_config, store.ttl_config
        self.batch, self.abatch = store.batch, store.abatch

    async def setup(self) -> None:
        """Do nothing: a memory is set up when it is opened."""

    async def sweep_ttl(self) -> int:
        return await asyncio.to_thread(self._store.sweep_ttl)

    async def start_ttl_sweeper(self) -> None:
        """Do nothing: expired items are not returned, and erased by later writes."""

    async def stop_ttl_sweeper(self) -> None:
        """Do nothing."""
