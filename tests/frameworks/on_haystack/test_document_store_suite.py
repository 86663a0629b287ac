"""The tests that Haystack has for document stores, from haystack.testing."""

import pytest
from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing.document_store import CountDocumentsByFilterTest, DocumentStoreBaseExtendedTests
from haystack.testing.document_store_async import (
    CountDocumentsAsyncTest,
    CountDocumentsByFilterAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
)

import memorist
from memorist.adapters.haystack import MemoristDocumentStore


class _OfMemorist:
    @pytest.fixture
    def document_store(self, memory: memorist.Memorist) -> MemoristDocumentStore:
        return MemoristDocumentStore(memory)


class TestDocumentStore(_OfMemorist, DocumentStoreBaseExtendedTests, CountDocumentsByFilterTest):
    def test_write_documents(self, document_store: MemoristDocumentStore) -> None:
        """Without a policy, an id that is there raises an error."""
        document = Document(content="test doc")

        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document], DuplicatePolicy.NONE)


class TestDocumentStoreAsync(
    _OfMemorist,
    CountDocumentsAsyncTest,
    CountDocumentsByFilterAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
):
    async def test_write_documents_async(self, document_store: MemoristDocumentStore) -> None:
        """Without a policy, an id that is there raises an error."""
        document = Document(content="test doc")

        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])
