"""Memories in: added, changed, forgotten and brought back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from memorist import validation
from memorist.embed.base import Embedder
from memorist.engine.core import Moment, close_model, given_id
from memorist.engine.likeness import Likeness
from memorist.errors import Ambiguous, EmbedderError, InvalidInput, MemoristError, NotFound
from memorist.ingest.vectorizer import BATCH, Vectorizer
from memorist.records import NEAR, CheckReport, Memory, MemoryDraft, Reinforcement, Stats, Version
from memorist.store.base import AddResult

REINFORCEMENT = 0.1
_REFUSALS = (InvalidInput, NotFound, Ambiguous)


class Writing(Likeness):
    """Everything that changes what is remembered, and what keeps it sound."""

    def add(
        self,
        content: str,
        *,
        project: str | None = None,
        session: str | None = None,
        sector: str | None = None,
        tier: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        salience: float | None = None,
        source: str | None = None,
        title: str | None = None,
        summary: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        facts: Sequence[str | Mapping[str, Any]] | None = None,
        created_at: Moment | None = None,
        id: str | None = None,
        near: str | None = None,
    ) -> Memory:
        """
        Remember something. It is safe on disk and found by its words when this returns, and by its meaning too
        unless the model failed. The same text again in the same project reinforces the memory that is there.

        Where an older memory says almost the same, `memory.near` tells which; with `near="merge"` the new one
        supersedes it, with `near="off"` nobody looks.
        """
        fields = dict(
            content=content, project=project, session=session, sector=sector, tier=tier, kind=kind, tags=tags,
            salience=salience, source=source, title=title, summary=summary, metadata=metadata, facts=facts,
            created_at=created_at, id=id,
        )  # fmt: skip
        way = self._near if near is None else validation.choice(near, NEAR, "near")
        draft = self._redaction.draft(validation.draft(fields, datetime.now(UTC)))
        (kept,) = self._store.add([draft], self._said_again)
        self._give_vectors([kept.pending] if kept.pending else [])
        memory = self._shown(kept.memory)
        return memory if kept.pending is None or way == "off" else self._with_near(memory, way)

    def add_many(
        self, items: Iterable[str | Mapping[str, Any]], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """
        Remember many things, each a text or a mapping with the fields of `add`; gives their ids in order.

        They are committed in batches. An item that cannot be used, or an error while the items are read, stops it; the
        items before are kept, and adding them again does no harm.
        """
        if isinstance(items, str | Mapping):
            raise InvalidInput("add_many takes a list of texts or mappings; `add` takes one")
        ids: list[str] = []
        remaining = iter(items)
        stopped: Exception | None = None
        while stopped is None:
            drafts: list[MemoryDraft] = []
            try:
                for item in islice(remaining, BATCH):
                    drafts.append(self._redaction.draft(_draft(item, len(ids) + len(drafts) + 1)))
            except Exception as exc:  # the caller's own too, if reading the items raises it
                stopped = exc
            if drafts:
                kept, clash = self._add_batch(drafts, len(ids))
                stopped = clash or stopped
                self._give_vectors([one.pending for one in kept if one.pending])
                ids += [one.memory.id for one in kept]
                if progress:
                    progress(len(ids))
            elif stopped is None:
                return ids
        raise stopped

    def _add_batch(self, drafts: list[MemoryDraft], before: int) -> tuple[list[AddResult], MemoristError | None]:
        """All drafts in one transaction; if one is refused, those before it, and the refusal naming it."""
        try:
            return self._store.add(drafts, self._said_again), None
        except _REFUSALS:
            kept: list[AddResult] = []
            for draft in drafts:
                try:
                    kept += self._store.add([draft], self._said_again)
                except _REFUSALS as exc:
                    return kept, _refusal(before + len(kept) + 1, exc)
            return kept, None

    @property
    def _said_again(self) -> Reinforcement:
        return Reinforcement(REINFORCEMENT, self._decay)

    def update(self, id: str, /, *, session: str | None = None, **changes: Any) -> Memory:
        """Change fields of a memory; what it said before is kept in its history. None empties a field."""
        place = None if session is None else validation.session_id(session)
        new = validation.changes(changes)
        if self._redaction.on:
            new = self._redaction.changes(new, self._store.require(given_id(id)).metadata)
        memory, pending = self._store.update(given_id(id), new, datetime.now(UTC), place)
        if pending:
            self._give_vectors([pending])
        return self._shown(memory)

    def forget(self, id: str, *, hard: bool = False) -> None:
        """Take a memory out of every search. It can be restored until it is purged; `hard` erases it at once."""
        self._recorder.flush()  # what is written later would come back
        if hard:
            self._store.erase([given_id(id)])
        else:
            self._store.forget(given_id(id), datetime.now(UTC))

    def restore(self, id: str) -> Memory:
        """Bring a forgotten memory back."""
        self._vectorizer.expect_backlog()
        return self._shown(self._store.restore(given_id(id)))

    def purge(self, *, before: Moment | None = None) -> int:
        """
        Erase forgotten memories for good, and rewrite the file so that nothing of them is left in it. Copies that were
        kept before a migration are removed too.
        """
        self._recorder.flush()
        return self._store.purge(validation.moment_or_none(before, "before"))

    def history(self, id: str) -> list[Version]:
        """What a memory said before its updates, latest first."""
        return self._store.list_versions(given_id(id))

    # Looking after it

    def stats(self) -> Stats:
        """How much there is, of what, and which model's vectors are compared."""
        self._recorder.settle()
        return self._store.stats(self._vectorizer.model_name)

    def check(self, repair: bool = False) -> CheckReport:
        """Compare every index and vector with the text; with `repair`, make anew what does not agree."""
        report = self._store.check(repair=repair)
        if repair and report.repaired and self._vectorizer.embedder is not None:
            with suppress(EmbedderError):  # the texts wait; the next write or `reembed` tries again
                self._vectorizer.give_all()
                self._file_vectorizer.give_all()
        return report

    def reembed(
        self,
        embedder: str | Embedder | None = None,
        progress: Callable[[int], None] | None = None,
        *,
        prune: bool = False,
    ) -> int:
        """
        Make the missing vectors of the active model, or of another one, which is then the active one.

        Stopped at any point, it goes on from there the next time. Vectors of other models stay, and serve whoever
        still uses those models, unless `prune` removes them at the end.
        """
        if embedder is not None:
            new, old = self._named_embedder(embedder), self._own_model
            self._own_model = new if new is not embedder else None
            self._vectorizer = Vectorizer(self._store, new)
            self._file_vectorizer = Vectorizer(self._store.documents.chunks, new, parts=False)
            close_model(old)
        done = self._vectorizer.give_all(progress)
        done += self._file_vectorizer.give_all(None if progress is None else lambda more: progress(done + more))
        if prune:
            for store in (self._store, self._store.documents.chunks):
                store.drop_other_vectors(self._vectorizer.model())
        return done


def _refusal(number: int, exc: MemoristError) -> MemoristError:
    return type(exc)(f"item {number} cannot be added: {exc}. The {number - 1} before it were kept")


def _draft(item: object, number: int) -> MemoryDraft:
    try:
        return validation.draft(
            {"content": item} if isinstance(item, str) else validation.mapping(item), datetime.now(UTC)
        )
    except InvalidInput as exc:
        raise _refusal(number, exc) from exc
