"""Writing: memories added, changed, confirmed, forgotten, restored and erased."""

import builtins
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, TypeVar, Unpack, cast

from msgspec.structs import replace

from memorist import validation
from memorist.arguments import MAX_PAGE, Filters, MemoryChanges, MemoryId, MemoryItem, NewMemory, Share, Time, Version
from memorist.contract import names_unknown, operation
from memorist.engine.links import Linking
from memorist.errors import Ambiguous, InvalidInput, MemoristError, NotFound
from memorist.ingest.redaction import Redaction
from memorist.ingest.vectorizer import BATCH, Progress
from memorist.records import NEAR_ACTIONS, TURN, Memory, MemoryDraft, Reinforcement, check_version
from memorist.schemas import Meta
from memorist.store.records import AddedBatch, Check

_REINFORCEMENT = 0.1  # of a memory that is added once more
_MAX_BATCH = 8192  # memories that are added in one transaction
_QUICK_BATCH, _SLOW_BATCH = 0.5, 4.0  # seconds
_REMOTE_BATCH = 200  # memories that are added by one request to a server
# The numbers of items in a refusal: the first, and how many came before it.
_NUMBERS = re.compile(r"(?<=^item )\d+(?= cannot be added: )|(?<=The )\d+(?= before it were added$)")
_REFUSALS = (InvalidInput, NotFound, Ambiguous)

T = TypeVar("T")


