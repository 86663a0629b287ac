"""Writing: memories added, changed, confirmed, forgotten, restored and erased, and their facts."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from memorist import validation
from memorist.engine.relations import Relations
from memorist.engine.resources import Resources
from memorist.errors import Ambiguous, InvalidInput, MemoristError, NotFound
from memorist.ingest.redaction import Redaction
from memorist.ingest.vectorizer import BATCH
from memorist.records import NEAR_ACTIONS, TURN, Fact, Memory, MemoryDraft, Reinforcement
from memorist.search.signals import with_effective_confidence
from memorist.store.records import AddedBatch, Check
from memorist.validation import TimeLike

_REINFORCEMENT = 0.1  # of a memory that is added once more
_MAX_BATCH = 8192  # memories that are added in one transaction
_QUICK_BATCH, _SLOW_BATCH = 0.5, 4.0  # seconds
_REFUSALS = (InvalidInput, NotFound, Ambiguous)


class Writer:
    """Writes memories, and has them embedded."""

    def __init__(self, resources: Resources, relations: Relations) -> None:
        self._resources = resources
        self._store = resources.store
        self._relations = relations

    def add(self, fields: Mapping[str, Any], near: str | None) -> Memory:
        action = self._resources.near if near is None else validation.choice(near, NEAR_ACTIONS, "near")
        draft = self._redact(validation.draft(fields, datetime.now(UTC)))
        ready = self._resources.vectorizer.embed_early([draft])
        result = self._store.add(draft, self._reinforcement, ready, self._resources.wall)
        degraded = self._resources.embed(result.pending)
        memory = self._resources.present(result.memory)
        if result.is_new and action != "off":
            memory = self._relations.report_near_duplicate(memory, action)
        return replace(memory, degraded=degraded)

    def add_many(self, items: Iterable[str | Mapping[str, Any]], progress: Callable[[int], None] | None) -> list[str]:
        if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
            raise InvalidInput("add_many takes a list of texts or mappings; `add` takes one")
        ids: list[str] = []
        remaining = iter(items)
        error: Exception | None = None
        size = BATCH
        while error is None:
            started = time.monotonic()
            drafts: list[MemoryDraft] = []
            try:
                for item in islice(remaining, size):
                    drafts.append(self._redact(_draft_item(item, len(ids) + len(drafts) + 1)))
            except Exception as exc:  # the caller's own too, if reading the items raises it
                error = exc
            if drafts:
                added, refusal = self._add_batch(drafts, len(ids))
                error = refusal or error
                self._resources.embed(*added.pending, promptly=False)
                ids += added.ids
                if progress:
                    progress(len(ids))
            elif error is None:
                return ids
            # Where a batch takes little time, more at once costs less of it.
            took = time.monotonic() - started
            if took < _QUICK_BATCH:
                size = min(4 * size, _MAX_BATCH)
            elif took > _SLOW_BATCH:
                size = max(size // 4, BATCH)
        raise error

    def _redact(self, draft: MemoryDraft) -> MemoryDraft:
        """Return a memory without secrets, as they are treated in it: a turn holds what a model wrote or was told."""
        return self._redaction_of(draft.kind).redact_draft(draft)

    def _redaction_of(self, kind: str | None) -> Redaction:
        return self._resources.model_redaction if kind == TURN else self._resources.redaction

    def _add_batch(self, drafts: list[MemoryDraft], before: int) -> tuple[AddedBatch, MemoristError | None]:
        """Store all drafts in one transaction; if one is refused, those before it, and return the refusal too."""
        try:
            ready = self._resources.vectorizer.embed_early(drafts)
            return self._store.add_many(drafts, self._reinforcement, ready, self._resources.wall), None
        except _REFUSALS as exc:
            if len(drafts) == 1:
                return AddedBatch([], []), _refuse_item(before + 1, exc)
            middle = len(drafts) // 2
            first, refusal = self._add_batch(drafts[:middle], before)
            if refusal:
                return first, refusal
            second, refusal = self._add_batch(drafts[middle:], before + middle)
            return AddedBatch(first.ids + second.ids, first.pending + second.pending), refusal

    @property
    def _reinforcement(self) -> Reinforcement:
        return Reinforcement(_REINFORCEMENT, self._resources.decay)

    def update(
        self,
        id: str,
        session: str | None,
        changes: Mapping[str, Any],
        check: Check | None = None,
    ) -> Memory:
        """Change a memory, unless `check` raises for what it is by then; nobody else writes in between."""
        session = None if session is None else validation.session_id(session)
        new = validation.changes(changes)
        if self._resources.model_redaction.on:
            stored = self._store.require(validation.id_or_part(id))
            new = self._redaction_of(stored.kind).redact_changes(new, stored.metadata)
        memory, job = self._store.update(validation.id_or_part(id), new, datetime.now(UTC), session, check)
        degraded = self._resources.embed(job) if job else None
        return replace(self._resources.present(memory), degraded=degraded)

    def forget(self, id: str, *, hard: bool, check: Check | None = None) -> None:
        """Forget or erase a memory, unless `check` raises for what it is by then."""
        self._resources.recorder.flush()  # a recall written later would bring traces of it back
        if hard:
            self._store.erase(validation.id_or_part(id), check)
        else:
            self._store.forget(validation.id_or_part(id), datetime.now(UTC), check)

    def forget_many(self, filters: Mapping[str, Any], *, hard: bool, include_superseded: bool) -> int:
        given = {name: value for name, value in filters.items() if value is not None}
        if not given:
            raise InvalidInput("forget_many needs a filter, such as project or metadata; nothing was forgotten")
        if "as_of" in given:
            raise InvalidInput("forget_many forgets memories as they are now: leave as_of out")
        filter = self._resources.resolve_filter(given, include_superseded=include_superseded)
        if filter == self._resources.wall:
            raise InvalidInput("forget_many needs a filter that leaves something out; nothing was forgotten")
        self._resources.recorder.flush()
        hard, now, count = validation.flag(hard, "hard"), datetime.now(UTC), 0
        while done := self._store.forget_some(filter, now, hard=hard):
            count += done
        return count

    def restore(self, id: str) -> Memory:
        self._resources.vectorizer.expect_backlog()
        return self._resources.present(self._store.restore(validation.id_or_part(id)))

    def purge(self, before: TimeLike | None, *, copies: bool = True) -> int:
        self._resources.recorder.trim()
        return self._store.purge(validation.moment_or_none(before, "before"), copies=copies)

    def add_fact(self, id: str, fields: Mapping[str, Any]) -> Fact:
        draft = self._resources.model_redaction.redact_fact(validation.fact(fields))
        return self._present_fact(self._store.strength.add_fact(validation.id_or_part(id), draft, datetime.now(UTC)))

    def remove_fact(self, id: str) -> Fact:
        return self._present_fact(self._store.strength.remove_fact(validation.id_or_part(id)))

    def reinforce_fact(self, id: str, amount: float) -> Fact:
        share = validation.number(amount, "amount", 0, 1)
        rates = self._resources.profile.fact_decay
        fact = self._store.strength.reinforce_fact(validation.id_or_part(id), share, datetime.now(UTC), rates)
        return self._present_fact(fact)

    def reinforce(self, id: str, amount: float, session: str | None) -> Memory:
        return self._change_strength(id, validation.number(amount, "amount", 0, 1), session)

    def deemphasize(self, id: str, amount: float) -> Memory:
        return self._change_strength(id, -validation.number(amount, "amount", 0, 1), None)

    def set_pin(self, id: str, pinned: bool) -> Memory:
        id = validation.id_or_part(id)
        return self._resources.present(self._store.strength.set_pinned(id, pinned, datetime.now(UTC)))

    def _change_strength(self, id: str, share: float, session: str | None) -> Memory:
        id, session = validation.id_or_part(id), None if session is None else validation.session_id(session)
        decay = self._resources.decay
        memory = self._store.strength.adjust_salience(id, share, datetime.now(UTC), decay, session)
        return self._resources.present(memory)

    def _present_fact(self, fact: Fact) -> Fact:
        return with_effective_confidence([fact], self._resources.profile.fact_decay, datetime.now(UTC))[0]


def _refuse_item(number: int, exc: MemoristError) -> MemoristError:
    message = f"item {number} cannot be added: {exc}. The {number - 1} before it were added"
    return type(exc)(message, hint=exc.hint)


def _draft_item(item: object, number: int) -> MemoryDraft:
    try:
        fields = {"content": item} if isinstance(item, str) else validation.mapping(item)
        return validation.draft(fields, datetime.now(UTC))
    except InvalidInput as exc:
        raise _refuse_item(number, exc) from exc
