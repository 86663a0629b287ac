"""Index a dataset as a memory, once for all later runs with the same documents, model and reranker."""

import hashlib
import json
import math
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from memorist.atomic_file import make_folder
from memorist.embed.base import Embedder, Vectors
from memorist.embed.local import CrossEncoder
from memorist.engine import Memorist, open_memory
from memorist.evaluate.dataset import CorpusDocument, Dataset, assign_times, fingerprint

_INDEX_FORMAT = 1  # changes when documents become memories in another way, see `_memory_fields`
_DATABASE_FILE, _IDS_FILE, _SCORES_FILE = "memory.db", "ids.json", "pairs.txt"
_MAX_PROBED_DOCUMENTS = 50  # whose embedded texts are part of the cache key

Progress = Callable[[int], None]


class CachedReranker:
    """
    A reranker that reads no (question, passage) pair whose score is in its file. Not thread-safe.

    A call with a time limit bypasses the cache: how much is read in that time must not depend on earlier runs. A
    question that is asked twice in a row is read twice, so that a first run takes as long as it would without a cache.
    """

    def __init__(self, reranker: CrossEncoder, file: Path) -> None:
        self._reranker, self._file = reranker, file
        self._question, self._new_scores = "", dict[str, float | None]()
        self.cache_hits = 0  # scores that came from the cache

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        """Score passages as `CrossEncoder.score_passages` does."""
        if seconds != math.inf:
            return self._reranker.score_passages(question, passages, seconds)
        if question != self._question:
            self._cache.update(self._new_scores)
            self._question, self._new_scores = question, {}
        keys = [self._key(question, passage) for passage in passages]
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in self._cache}
        self.cache_hits += sum(key in self._cache for key in keys)
        if missing:
            scores = self._reranker.score_passages(question, list(missing.values()), seconds)
            read = dict(zip(missing, scores, strict=True))
            self._new_scores.update(read)
            _append_scores(self._file, read)
        return [self._new_scores[key] if key in missing else self._cache[key] for key in keys]

    @cached_property
    def _cache(self) -> dict[str, float | None]:
        return _read_scores(self._file)

    def _key(self, question: str, passage: str) -> str:
        pair = json.dumps([self._reranker.model_id, question, passage])
        return hashlib.blake2b(pair.encode(), digest_size=16).hexdigest()


# Each line holds the scores of one call behind their checksum. A record starts with the newline: so a line that a crash
# cut short does not spoil the next one.
def _append_scores(file: Path, scores: Mapping[str, float | None]) -> None:
    text = json.dumps(scores).encode()
    with file.open("ab") as lines:
        lines.write(b"\n%08x %b" % (zlib.crc32(text), text))


def _read_scores(file: Path) -> dict[str, float | None]:
    """Return the scores of all intact lines."""
    scores: dict[str, float | None] = {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        checksum, _, text = line.partition(b" ")
        if checksum == b"%08x" % zlib.crc32(text):
            scores.update(json.loads(text))
    return scores


class IndexedDataset:
    """A dataset in a database of its own, in which documents with the same text are one memory."""

    def __init__(
        self,
        memory: Memorist,
        documents: Sequence[CorpusDocument],
        memory_ids: Sequence[str],
        reranker: CachedReranker | None = None,
    ) -> None:
        self.memory, self.reranker = memory, reranker
        self._document_ids: dict[str, list[str]] = {}
        for document, memory_id in zip(documents, memory_ids, strict=True):
            self._document_ids.setdefault(memory_id, []).append(document.id)

    def document_ids(self, memory_ids: Sequence[str]) -> list[str]:
        """Return the documents that memories were made of, in the order of the memories."""
        return [id for memory_id in memory_ids for id in self._document_ids[memory_id]]


def index_dataset(
    dataset: Dataset,
    embedder: Embedder | None,
    cache: Path,
    *,
    reranker: CrossEncoder | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> IndexedDataset:
    """Open the dataset's database in the cache folder, with a cache of reranker scores; build what is not there."""
    folder = cache / "sets" / f"{dataset.name}-{_cache_key(dataset, embedder)}"
    if folder.exists() and (rebuild or not (folder / _IDS_FILE).exists()):  # no ids: it was deleted only in part
        shutil.rmtree(folder)
    if not folder.exists():
        make_folder(folder.parent, private=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
        try:
            _build_index(dataset, embedder, unfinished, progress)
            if not folder.exists():  # another process may have been faster
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    cached_reranker = CachedReranker(reranker, folder / _SCORES_FILE) if reranker else None
    memory = _open(folder, embedder, cached_reranker)
    memory_ids = json.loads((folder / _IDS_FILE).read_text("utf-8"))
    return IndexedDataset(memory, dataset.documents, memory_ids, cached_reranker)


def _build_index(dataset: Dataset, embedder: Embedder | None, folder: Path, progress: Progress | None) -> None:
    with _open(folder, embedder) as memory:
        memory_ids = _add_documents(memory, dataset.documents, progress)
        if embedder is not None:
            memory.reembed()  # what the model failed on; a second failure is an error
    (folder / _IDS_FILE).write_text(json.dumps(memory_ids), "utf-8")


def _open(folder: Path, embedder: Embedder | None, reranker: CachedReranker | None = None) -> Memorist:
    return open_memory(
        folder / _DATABASE_FILE,
        embedder=embedder or "none",
        synchronous="normal",
        on_near_duplicate="off",
        reranker=reranker,
    )


def _add_documents(memory: Memorist, documents: Sequence[CorpusDocument], progress: Progress | None) -> list[str]:
    """Add the documents and their sessions; return the id of each document's memory."""
    sessions = dict.fromkeys((id, document.scope) for document in documents if (id := _session_id(document)))
    for id, scope in sessions:
        memory.sessions.start(scope, id=id)
    return memory.add_many(_memory_fields(documents), progress=progress)


def _memory_fields(documents: Sequence[CorpusDocument]) -> Iterator[dict[str, Any]]:
    """Yield each document as arguments of `Memorist.add`."""
    for document, created_at in zip(documents, assign_times(documents), strict=True):
        yield dict(
            content=document.text,
            title=document.title,
            project=document.scope,
            session=_session_id(document),
            created_at=created_at,
            metadata={**document.metadata, "_id": document.id},
        )


def _session_id(document: CorpusDocument) -> str | None:
    session = document.metadata.get("session")
    if session is None:
        return None
    return str(session) if document.scope is None else f"{document.scope}/{session}"


def _cache_key(dataset: Dataset, embedder: Embedder | None) -> str:
    """Hash all that a database depends on: the documents, the model, and the texts that the model embeds."""
    parts = [_INDEX_FORMAT, fingerprint(dataset.documents)]
    if embedder is not None:
        parts += [embedder.model_id, _embedded_texts(dataset.documents[:_MAX_PROBED_DOCUMENTS], embedder)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _embedded_texts(documents: Sequence[CorpusDocument], embedder: Embedder) -> list[str]:
    """Return the texts that would be embedded for some documents, without running the model."""
    recorder = _RecordingEmbedder(embedder)
    with closing(open_memory(":memory:", embedder=recorder, on_near_duplicate="off")) as memory:
        _add_documents(memory, documents, None)
    return recorder.texts


class _RecordingEmbedder:
    """A stand-in for a model that records the texts it is asked to embed."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return np.ones((len(texts), self.dimensions), np.float32)
