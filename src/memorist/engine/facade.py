"""The whole interface of a memory. Every method is a line or two: the work is done by the components."""

import builtins
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, overload

from memorist.documents import ImportReport
from memorist.embed.base import Embedder
from memorist.engine.context import MIN_RELEVANCE, ContextBuilder, ContextScope
from memorist.engine.file_methods import FileMethods
from memorist.engine.files import AgentFiles, Documents
from memorist.engine.listing import Listing
from memorist.engine.recalls import Lenses, Recalls
from memorist.engine.relations import DUPLICATE_THRESHOLD, Relations
from memorist.engine.resources import Resources
from memorist.engine.search import Searcher
from memorist.engine.sessions import Sessions
from memorist.engine.transfer import Transfer
from memorist.engine.write import Writer
from memorist.ingest.vectorizer import Progress
from memorist.records import (
    FACETS,
    Fact,
    Feedback,
    Lens,
    Memories,
    Memory,
    Page,
    Recall,
    Related,
    Relation,
    Results,
    Session,
    SessionContext,
    Timeline,
    Version,
)
from memorist.reports import CheckReport, Stats
from memorist.validation import TimeLike

Names = str | Sequence[str]


class Memorist(FileMethods):
    """
    A memory: text in, found again by word and by meaning.

    Made by `memorist.open`. One object serves any number of threads; close it, or use it in a `with` block.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._searcher = Searcher(resources)
        self._listing = Listing(resources, self._searcher)
        self._relations = Relations(resources)
        self._writer = Writer(resources, self._relations)
        self._sessions = Sessions(resources)
        self._recalls = Recalls(resources)
        self._lenses = Lenses(resources)
        self._documents = Documents(resources)
        self._context = ContextBuilder(resources, self._searcher)
        self._files = AgentFiles(resources)
        self._transfer = Transfer(resources)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file, the model and every thread. Closing twice is fine."""
        self._resources.close()

    # Writing

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
        created_at: TimeLike | None = None,
        id: str | None = None,
        if_exists: str = "update",
        expires_at: TimeLike | None = None,
        near: str | None = None,
    ) -> Memory:
        """
        Remember a text. When this returns, it is safe on disk and can be found by its words, and by its meaning too
        unless the model failed. The same text again in the same project reinforces the memory that is there.

        With an `id`, the id decides: where a memory has it already, these fields replace its own and its history keeps
        them ("update"); AlreadyExists is raised ("error"); or it stays as it is ("keep"). From `expires_at` on, nothing
        finds the memory any more, and one of the next writes erases it.

        Where an older memory says almost the same, `memory.near` tells which. With `near="merge"` the new one
        supersedes it; with `near="off"` this is not checked.
        """
        fields = dict(
            content=content, project=project, session=session, sector=sector, tier=tier, kind=kind, tags=tags,
            salience=salience, source=source, title=title, summary=summary, metadata=metadata, facts=facts,
            created_at=created_at, id=id, if_exists=if_exists, expires_at=expires_at,
        )  # fmt: skip
        return self._writer.add(fields, near)

    def add_many(
        self, items: Iterable[str | Mapping[str, Any]], *, progress: Progress | None = None
    ) -> builtins.list[str]:
        """
        Remember many texts, or mappings with the fields of `add`; return their ids in order.
        They are committed in batches. An item that cannot be used stops it; the items before are kept, and adding them
        again does no harm.
        """
        return self._writer.add_many(items, progress)

    def update(self, id: str, /, *, session: str | None = None, **changes: Any) -> Memory:
        """Change fields of a memory; its earlier version is kept in its history. None empties a field."""
        return self._writer.update(id, session, changes)

    def forget(self, id: str, *, hard: bool = False) -> None:
        """Hide a memory from every search. It can be restored until it is purged; `hard` erases it at once."""
        self._writer.forget(id, hard=hard)

    def forget_many(self, /, *, hard: bool = False, include_superseded: bool = True, **filters: Any) -> int:
        """Forget all memories that pass filters, at least one of which is needed; return how many."""
        return self._writer.forget_many(filters, hard=hard, include_superseded=include_superseded)

    def restore(self, id: str) -> Memory:
        """Bring a forgotten memory back."""
        return self._writer.restore(id)

    def purge(self, *, before: TimeLike | None = None) -> int:
        """Erase forgotten memories from the file and from copies that migrations kept; return how many."""
        return self._writer.purge(before)

    # Finding

    def search(
        self,
        /,
        query: str,
        *,
        limit: int | None = None,
        offset: int = 0,
        mode: str = "hybrid",
        profile: str | None = None,
        project: Names | None = None,
        session: str | None = None,
        sector: Names | None = None,
        tier: Names | None = None,
        kind: Names | None = None,
        tags: Names | None = None,
        source: Names | None = None,
        fact_kind: Names | None = None,
        month: Names | None = None,
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        as_of: TimeLike | None = None,
        metadata: Mapping[str, Any] | None = None,
        now: TimeLike | None = None,
        pinned: bool | None = None,
        recalled: bool | None = None,
        min_salience: float | None = None,
        include_global: bool | None = None,
        include_superseded: bool = False,
        include_facts: bool = True,
        include_documents: bool = False,
        lens: str | None = None,
        detail: str = "full",
        record: str | None = None,
        record_session: str | None = None,
        facets: Sequence[str] = (),
        explain: bool = False,
        **options: Any,
    ) -> Results:
        """
        Find memories by word and by meaning, best first.

        Filters hold within both legs, so a page is full whenever enough memories pass. "Last week" in a query counts
        from `now`. `options` replace those of the profile (`memorist.profiles.Profile`). `include_documents` searches
        indexed files as well. `offset` leaves out the first hits: pages with the same `limit` do not overlap.
        """
        filters = dict(
            project=project, session=session, sector=sector, tier=tier, kind=kind, tags=tags, source=source,
            fact_kind=fact_kind, month=month, since=since, until=until, as_of=as_of, pinned=pinned, recalled=recalled,
            min_salience=min_salience, include_global=include_global, metadata=metadata,
        )  # fmt: skip
        request = self._searcher.build_request(
            query, filters, {**options, "limit": limit, "record": record}, mode=mode, profile=profile, lens=lens,
            record_session=record_session, include_superseded=include_superseded, now=now, detail=detail,
            include_facts=include_facts, include_documents=include_documents, offset=offset,
        )  # fmt: skip
        return self._searcher.search(request, facets, explain)

    def search_documents(
        self,
        /,
        query: str,
        *,
        limit: int | None = None,
        mode: str = "hybrid",
        profile: str | None = None,
        project: Names | None = None,
        sector: Names | None = None,
        tags: Names | None = None,
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        grouped: bool = True,
        neighbours: int = 0,
        explain: bool = False,
        **options: Any,
    ) -> Results:
        """
        Find passages in indexed files by word and by meaning: the best of each file, or every one unless `grouped`.
        `neighbours` adds so many chunks before and after each passage; passages that then meet become one.
        """
        filters = dict(project=project, sector=sector, tags=tags, since=since, until=until)
        request = self._searcher.build_request(
            query, filters, {**options, "limit": limit, "record": "off"}, mode=mode, profile=profile,
            include_superseded=True,
        )  # fmt: skip
        return self._searcher.search_documents(request, grouped, neighbours, explain)

    def suggest(self, query: str) -> str | None:
        """Return the query with misspelt words corrected by those of the memories; None where all are known."""
        return self._searcher.suggest(query)

    def facets(
        self,
        /,
        query: str | None = None,
        fields: Sequence[str] = FACETS,
        *,
        include_superseded: bool = False,
        **filters: Any,
    ) -> Mapping[str, Mapping[str, int]]:
        """Count memories by the values of fields: all of them, or those that match words of a query."""
        return self._searcher.facets(query, fields, include_superseded=include_superseded, filters=filters)

    @overload
    def get(self, ids: str, *, as_of: TimeLike | None = None) -> Memory: ...
    @overload
    def get(self, ids: builtins.list[str] | tuple[str, ...], *, as_of: TimeLike | None = None) -> Memories: ...
    def get(
        self, ids: str | builtins.list[str] | tuple[str, ...], *, as_of: TimeLike | None = None
    ) -> Memory | Memories:
        """
        Return one memory by its id, or several in the order asked, naming those not found; `as_of` as they were.
        The id of a chunk of an indexed file gets that chunk.
        """
        return self._listing.get(ids, as_of)

    def list(
        self,
        /,
        *,
        limit: int = 50,
        cursor: str | None = None,
        deleted: bool = False,
        detail: str = "full",
        include_superseded: bool = True,
        **filters: Any,
    ) -> Page:
        """
        List memories, newest first, page by page; takes the filters of `search`. `deleted` lists the forgotten ones.
        Superseded memories are listed, too, marked by `valid_until` and `superseded_by`.
        """
        filter = self._resources.resolve_filter(filters, include_superseded=include_superseded)
        return self._listing.list_memories(limit, cursor, deleted, detail, filter)

    def count(self, /, *, deleted: bool = False, include_superseded: bool = True, **filters: Any) -> int:
        """Count memories; takes the filters of `search`. `deleted` counts the forgotten ones."""
        filter = self._resources.resolve_filter(filters, include_superseded=include_superseded)
        return self._listing.count(filter, deleted)

    def history(self, id: str) -> builtins.list[Version]:
        """Return the versions of a memory before its updates, latest first."""
        return self._listing.history(id)

    def timeline(
        self,
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        anchor: str | None = None,
        before: int = 5,
        after: int = 5,
        query: str | None = None,
        project: Names | None = None,
        as_of: TimeLike | None = None,
        limit: int = 1000,
        detail: str = "index",
    ) -> Timeline:
        """
        List memories in the order they happened: between two times, around an `anchor`, or a query's best match.

        `end` is included to its last moment: `end="2026-03"` takes in all of March. Around a memory, the nearest on
        both sides come from its own project, unless another is asked for.
        """
        return self._listing.timeline(
            start=start, end=end, anchor=anchor, before=before, after=after, query=query, project=project, as_of=as_of,
            limit=limit, detail=detail,
        )  # fmt: skip

    def related(self, id: str, limit: int = 10, *, as_of: TimeLike | None = None) -> builtins.list[Related]:
        """Return the memories linked with one, the surest first, then the most similar; superseded ones left out."""
        return self._relations.related(id, limit, as_of)

    def duplicates(
        self, /, *, threshold: float = DUPLICATE_THRESHOLD, progress: Progress | None = None, **filters: Any
    ) -> builtins.list[tuple[Memory, ...]]:
        """Return groups of memories of one project that say almost the same, oldest first; filters as in `list`."""
        return self._relations.duplicates(threshold, progress, filters)

    def merge(self, keep: str, others: Sequence[str]) -> Memory:
        """Let one memory supersede others that say the same, taking over tags, facts and pins; can be undone."""
        return self._relations.merge(keep, others)

    # Context for a language model

    def context(
        self,
        message: str,
        *,
        budget: int = 2000,
        limit: int = 5,
        min_relevance: float = MIN_RELEVANCE,
        project: str | None = None,
        session: str | None = None,
        include_global: bool = True,
        core: bool = True,
        documents: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """
        Return what is remembered about a message, as a `<relevant-context>` block of at most `budget` tokens, or "".

        Pinned memories come first (`core`), then at most `limit` others, none below `min_relevance`. With a `project`,
        only its memories and, with `include_global`, those of no project or of the tier global. Turns of the `session`
        under way are left out: they are known there. `metadata` filters all of it, as in `search`.
        """
        scope = ContextScope.check(budget, core, project, include_global, metadata)
        return self._context.context(message, scope, limit, min_relevance, session, documents)

    def briefing(
        self,
        *,
        budget: int = 2000,
        recent: int = 10,
        project: str | None = None,
        include_global: bool = True,
        core: bool = True,
    ) -> str:
        """Return pinned memories, the `recent` ones and the latest conversations as a block like `context`, or ""."""
        return self._context.briefing(ContextScope.check(budget, core, project, include_global), recent=recent)

    # Sessions and conversations

    def start_session(
        self, project: str | None = None, *, id: str | None = None, summary: str | None = None
    ) -> Session:
        """Start a session; give its id to `add(session=...)` and `search(record_session=...)`."""
        return self._sessions.start(project, id, summary)

    def end_session(self, id: str, summary: str | None = None) -> Session:
        """End a session; nothing can be added to it any more."""
        return self._sessions.end(id, summary)

    def summarise_session(self, id: str, summary: str | None) -> Session:
        """Set the summary of a session, also after it has ended."""
        return self._sessions.summarise(id, summary)

    def forget_session(self, id: str, *, hard: bool = False) -> Session:
        """Hide a session with the memories made in it, until it is purged; `hard` erases them at once."""
        return self._sessions.forget(id, hard=hard)

    def restore_session(self, id: str) -> Session:
        """Bring a forgotten session back, with the memories that were forgotten with it."""
        return self._sessions.restore(id)

    def session(self, id: str) -> Session:
        """Return one session, by its id or a unique part of it."""
        return self._sessions.get(id)

    def sessions(
        self, *, project: str | None = None, active: bool | None = None, deleted: bool = False, limit: int = 50
    ) -> builtins.list[Session]:
        """List sessions, the latest first; `active` chooses those that have not, or have, ended."""
        return self._sessions.list_sessions(project, active, limit, deleted=deleted)

    def session_context(self, memory_id: str) -> SessionContext | None:
        """Return the session that used a memory last, and how; None where no session did."""
        return self._sessions.context_of(memory_id)

    def add_turn(
        self,
        role: str,
        text: str,
        *,
        conversation: str,
        project: str | None = None,
        id: str | None = None,
        redact: bool = True,
        allow: Sequence[str] = (),
    ) -> Memory:
        """
        Remember a turn of a conversation that goes on. The session `chat:CONVERSATION` starts with its first turn, is
        named after it, and lasts until its latest. A turn with an `id` is stored once.

        Secrets are redacted before anything is stored, unless `redact` is False; `allow` lists exceptions.
        """
        redaction = self._resources.choose_redaction(redact, allow)
        return self._sessions.add_turn(role, text, conversation, project, id, redaction)

    def import_conversations(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        project: str | None = None,
        tools: bool = False,
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> ImportReport:
        """
        Import a file of conversations, or every such file of a folder: sessions of Claude Code, exports of ChatGPT and
        Claude.ai, lists of messages, JSONL. Each conversation becomes a session, each turn a memory. What is there
        already, or was forgotten, stays as it is.

        Calls and results of tools are left out unless `tools`. Secrets are redacted before anything is stored, unless
        `redact` is False; `allow` lists exceptions. `progress` is told how many turns are done.
        """
        options = self._transfer.check_options(format, project, tools, redact, allow)
        return self._transfer.import_conversations(path, options, progress)

    # Supersession, links, facts and strength

    def supersede(self, old: str, new: str, *, at: TimeLike | None = None, said_by: str | None = None) -> Memory:
        """
        Let a memory replace another, which is left out of search from then on: from now or, where the new one is dated
        back, from the time it tells of; `at` names another time.
        """
        return self._relations.supersede(old, new, at, said_by)

    def unsupersede(self, old: str) -> Memory:
        """Undo `supersede`: the memory holds again from now on."""
        return self._relations.unsupersede(old)

    def replaced(self, id: str) -> builtins.list[Memory]:
        """Return the memories that one has superseded, the earliest first."""
        return self._relations.replaced(id)

    def relate(self, a: str, b: str, kind: str, *, confidence: float = 1.0, said_by: str | None = None) -> Relation:
        """Link two memories: `a` `kind` `b`. Linking them again sets the confidence anew."""
        return self._relations.relate(a, b, kind, confidence, said_by)

    def unrelate(self, a: str, b: str, kind: str) -> None:
        """Remove a link, from now on."""
        self._relations.unrelate(a, b, kind)

    def add_fact(
        self,
        id: str,
        text: str,
        *,
        kind: str | None = None,
        confidence: float | None = None,
        decay_rate: float | None = None,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
    ) -> Fact:
        """Attach a fact to a memory, with its confidence. The memory is found by the words of its facts, too."""
        fields = dict(
            text=text, kind=kind, confidence=confidence, decay_rate=decay_rate, subject=subject, predicate=predicate,
            object=object,
        )  # fmt: skip
        return self._writer.add_fact(id, fields)

    def remove_fact(self, id: str) -> Fact:
        """Remove a fact from its memory, with its history."""
        return self._writer.remove_fact(id)

    def reinforce_fact(self, id: str, amount: float = 0.1) -> Fact:
        """Confirm a fact: its present confidence rises by a share of what is missing to 1."""
        return self._writer.reinforce_fact(id, amount)

    def reinforce(self, id: str, amount: float = 0.1, *, session: str | None = None) -> Memory:
        """Confirm a memory: salience and the confidence of its facts rise by a share of what is missing to 1."""
        return self._writer.reinforce(id, amount, session)

    def deemphasize(self, id: str, amount: float = 0.2) -> Memory:
        """Let a memory count for less: salience falls by a share of itself."""
        return self._writer.deemphasize(id, amount)

    def pin(self, id: str) -> Memory:
        """Make a memory one of the few that always belong in context."""
        return self._writer.set_pin(id, True)

    def unpin(self, id: str) -> Memory:
        """Undo `pin`."""
        return self._writer.set_pin(id, False)

    # Recalls, feedback and lenses

    def recalls(
        self, *, memory: str | None = None, session: str | None = None, since: TimeLike | None = None, limit: int = 50
    ) -> builtins.list[Recall]:
        """List recorded searches and what they found, the latest first."""
        return self._recalls.list_recalls(memory, session, since, limit)

    def clear_recalls(self, *, before: TimeLike | None = None) -> int:
        """Delete recorded searches, all or those before a time; what they reinforced stays so. Return how many."""
        return self._recalls.clear(before)

    @property
    def recalls_lost(self) -> int:
        """The number of recalls that could not be recorded; their searches were answered all the same."""
        return self._resources.recorder.lost

    def feedback(self, id: str, good: bool, *, query: str | None = None) -> Feedback:
        """
        Record whether a memory was a good answer: to `query`, or else to the last recorded search that found it. It
        changes no ranking; `memorist eval --from-recalls` measures by it.
        """
        return self._recalls.add_feedback(id, good, query)

    def feedbacks(self, *, memory: str | None = None, limit: int = 1000) -> builtins.list[Feedback]:
        """List feedback, the latest first."""
        return self._recalls.list_feedback(memory, limit)

    def lenses(self) -> builtins.list[Lens]:
        """List the lenses, by name."""
        return self._lenses.list_lenses()

    def lens(self, name: str) -> Lens:
        """Return a lens by its name."""
        return self._resources.find_lens(name)

    def set_lens(
        self,
        /,
        name: str,
        *,
        boosts: Mapping[str, Mapping[str, float]] | None = None,
        recency: Mapping[str, Any] | None = None,
        profile: str | None = None,
        **filters: Any,
    ) -> Lens:
        """
        Save a view under a name: filters (those of `search`), a profile, and boosts: factors by field (sector, kind,
        tag, source) and value, as {"tag": {"decision": 1.5}}.
        """
        return self._lenses.set(name, boosts, recency, profile, filters)

    def remove_lens(self, name: str) -> None:
        """Remove a lens; memories stay as they are."""
        self._lenses.remove(name)

    # Maintenance

    def stats(self) -> Stats:
        """Count what there is, and tell which model's vectors are in use."""
        return self._resources.stats()

    def check(self, repair: bool = False) -> CheckReport:
        """Compare every text with its hash, and every index and vector with the text; `repair` makes those again."""
        return self._resources.check(repair)

    def reembed(
        self, embedder: str | Embedder | None = None, progress: Progress | None = None, *, prune: bool = False
    ) -> int:
        """
        Make the missing vectors of the active model, or of another one, which becomes the active one; return how many.

        Stopped at any point, it goes on from there the next time. Vectors of other models stay for those who still use
        them, unless `prune` removes them at the end.
        """
        return self._resources.reembed(embedder, progress, prune=prune)
