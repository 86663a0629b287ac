"""
Haystack's document store over a memory, and a retriever that searches it by word and by meaning.

A document is a memory: its content is the text and its `meta` the metadata, so other programs find both.
"""

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from memorist.adapters.project_documents import ProjectDocuments, list_exact, search_exact
from memorist.engine import Memorist, open_memory
from memorist.errors import AlreadyExists, InvalidInput, MissingExtra
from memorist.nesting import refuse_excess
from memorist.records import Hit, Memory

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy
    from haystack.utils.filters import document_matches_filter
except ImportError as exc:
    raise MissingExtra("Haystack's document store needs an extra: pip install 'memorist[haystack]'") from exc

_MORE = "haystack"  # the key of metadata for what a document has besides content and meta
_FIELDS = {field.name for field in dataclasses.fields(Document)}
_IF_EXISTS = {
    DuplicatePolicy.NONE: "error",
    DuplicatePolicy.FAIL: "error",
    DuplicatePolicy.SKIP: "keep",
    DuplicatePolicy.OVERWRITE: "update",
}
_COMPARISONS = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_MAX_PUSHED_VALUES = 100


class MemoristDocumentStore:
    """
    A document store whose documents are the memories of one project.

    Give it a `memory` that is open, or the `target` to open; with a target, pipelines that have it can be saved.
    """

    def __init__(
        self,
        memory: Memorist | None = None,
        *,
        target: str | None = None,
        namespace: str = "default",
        project: str = "haystack",
    ) -> None:
        self.memory = memory if memory is not None else open_memory(target, namespace=namespace)
        self._target, self._namespace, self._project = target, namespace, project
        self._is_owner = memory is None
        self._documents = ProjectDocuments(self.memory, project)

    def to_dict(self) -> dict[str, Any]:
        if not self._is_owner:
            raise InvalidInput("a store of an open memory cannot be saved; make it with a target instead")
        return default_to_dict(self, target=self._target, namespace=self._namespace, project=self._project)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return default_from_dict(cls, data)

    def close(self) -> None:
        """Close the memory, if the store opened it."""
        if self._is_owner:
            self.memory.close()

    def count_documents(self) -> int:
        return self.memory.count(project=self._project)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return all documents that match, in the order they were written."""
        return [self._to_document(memory) for memory in self._list(filters)]

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        return len(self._list(filters))

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents and return how many; without a policy, an id that is there raises an error."""
        if not isinstance(documents, Sequence) or not all(isinstance(each, Document) for each in documents):
            raise ValueError("write_documents takes a list of documents")
        known = len(self._documents.find([each.id for each in documents])) if policy == DuplicatePolicy.SKIP else 0
        try:
            self._documents.write(((each.id, _to_fields(each)) for each in documents), _IF_EXISTS[policy])
        except AlreadyExists as exc:
            raise DuplicateDocumentError(str(exc)) from exc
        return len(documents) - known

    def delete_documents(self, document_ids: list[str]) -> None:
        """Forget documents, which `restore` undoes until they are purged; ids that are not there are ignored."""
        self._documents.forget(document_ids)

    def delete_all_documents(self) -> None:
        self.memory.forget_many(project=self._project)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Forget all documents that match; return how many."""
        found = self._list(filters)
        self._documents.forget([self._documents.id_of(memory) for memory in found])
        return len(found)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set fields of `meta` of all documents that match; return how many."""
        found = self._list(filters)
        for memory in found:
            document = self._to_document(memory)
            document.meta.update(meta)
            self.memory.update(memory.id, metadata=_to_fields(document)["metadata"])
        return len(found)

    def search(
        self, query: str, *, filters: dict[str, Any] | None = None, top_k: int = 10, mode: str = "hybrid"
    ) -> list[Document]:
        """Return the best documents for a query, with their scores."""

        def select(hits: Sequence[Hit]) -> dict[str, Document]:
            documents = (self._to_document(hit.memory, hit.score) for hit in hits)
            return {each.id: each for each in documents if not filters or document_matches_filter(filters, each)}

        narrowed = {"project": self._project, "metadata": _narrow(filters), "mode": mode}
        return list(search_exact(self.memory, query, select, top_k, **narrowed).values())

    async def count_documents_async(self) -> int:
        return await asyncio.to_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        return await asyncio.to_thread(self.filter_documents, filters)

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        return await asyncio.to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        await asyncio.to_thread(self.delete_documents, document_ids)

    async def delete_all_documents_async(self) -> None:
        await asyncio.to_thread(self.delete_all_documents)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        return await asyncio.to_thread(self.delete_by_filter, filters)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        return await asyncio.to_thread(self.update_by_filter, filters, meta)

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        return await asyncio.to_thread(self.count_documents_by_filter, filters)

    def _list(self, filters: dict[str, Any] | None) -> list[Memory]:
        def passes(memory: Memory) -> bool:
            return not filters or document_matches_filter(filters, self._to_document(memory))

        found = list_exact(self.memory, passes, project=self._project, metadata=_narrow(filters))
        return found[::-1]

    def _to_document(self, memory: Memory, score: float | None = None) -> Document:
        fields = {"content": memory.content, **_split_metadata(memory.metadata)}
        return Document.from_dict({**fields, "id": self._documents.id_of(memory), "score": score})


