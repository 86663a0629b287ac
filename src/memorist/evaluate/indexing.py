"""A set as a memory: added through the public interface, once, and kept for the next time."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from memorist.embed.base import Embedder, Vectors
from memorist.embed.reranker import CrossEncoder
from memorist.engine import Memorist, open_memory
from memorist.evaluate.dataset import CorpusDocument, Dataset, fingerprint, moments
from memorist.evaluate.rerank_cache import CachedReranker

FORM = 1  # of how documents become memories, below; another one is another database
_DATABASE, _IDS, _PAIRS = "memory.db", "ids.json", "pairs.txt"
_PROBED = 50  # documents, to see what of them is embedded

Progress = Callable[[int], None]


class Indexed:
    """
    A set in a database: the memory, which documents each memory stands for (a text said twice is one memory), and what
    was kept of what a reranker read.
    """

    def __init__(
        self,
        memory: Memorist,
        documents: Sequence[CorpusDocument],
        ids: Sequence[str],
        pairs: CachedReranker | None = None,
    ) -> None:
        self.memory, self.pairs = memory, pairs
        self._documents: dict[str, list[str]] = {}
        for document, id in zip(documents, ids, strict=True):
            self._documents.setdefault(id, []).append(document.id)

    def documents(self, ids: Sequence[str]) -> list[str]:
        """Memories as the documents they are, in their order."""
        return [document for id in ids for document in self._documents[id]]


def indexed(
    dataset: Dataset,
    embedder: Embedder | None,
    cache: Path,
    *,
    reranker: CrossEncoder | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> Indexed:
    """
    The set as a memory; made where the cache has none of these documents with this model's vectors. What the `reranker`
    reads is kept beside it.
    """
    folder = cache / "sets" / f"{dataset.name}-{_key(dataset, embedder)}"
    if folder.exists() and (rebuild or not (folder / _IDS).exists()):  # without, it was not wholly taken away
        shutil.rmtree(folder)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
        try:
            _make(dataset, embedder, made, progress)
            if not folder.exists():  # another process may have been faster
                made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    pairs = CachedReranker(reranker, folder / _PAIRS) if reranker else None
    memory = _open(folder, embedder, pairs)
    return Indexed(memory, dataset.documents, json.loads((folder / _IDS).read_text("utf-8")), pairs)


def _make(dataset: Dataset, embedder: Embedder | None, folder: Path, progress: Progress | None) -> None:
    with _open(folder, embedder) as memory:
        ids = _add(memory, dataset.documents, progress)
        if embedder is not None:
            memory.reembed()  # where the model failed; if it does so again, there is nothing to measure
    (folder / _IDS).write_text(json.dumps(ids), "utf-8")


def _open(folder: Path, embedder: Embedder | None, pairs: CachedReranker | None = None) -> Memorist:
    return open_memory(
        folder / _DATABASE, embedder=embedder or "none", synchronous="normal", near="off", reranker=pairs
    )


def _add(memory: Memorist, documents: Sequence[CorpusDocument], progress: Progress | None) -> list[str]:
    sessions = dict.fromkeys((session, one.scope) for one in documents if (session := _session(one)))
    for session, scope in sessions:
        memory.start_session(scope, id=session)
    return memory.add_many(_fields(documents), progress=progress)


def _fields(documents: Sequence[CorpusDocument]) -> Iterator[dict[str, Any]]:
    for one, happened in zip(documents, moments(documents), strict=True):
        yield dict(
            content=one.text,
            title=one.title,
            project=one.scope,
            session=_session(one),
            created_at=happened,
            metadata={**one.metadata, "_id": one.id},
        )


def _session(document: CorpusDocument) -> str | None:
    session = document.metadata.get("session")
    if session is None:
        return None
    return str(session) if document.scope is None else f"{document.scope}/{session}"


def _key(dataset: Dataset, embedder: Embedder | None) -> str:
    """What a database depends on: the documents, the model, and what of a document the model is given."""
    parts = [FORM, fingerprint(dataset.documents)]
    if embedder is not None:
        parts += [embedder.model_id, _what_is_embedded(dataset.documents[:_PROBED], embedder)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _what_is_embedded(documents: Sequence[CorpusDocument], embedder: Embedder) -> list[str]:
    """The texts that a model would be given of some documents, found out by giving them to one that only listens."""
    listener = _Listener(embedder)
    with closing(open_memory(":memory:", embedder=listener, near="off")) as memory:
        _add(memory, documents, None)
    return listener.heard


class _Listener:
    """A model that remembers what it was given, and otherwise is like another."""

    def __init__(self, like: Embedder) -> None:
        self._like = like
        self.heard: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._like, name)

    @property
    def model_id(self) -> str:
        return self._like.model_id

    @property
    def dimensions(self) -> int:
        return self._like.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.heard += texts
        return np.ones((len(texts), self.dimensions), np.float32)
