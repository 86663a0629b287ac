"""LangGraph's tests of a store, from langgraph-checkpoint, with MemoristStore where they have InMemoryStore."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import borrowed
import pytest

import memorist
from conftest import HashedWords
from memorist.adapters.langchain import LangChainEmbedder
from memorist.adapters.langgraph import MemoristStore

_opened = ExitStack()


class InMemoryNames(MemoristStore):
    """MemoristStore, made as an InMemoryStore is."""

    def __init__(self, *, index: Any = None) -> None:
        model = HashedWords() if index is None else LangChainEmbedder(index["embed"], dimensions=index["dims"])
        memory = _opened.enter_context(memorist.open(":memory:", embedder=model))
        # The model of these tests knows characters; a keyword leg would compare words instead.
        super().__init__(memory, index=index, mode="semantic")


@pytest.fixture(autouse=True)
def _close_memories() -> Iterator[None]:
    with _opened:
        yield


suite = borrowed.borrow("langgraph-checkpoint", "test_store")
suite.InMemoryStore = InMemoryNames

globals().update(borrowed.tests_of(suite, skipped={}))