class Writing(Linking):
    """Writes memories, and has them embedded."""

    @operation("POST /memories", status=201, one_project=True)
    def add(
        self, content: Annotated[str, Meta("What to remember", min_length=1)], **fields: Unpack[NewMemory]
    ) -> Memory:
        """
        Remember a text. When this returns, it is safe on disk and can be found by its words, and by its meaning too
        unless the model failed. The same text again in the same project reinforces the memory that is there. With a
        `session` and without a `project`, it gets the project of the session.

        With an `id`, the id decides: where a memory has it already, these fields replace its own and its history keeps
        them ("update"); AlreadyExists is raised ("error"); or it stays as it is ("keep"). From `expires_at` on, nothing
        finds the memory any more, and one of the next writes erases it.

        Where an older memory says almost the same, `memory.near` tells which. With `on_near_duplicate="merge"`
        the new one supersedes it; with "off" this is not checked.
        """
        wanted = fields.pop("on_near_duplicate", None)
        action = validation.choice(wanted or self._resources.on_near_duplicate, NEAR_ACTIONS, "on_near_duplicate")
        draft = self._redact(validation.draft({"content": content, **fields}, datetime.now(UTC)))
        ready = self._resources.vectorizer.embed_early([draft])
        result = self._store.add(draft, self._reinforcement, ready, self._resources.restriction)
        degraded = self._resources.embed(result.pending)
        memory = self._resources.present(result.memory)
        if result.is_new and action != "off":
            memory = self._report_near_duplicate(memory, action)
        return replace(memory, degraded=degraded)

    @names_unknown
    def add_many(
        self, items: Iterable[str | Mapping[str, Any]], *, progress: Progress | None = None
    ) -> builtins.list[str]:
        """
        Remember many texts, or mappings with the fields of `add`; return their ids in order.
        They are committed in batches. An item that cannot be used stops it; the items before are kept, and adding them
        again does no harm.
        """
        if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
            raise InvalidInput("add_many takes a list of texts or mappings; `add` takes one")
        if self._remote is not None:
            return self._send_batches(items, progress)
        ids: builtins.list[str] = []
        remaining = (self._redact(_draft_item(item, number)) for number, item in enumerate(items, 1))
        error: Exception | None = None
        size = BATCH
        while error is None:
            started = time.monotonic()
            drafts, error = _read_some(remaining, size)
            if drafts:
                added, refusal = self._store_batch(drafts, len(ids))
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

    @operation("POST /memories:batch", status=201, answer="ids", called="add_many")
    def _add_batch(self, items: Annotated[Sequence[str | MemoryItem], Meta(max_items=MAX_PAGE)]) -> builtins.list[str]:
        """Remember many texts."""
        return self.add_many(items)

    def _send_batches(self, items: Iterable[str | Mapping[str, Any]], progress: Progress | None) -> builtins.list[str]:
        """Have a server add items, some with each request."""
        ids: builtins.list[str] = []
        remaining = iter(items)
        error: Exception | None = None
        while error is None:
            batch, error = _read_some(remaining, _REMOTE_BATCH)
            if batch:
                try:
                    ids += self._add_batch(cast("builtins.list[str | MemoryItem]", batch))
                except _REFUSALS as exc:
                    raise type(exc)(_renumber(str(exc), len(ids))) from exc
                if progress:
                    progress(len(ids))
            elif error is None:
                return ids
        raise error

    def _redact(self, draft: MemoryDraft) -> MemoryDraft:
        """Return a memory without secrets, as they are treated in it: a turn holds what a model wrote or was told."""
        return self._redaction_of(draft.kind).redact_draft(draft)

    def _redaction_of(self, kind: str | None) -> Redaction:
        return self._resources.model_redaction if kind == TURN else self._resources.redaction

    def _store_batch(self, drafts: builtins.list[MemoryDraft], before: int) -> tuple[AddedBatch, MemoristError | None]:
        """Store all drafts in one transaction; if one is refused, those before it, and return the refusal too."""
        try:
            ready = self._resources.vectorizer.embed_early(drafts)
            return self._store.add_many(drafts, self._reinforcement, ready, self._resources.restriction), None
        except _REFUSALS as exc:
            if len(drafts) == 1:
                return AddedBatch([], []), _refuse_item(before + 1, exc)
            middle = len(drafts) // 2
            first, refusal = self._store_batch(drafts[:middle], before)
            if refusal:
                return first, refusal
            second, refusal = self._store_batch(drafts[middle:], before + middle)
            return AddedBatch(first.ids + second.ids, first.pending + second.pending), refusal

    @property
    def _reinforcement(self) -> Reinforcement:
        return Reinforcement(_REINFORCEMENT, self._resources.decay)

    @operation("PATCH /memories/{id}", one_project=True, conditional=True, must_match=True)
    def update(
        self,
        id: MemoryId,
        /,
        *,
        session: Annotated[str | None, Meta("The session that changes it")] = None,
        if_version: Version | None = None,
        **changes: Unpack[MemoryChanges],
    ) -> Memory:
        """
        Change fields of a memory; its earlier version is kept in its history. None empties a field.

        With `if_version`, a memory whose `version` is another by now is not changed, and ChangedMeanwhile is raised.
        """
        return self._update(id, session, changes, check_version(if_version))

    def _update(self, id: str, session: str | None, changes: Mapping[str, Any], check: Check | None) -> Memory:
        """Change a memory, unless `check` raises for what it is by then; nobody else writes in between."""
        session = None if session is None else validation.session_id(session)
        new = validation.changes(changes)
        if self._resources.model_redaction.on:
            stored = self._store.require(validation.id_or_part(id))
            new = self._redaction_of(stored.kind).redact_changes(new, stored.metadata)
        memory, job = self._store.update(validation.id_or_part(id), new, datetime.now(UTC), session, check)
        degraded = self._resources.embed(job) if job else None
        return replace(self._resources.present(memory), degraded=degraded)

    @operation("DELETE /memories/{id}", one_project=True, conditional=True)
    def forget(self, id: MemoryId, *, hard: bool = False, if_version: Version | None = None) -> None:
        """
        Hide a memory from every search. It can be restored until it is purged; `hard` erases it at once.

        With `if_version`, a memory whose `version` is another by now stays, and ChangedMeanwhile is raised.
        """
        self._forget(id, hard, check_version(if_version))

    def _forget(self, id: str, hard: bool, check: Check | None) -> None:
        """Forget or erase a memory, unless `check` raises for what it is by then."""
        self._resources.recorder.flush()  # a recall written later would bring traces of it back
        if validation.flag(hard, "hard"):
            self._store.erase(validation.id_or_part(id), check)
        else:
            self._store.forget(validation.id_or_part(id), datetime.now(UTC), check)

    @operation("POST /memories:forget", one_project=True, slow=True)
    def forget_many(
        self,
        *,
        hard: Annotated[bool, Meta("Erase them at once")] = False,
        include_superseded: bool = True,
        **filters: Unpack[Filters],
    ) -> int:
        """Forget all memories that pass filters, at least one of which is needed; return how many."""
        given = {name: value for name, value in filters.items() if value is not None}
        if not given:
            raise InvalidInput("forget_many needs a filter, such as project or metadata; nothing was forgotten")
        if "as_of" in given:
            raise InvalidInput("forget_many forgets memories as they are now: leave as_of out")
        filter = self._resources.resolve_filter(given, include_superseded=include_superseded)
        if filter == self._resources.restriction:
            raise InvalidInput("forget_many needs a filter that leaves something out; nothing was forgotten")
        self._resources.recorder.flush()
        return self._store.forget_many(filter, datetime.now(UTC), hard=validation.flag(hard, "hard"))

    @operation("POST /memories/{id}/restore")
    def restore(self, id: MemoryId) -> Memory:
        """Bring a forgotten memory back."""
        self._resources.vectorizer.expect_backlog()
        return self._resources.present(self._store.restore(validation.id_or_part(id)))

    @operation("POST /memories:purge", slow=True)
    def purge(self, *, before: Annotated[Time | None, Meta("Only what was forgotten before this time")] = None) -> int:
        """Erase forgotten memories from the file and from copies that migrations kept; return how many."""
        self._resources.recorder.trim()
        moment = validation.moment_or_none(before, "before")
        return self._store.purge(moment, copies=self._resources.owns_machine)

    @operation("POST /memories/{id}/reinforce")
    def reinforce(self, id: MemoryId, amount: Share = 0.1, *, session: str | None = None) -> Memory:
        """Confirm a memory: salience and the confidence of its facts rise by a share of what is missing to 1."""
        return self._change_strength(id, validation.number(amount, "amount", 0, 1), session)

    @operation("POST /memories/{id}/deemphasize")
    def deemphasize(self, id: MemoryId, amount: Share = 0.2) -> Memory:
        """Let a memory count for less: salience falls by a share of itself."""
        return self._change_strength(id, -validation.number(amount, "amount", 0, 1), None)

    @operation("POST /memories/{id}/pin")
    def pin(self, id: MemoryId) -> Memory:
        """Make a memory one of the few that always belong in context."""
        return self._set_pin(id, True)

    @operation("DELETE /memories/{id}/pin")
    def unpin(self, id: MemoryId) -> Memory:
        """Undo `pin`."""
        return self._set_pin(id, False)

    def _set_pin(self, id: str, pinned: bool) -> Memory:
        id = validation.id_or_part(id)
        try:
            return self._resources.present(self._store.strength.set_pinned(id, pinned, datetime.now(UTC)))
        except NotFound as exc:
            if chunk := self._resources.find_chunk(id):
                raise NotFound(
                    f"{id} is a chunk of {chunk.source}, and chunks cannot be pinned, as they change with their file: "
                    "add its text as a memory of its own, and pin that"
                ) from exc
            raise

    def _change_strength(self, id: str, share: float, session: str | None) -> Memory:
        id, session = validation.id_or_part(id), None if session is None else validation.session_id(session)
        decay = self._resources.decay
        memory = self._store.strength.adjust_salience(id, share, datetime.now(UTC), decay, session)
        return self._resources.present(memory)


def _read_some(items: Iterator[T], most: int) -> tuple[list[T], Exception | None]:
    """Return up to so many items, and the error that ended them early, which may be the caller's own."""
    some: list[T] = []
    try:
        for item in islice(items, most):
            some.append(item)
    except Exception as exc:
        return some, exc
    return some, None


def _renumber(refusal: str, before: int) -> str:
    """Return the refusal of an item of a batch, with its number among all items."""
    return _NUMBERS.sub(lambda number: str(int(number[0]) + before), refusal)


def _refuse_item(number: int, exc: MemoristError) -> MemoristError:
    message = f"item {number} cannot be added: {exc}. The {number - 1} before it were added"
    return type(exc)(message, hint=exc.hint)


def _draft_item(item: object, number: int) -> MemoryDraft:
    try:
        fields = {"content": item} if isinstance(item, str) else validation.mapping(item)
        return validation.draft(fields, datetime.now(UTC))
    except InvalidInput as exc:
        raise _refuse_item(number, exc) from exc
