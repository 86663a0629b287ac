"""The standard tests that LangChain has for integrations, from its package langchain-tests."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import (
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

import memorist
from memorist.adapters.langchain import (
    LangChainEmbedder,
    MemoristByteStore,
    MemoristEmbeddings,
    MemoristRetriever,
    MemoristVectorStore,
)


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> Iterator[MemoristVectorStore]:
        with memorist.open(":memory:", embedder=LangChainEmbedder(self.get_embeddings())) as memory:
            yield MemoristVectorStore(memory)


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _fill(self, memory: memorist.Memorist) -> None:
        self.memory = memory
        MemoristVectorStore(memory).add_documents([Document(f"fact number {number}") for number in range(5)])

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return MemoristRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return "fact"


class TestEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return MemoristEmbeddings


class TestEmbeddingsUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return MemoristEmbeddings


class TestByteStore(BaseStoreSyncTests[bytes]):
    @pytest.fixture
    def kv_store(self, memory: memorist.Memorist) -> MemoristByteStore:
        return MemoristByteStore(memory)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"foo", b"", b"\x00\xff"


class TestByteStoreAsync(BaseStoreAsyncTests[bytes]):
    @pytest.fixture
    async def kv_store(self, memory: memorist.Memorist) -> MemoristByteStore:
        return MemoristByteStore(memory)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"foo", b"", b"\x00\xff"