@component
class MemoristHybridRetriever:
    """A component that finds documents of a MemoristDocumentStore by word and by meaning; it needs no embedder."""

    def __init__(
        self,
        document_store: MemoristDocumentStore,
        *,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        mode: str = "hybrid",
    ) -> None:
        self.document_store, self._top_k, self._filters, self._mode = document_store, top_k, filters, mode

    def to_dict(self) -> dict[str, Any]:
        store = self.document_store.to_dict()
        options = {"top_k": self._top_k, "filters": self._filters, "mode": self._mode}
        return default_to_dict(self, document_store=store, **options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        options = data["init_parameters"]
        options["document_store"] = MemoristDocumentStore.from_dict(options["document_store"])
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return {"documents": self._search(query, filters, top_k)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return {"documents": await asyncio.to_thread(self._search, query, filters, top_k)}

    def _search(self, query: str, filters: dict[str, Any] | None, top_k: int | None) -> list[Document]:
        return self.document_store.search(
            query,
            filters=self._filters if filters is None else filters,
            top_k=self._top_k if top_k is None else top_k,
            mode=self._mode,
        )


def _to_fields(document: Document) -> dict[str, Any]:
    """Return a document as the fields of a memory; what these have no place for is in the metadata."""
    parts = document.to_dict(flatten=False)
    content, meta = parts.pop("content"), parts.pop("meta")
    more = {key: value for key, value in parts.items() if value is not None and key not in ("id", "score")}
    text = content if isinstance(content, str) and content.strip() else None
    if text is None:
        more["content"] = content
    if _MORE in meta:
        more["meta"] = {_MORE: meta[_MORE]}
    metadata = _as_json({**meta, _MORE: more} if more else meta)
    return {"content": text or f"document {document.id}", "metadata": metadata}


def _split_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document that metadata holds: its `meta`, and what `_to_fields` put beside it."""
    more = metadata.get(_MORE)
    if not isinstance(more, dict) or not more.keys() <= _FIELDS or not isinstance(more.get("meta", {}), dict):
        return {"meta": dict(metadata)}  # the key is another program's own
    meta = {key: value for key, value in metadata.items() if key != _MORE}
    return {**more, "meta": meta | more.get("meta", {})}


def _as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of what JSON knows; times become text, which filters compare as times."""
    refuse_excess(value, "meta")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(value, default=_encode))
    except (TypeError, ValueError) as exc:
        raise InvalidInput(f"meta must be made of what JSON knows: {exc}") from exc
    return copied


def _encode(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not known to JSON")


def _narrow(filters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a filter by metadata that passes all documents that a filter of Haystack passes; None is no filter."""
    if not filters:
        return None
    if "field" in filters:
        return _narrow_comparison(filters)
    conditions = filters.get("conditions")
    if not isinstance(conditions, list) or filters.get("operator") not in ("AND", "OR"):
        return None
    parts = [_narrow(condition) for condition in conditions if isinstance(condition, Mapping)]
    narrowed = [part for part in parts if part is not None]
    if filters["operator"] == "AND":
        return {"$and": narrowed} if narrowed else None
    return {"$or": narrowed} if narrowed and len(narrowed) == len(conditions) else None


def _narrow_comparison(condition: Mapping[str, Any]) -> dict[str, Any] | None:
    field, operator, value = condition["field"], condition.get("operator"), condition.get("value")
    if not isinstance(field, str) or not field.startswith("meta.") or field.split(".")[1] == _MORE:
        return None
    path = field.removeprefix("meta.").replace("\\", "\\\\").replace("$", "\\$")
    if operator == "==" and _is_comparable(value):
        return {path: {"$eq": value}}
    if operator in _COMPARISONS and _is_comparable(value) and not isinstance(value, str):
        return {path: {_COMPARISONS[operator]: value}}
    if operator == "in" and isinstance(value, list) and 0 < len(value) <= _MAX_PUSHED_VALUES:
        return {path: {"$in": value}} if all(map(_is_comparable, value)) else None
    return None


def _is_comparable(value: object) -> bool:
    """Return whether a database compares a value as Haystack does, to which True is 1 and a date is a time."""
    if isinstance(value, str):
        return len(value) < _MAX_PUSHED_VALUES and not value[:4].isdigit()
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 < abs(value) < 2**63
