"""Maintenance: figures, checks, and vectors of another model."""

from contextlib import suppress

from memorist.embed.base import Embedder
from memorist.engine.resources import Resources
from memorist.errors import EmbedderError
from memorist.ingest.vectorizer import Progress, offset_progress
from memorist.records import CheckReport, Stats


class Maintenance:
    """Keeps a database sound and its vectors complete."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    def stats(self) -> Stats:
        self._resources.recorder.settle()
        return self._store.stats(self._resources.model.name)

    def check(self, repair: bool) -> CheckReport:
        report = self._store.check(repair=repair)
        if repair and report.repaired and self._resources.model.embedder is not None:
            with suppress(EmbedderError):  # the texts wait; the next write or `reembed` tries again
                self._resources.vectorizer.embed_all()
                self._resources.file_vectorizer.embed_all()
        return report

    def reembed(self, embedder: str | Embedder | None, progress: Progress | None, *, prune: bool) -> int:
        if embedder is not None:
            self._resources.switch_embedder(embedder)
        done = self._resources.vectorizer.embed_all(progress)
        done += self._resources.file_vectorizer.embed_all(offset_progress(done, progress))
        if prune:
            for store in (self._store, self._store.documents.chunks):
                store.vectors.drop_others(self._resources.model.identify())
        return done
