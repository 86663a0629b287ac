"""
LangChain's interfaces over a memory: vector store, retriever, embeddings, chat history and byte store.

A document is a memory: its text, its id, and its metadata as they are. So a vector store finds what others added, and
they find its documents. Async methods run these in the threads of LangChain's executor.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from memorist.adapters.project_documents import NEAREST, ProjectDocuments, check_project, quote_project
from memorist.adapters.session_items import SessionItem, SessionItems
from memorist.embed import create_embedder
from memorist.embed.base import Embedder, embed_documents, embed_query
from memorist.engine import Memorist, open_memory
from memorist.errors import InvalidInput, MissingExtra, NotFound
from memorist.records import Hit, Memory

try:
    import numpy as np
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.stores import ByteStore
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
    from pydantic import ConfigDict
except ImportError as exc:
    raise MissingExtra("LangChain's interfaces need an extra: pip install 'memorist[langchain]'") from exc

_BYTES = "langchain-bytes"  # the kind of values of a byte store


class MemoristEmbeddings(Embeddings):
    """An embedding model of Memorist for LangChain: the bundled one, which runs on this machine and offline."""

    def __init__(self, embedder: str | Embedder | None = None) -> None:
        model = create_embedder(embedder)
        if model is None:
            raise InvalidInput('"none" is no embedding model')
        self._embedder = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = embed_documents(self._embedder, texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = embed_query(self._embedder, text).tolist()
        return vector


class LangChainEmbedder:
    """An embedding model of LangChain for `memorist.open(embedder=...)`."""

    def __init__(self, embeddings: Embeddings, *, model_id: str | None = None, dimensions: int | None = None) -> None:
        self._embeddings = embeddings
        name = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", None)
        self.model_id = model_id or f"langchain:{type(embeddings).__name__}" + (f":{name}" if name else "")
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            self._dimensions = len(self._embeddings.embed_query("dimensions"))
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return self._embeddings.embed_documents(list(texts))

    def embed_query(self, text: str) -> list[float]:
        return self._embeddings.embed_query(text)


class MemoristVectorStore(VectorStore):
    """
    A vector store whose documents are the memories of a project, or of all of them.

    `filter` of the searches is a filter by metadata. Searches are hybrid unless `mode` says "semantic" or "keyword".
    """

    def __init__(self, memory: Memorist, *, project: str | None = None, mode: str = "hybrid") -> None:
        self.memory, self._project, self._mode = memory, project, mode
        self._documents = ProjectDocuments(memory, project)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        memory: Memorist | None = None,
        project: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a store with these texts: of `memory`, or of a new one that is not saved, with `embedding`."""
        if memory is None:
            embedder = None if embedding is None else LangChainEmbedder(embedding)
            memory = open_memory(":memory:", embedder=embedder)
        store = cls(memory, project=project, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_documents(self, documents: list[Document], *, ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        """Add documents, or replace those with the same ids; return the ids."""
        if ids is not None and len(ids) != len(documents):
            raise ValueError(f"{len(ids)} ids for {len(documents)} documents")
        given = [document.id for document in documents] if ids is None else ids
        return self._documents.write(
            (id, {"content": document.page_content, "metadata": document.metadata})
            for id, document in zip(given, documents, strict=True)
        )

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [self._to_document(memory) for memory in self._documents.find(ids)]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Forget documents, which `restore` undoes until they are purged; without ids, all of the project."""
        if ids is None:
            if self._project is None:
                raise ValueError("the store has no project, so this would forget every memory; name the ids")
            self.memory.forget_many(project=self._project)
            return True
        self._documents.forget(ids)
        return True

    def similarity_search(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[Document]:
        return [self._to_document(hit.memory) for hit in self._search(query, k, filter, kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return documents with scores that order this answer, higher being better."""
        return [(self._to_document(hit.memory), hit.score) for hit in self._search(query, k, filter, kwargs)]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return documents with the probability that each is about the query."""
        return [(self._to_document(hit.memory), hit.relevance) for hit in self._search(query, k, filter, kwargs)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return `k` of the `fetch_k` best documents that differ from one another, by the bundled model."""
        documents = self.similarity_search(query, fetch_k, filter, **kwargs)
        model = MemoristEmbeddings()
        vectors = model.embed_documents([document.page_content for document in documents])
        chosen = maximal_marginal_relevance(np.array(model.embed_query(query)), vectors, lambda_mult, k)
        return [documents[place] for place in chosen]

    def _search(
        self, query: str, k: int, filter: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> Sequence[Hit]:
        chosen = {**NEAREST, "mode": self._mode, "metadata": filter, **options}
        return self.memory.search(query, limit=k, project=self._project, **chosen)

    def _to_document(self, memory: Memory) -> Document:
        return _to_document(memory, self._documents.id_of(memory))


class MemoristRetriever(BaseRetriever):
    """A retriever of memories; `options` are arguments of `search`, such as `profile`, `tags` or `metadata`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memorist
    project: str | None = None
    k: int = 4
    options: dict[str, Any] = {}  # noqa: RUF012  # pydantic copies it for each retriever

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        chosen = {
            **NEAREST,
            "limit": self.k if k is None else k,
            "project": check_project(self.project),
            **self.options,
        }
        hits = self.memory.search(query, **chosen)
        return [_to_document(hit.memory, hit.memory.id, score=hit.score, relevance=hit.relevance) for hit in hits]


class MemoristChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, each a turn that searches find."""

    def __init__(self, memory: Memorist, session_id: str, *, project: str | None = None) -> None:
        self._items = SessionItems(memory, "langchain", session_id, project=project)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base declares an attribute
        return messages_from_dict(self._items.items())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._items.add([_to_item(message) for message in messages])

    def clear(self) -> None:
        self._items.clear()


class MemoristByteStore(ByteStore):
    """Bytes by key, for LangChain's caches and parent documents. Keys are at most 500 characters."""

    def __init__(self, memory: Memorist, *, project: str | None = None) -> None:
        self._memory, self._project = memory, check_project(project)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        found = self._memory.get([self._id(key) for key in keys]) if keys else ()
        values = {memory.source: base64.b64decode(memory.metadata["bytes"]) for memory in found}
        return [values.get(key) for key in keys]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        self._memory.add_many(
            {
                "id": self._id(key),
                "content": key,
                "kind": _BYTES,
                "source": key,
                "metadata": {"bytes": base64.b64encode(value).decode()},
                "project": self._project,
            }
            for key, value in key_value_pairs
        )

    def mdelete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with suppress(NotFound):
                self._memory.forget(self._id(key))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        for memory in self._memory.list(limit=1_000_000, kind=_BYTES, project=self._project):
            if memory.source is not None and memory.source.startswith(prefix or ""):
                yield memory.source

    def _id(self, key: str) -> str:
        return f"{_BYTES}:{quote_project(self._project or '')}/{key}"


def _to_document(memory: Memory, id: str, **more: Any) -> Document:
    return Document(id=id, page_content=memory.content, metadata=dict(memory.metadata) | more)


def _to_item(message: BaseMessage) -> SessionItem:
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    text = message.text if isinstance(message.text, str) else message.text()
    calls = [f"{call['name']}({call['args']})" for call in getattr(message, "tool_calls", ())]
    return SessionItem(role, "\n".join([text, *calls]).strip(), message_to_dict(message))
