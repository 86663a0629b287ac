"""
A memory on a server: the interface of `memorist.open`, over HTTP.

Times in words, such as "yesterday", are understood by the server, in its time zone. Paths of indexed files are those of
the server's machine; what would read or write its files is done there, and raises an error here.
"""

import builtins
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self, overload

from memorist.documents import DiscoveredSource, Document, File, ImportReport, IndexReport
from memorist.errors import InvalidInput, MemoristError, NotFound
from memorist.present.codec import decode
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
    Timeline,
    Version,
)
from memorist.reports import CheckReport, Stats
from memorist.validation import TimeLike
from memorist.views import DocumentPage, RecallPage
from memorist.web.answers import Block, Count, Forgotten, Ids, StatsAnswer, Suggestion
from memorist.web.problems import ChangedMeanwhile
from memorist.web.remote_calls import PAGE, as_json, as_text, drop_none, open_export, open_import, refuse
from memorist.web.remote_sessions import RemoteSessions
from memorist.web.remote_views import RemoteViews
from memorist.web.transport import Transport, multipart, path_of

Names = str | Sequence[str]
Progress = Callable[[int], None]

_BATCH = 200  # memories that are added by one request
_FILE_CHUNK = 256 << 10
_MAX_EDITS = 10  # attempts at a file that others change at the same time


def connect(url: str, *, token: str | None = None, namespace: str | None = None, timeout: float = 60.0) -> "Remote":
    """
    Connect to the memory that `memorist serve` offers at an address.

    The `token` is printed by `memorist token`, or is the server's `http_token`. A `namespace` other than that of
    the token or the server can be chosen with the latter alone. Nothing is sent before the first call.
    """
    return Remote(Transport(url, token, namespace, timeout))


class Remote(RemoteSessions):
    """
    A memory on a server, with the methods of `Memorist`.

    Made by `memorist.connect`. One object serves any number of threads; close it, or use it in a `with` block.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Closing twice is fine."""
        self._transport.close()

    @property
    def views(self) -> RemoteViews:
        """Calls that the page of the server makes, and `Memorist` does not have."""
        return RemoteViews(self._transport)

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
        """Remember a text; see `Memorist.add`."""
        return self._post(
            Memory, "memories", content=content, project=project, session=session, sector=sector, tier=tier, kind=kind,
            tags=tags, salience=salience, source=source, title=title, summary=summary, metadata=metadata, facts=facts,
            created_at=created_at, id=id, if_exists=if_exists, expires_at=expires_at, near=near,
        )  # fmt: skip

    def add_many(
        self, items: Iterable[str | Mapping[str, Any]], *, progress: Progress | None = None
    ) -> builtins.list[str]:
        """Remember many texts, or mappings with the fields of `add`; return their ids in order."""
        if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
            raise InvalidInput("add_many takes a list of texts or mappings; `add` takes one")
        ids: builtins.list[str] = []
        remaining = iter(items)
        while batch := [drop_none(item) for item in islice(remaining, _BATCH)]:
            ids += self._post(Ids, "memories:batch", items=batch).ids
            if progress:
                progress(len(ids))
        return ids

    def update(self, id: str, /, *, session: str | None = None, **changes: Any) -> Memory:
        """Change fields of a memory; its earlier version is kept in its history. None empties a field."""
        body = {name: as_json(value) for name, value in changes.items()}
        body |= {} if session is None else {"session": session}
        answer = self._transport.call("PATCH", path_of("memories", id), body=body, headers={"If-Match": "*"})
        memory: Memory = decode(Memory, answer)
        return memory

    def forget(self, id: str, *, hard: bool = False) -> None:
        """Hide a memory from every search. It can be restored until it is purged; `hard` erases it at once."""
        self._delete(Forgotten, "memories", id, hard=hard or None)

    def forget_many(self, /, *, hard: bool = False, include_superseded: bool = True, **filters: Any) -> int:
        """Forget all memories that pass filters, at least one of which is needed; return how many."""
        options = {"hard": hard, "include_superseded": include_superseded}
        return self._post(Count, "memories:forget", **options, **filters).count

    def restore(self, id: str) -> Memory:
        """Bring a forgotten memory back."""
        return self._post(Memory, "memories", id, "restore")

    def purge(self, *, before: TimeLike | None = None) -> int:
        """Erase forgotten memories from the database; return how many."""
        return self._post(Count, "memories:purge", before=before).count

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
        """Find memories by word and by meaning, best first; see `Memorist.search`."""
        return self._post(
            Results, "search", query=query, limit=limit, offset=offset, mode=mode, profile=profile, project=project,
            session=session, sector=sector, tier=tier, kind=kind, tags=tags, source=source, fact_kind=fact_kind,
            month=month, since=since, until=until, as_of=as_of, metadata=metadata, now=now, pinned=pinned,
            recalled=recalled, min_salience=min_salience, include_global=include_global, lens=lens, detail=detail,
            include_superseded=include_superseded, include_facts=include_facts, include_documents=include_documents,
            record=record, record_session=record_session, facets=list(facets), explain=explain,
            options=drop_none(options),
        )  # fmt: skip

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
        """Find passages in indexed files by word and by meaning; see `Memorist.search_documents`."""
        return self._post(
            Results, "documents:search", query=query, limit=limit, mode=mode, profile=profile, project=project,
            sector=sector, tags=tags, since=since, until=until, grouped=grouped, neighbours=neighbours, explain=explain,
            options=drop_none(options),
        )  # fmt: skip

    def suggest(self, query: str) -> str | None:
        """Return the query with misspelt words corrected by those of the memories; None where all are known."""
        return self._get(Suggestion, "suggest", query=query).suggestion

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
        options = {"fields": list(fields), "include_superseded": include_superseded, **filters}
        return self._post(dict[str, dict[str, int]], "facets", query=query, **options)

    @overload
    def get(self, ids: str, *, as_of: TimeLike | None = None) -> Memory: ...
    @overload
    def get(self, ids: builtins.list[str] | tuple[str, ...], *, as_of: TimeLike | None = None) -> Memories: ...
    def get(
        self, ids: str | builtins.list[str] | tuple[str, ...], *, as_of: TimeLike | None = None
    ) -> Memory | Memories:
        """Return one memory by its id, or several in the order asked, naming those not found; `as_of` as they were."""
        if isinstance(ids, str):
            memory: Memory = self._get(Memory, "memories", ids, as_of=as_of)
            return memory
        if not isinstance(ids, builtins.list | tuple):
            raise InvalidInput(f"get takes an id or a list of ids, not {type(ids).__name__}")
        found: builtins.list[Memory] = []
        missing: builtins.list[str] = []
        for start in range(0, len(ids), PAGE):
            some = self._post(Memories, "memories:get", ids=builtins.list(ids[start : start + PAGE]), as_of=as_of)
            found, missing = [*found, *some.memories], [*missing, *some.missing]
        return Memories(tuple(found), tuple(missing))

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
        """List memories, newest first, page by page; takes the filters of `search`."""
        memories: builtins.list[Memory] = []
        options = {"deleted": deleted, "detail": detail, "include_superseded": include_superseded, **filters}
        while True:
            page = self._get(Page, "memories", limit=min(limit - len(memories), PAGE), cursor=cursor, **options)
            memories, cursor = [*memories, *page.memories], page.cursor
            if cursor is None or len(memories) >= limit:
                return Page(tuple(memories), cursor)

    def count(self, /, *, deleted: bool = False, include_superseded: bool = True, **filters: Any) -> int:
        """Count memories; takes the filters of `search`. `deleted` counts the forgotten ones."""
        options = {"deleted": deleted, "include_superseded": include_superseded}
        return self._post(Count, "memories:count", **options, **filters).count

    def history(self, id: str) -> builtins.list[Version]:
        """Return the versions of a memory before its updates, latest first."""
        return self._get(builtins.list[Version], "memories", id, "history")

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
        """List memories in the order they happened: between two times, around an `anchor`, or a query's best match."""
        return self._get(
            Timeline, "timeline", start=start, end=end, anchor=anchor, before=before, after=after, query=query,
            project=project, as_of=as_of, limit=limit, detail=detail,
        )  # fmt: skip

    def related(self, id: str, limit: int = 10, *, as_of: TimeLike | None = None) -> builtins.list[Related]:
        """Return the memories linked with one, the surest first, then the most similar; superseded ones left out."""
        return self._get(builtins.list[Related], "memories", id, "related", limit=limit, as_of=as_of)

    def duplicates(
        self, /, *, threshold: float = 0.8, progress: Progress | None = None, **filters: Any
    ) -> builtins.list[tuple[Memory, ...]]:
        """Return groups of memories of one project that say almost the same, oldest first; filters as in `list`."""
        return self._get(builtins.list[tuple[Memory, ...]], "duplicates", threshold=threshold, **filters)

    def merge(self, keep: str, others: Sequence[str]) -> Memory:
        """Let one memory supersede others that say the same, taking over tags, facts and pins; can be undone."""
        return self._post(Memory, "memories", keep, "merge", others=builtins.list(others))

    # Context for a language model

    def context(
        self,
        message: str,
        *,
        budget: int = 2000,
        limit: int = 5,
        min_relevance: float = 0.15,
        project: str | None = None,
        session: str | None = None,
        include_global: bool = True,
        core: bool = True,
        documents: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Return what is remembered about a message, as a `<relevant-context>` block, or ""."""
        return self._post(
            Block, "context", message=message, budget=budget, limit=limit, min_relevance=min_relevance, project=project,
            session=session, include_global=include_global, core=core, documents=documents, metadata=metadata,
        ).context  # fmt: skip

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
        options = {"budget": budget, "recent": recent, "project": project, "include_global": include_global}
        return self._post(Block, "briefing", core=core, **options).context

    # Conversations

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
        """Upload a file of conversations, and import it there; see `Memorist.import_conversations`."""
        return self.import_(
            path, format=format, project=project, tools=tools, redact=redact, allow=allow, progress=progress
        )

    # Supersession, links, facts and strength

    def supersede(self, old: str, new: str, *, at: TimeLike | None = None, said_by: str | None = None) -> Memory:
        """Let a memory replace another, which is left out of search from then on."""
        return self._post(Memory, "memories", old, "supersede", by=new, at=at, said_by=said_by)

    def unsupersede(self, old: str) -> Memory:
        """Undo `supersede`: the memory holds again from now on."""
        return self._delete(Memory, "memories", old, "supersede")

    def replaced(self, id: str) -> builtins.list[Memory]:
        """Return the memories that one has superseded, the earliest first."""
        return self._get(builtins.list[Memory], "memories", id, "replaced")

    def relate(self, a: str, b: str, kind: str, *, confidence: float = 1.0, said_by: str | None = None) -> Relation:
        """Link two memories: `a` `kind` `b`. Linking them again sets the confidence anew."""
        return self._post(
            Relation, "memories", a, "relations", target=b, kind=kind, confidence=confidence, said_by=said_by
        )

    def unrelate(self, a: str, b: str, kind: str) -> None:
        """Remove a link, from now on."""
        self._delete(Forgotten, "memories", a, "relations", target=b, kind=kind)

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
        return self._post(
            Fact, "memories", id, "facts", text=text, kind=kind, confidence=confidence, decay_rate=decay_rate,
            subject=subject, predicate=predicate, object=object,
        )  # fmt: skip

    def remove_fact(self, id: str) -> Fact:
        """Remove a fact from its memory, with its history."""
        return self._delete(Fact, "facts", id)

    def reinforce_fact(self, id: str, amount: float = 0.1) -> Fact:
        """Confirm a fact: its present confidence rises by a share of what is missing to 1."""
        return self._post(Fact, "facts", id, "reinforce", amount=amount)

    def reinforce(self, id: str, amount: float = 0.1, *, session: str | None = None) -> Memory:
        """Confirm a memory: salience and the confidence of its facts rise by a share of what is missing to 1."""
        return self._post(Memory, "memories", id, "reinforce", amount=amount, session=session)

    def deemphasize(self, id: str, amount: float = 0.2) -> Memory:
        """Let a memory count for less: salience falls by a share of itself."""
        return self._post(Memory, "memories", id, "deemphasize", amount=amount)

    def pin(self, id: str) -> Memory:
        """Make a memory one of the few that always belong in context."""
        return self._post(Memory, "memories", id, "pin")

    def unpin(self, id: str) -> Memory:
        """Undo `pin`."""
        return self._delete(Memory, "memories", id, "pin")

    # Recalls, feedback and lenses

    def recalls(
        self, *, memory: str | None = None, session: str | None = None, since: TimeLike | None = None, limit: int = 50
    ) -> builtins.list[Recall]:
        """List recorded searches and what they found, the latest first."""
        return self._pages(RecallPage, "recalls", limit, "recalls", memory=memory, session=session, since=since)

    def clear_recalls(self, *, before: TimeLike | None = None) -> int:
        """Delete recorded searches, all or those before a time; what they reinforced stays so. Return how many."""
        return self._delete(Count, "recalls", before=before).count

    @property
    def recalls_lost(self) -> int:
        """The number of recalls that the server could not record; their searches were answered all the same."""
        return self._get(StatsAnswer, "stats").recalls_lost

    def feedback(self, id: str, good: bool, *, query: str | None = None) -> Feedback:
        """Record whether a memory was a good answer: to `query`, or else to the last recorded search that found it."""
        return self._post(Feedback, "memories", id, "feedback", good=good, query=query)

    def feedbacks(self, *, memory: str | None = None, limit: int = 1000) -> builtins.list[Feedback]:
        """List feedback, the latest first."""
        return self._get(builtins.list[Feedback], "feedback", memory=memory, limit=limit)

    def lenses(self) -> builtins.list[Lens]:
        """List the lenses, by name."""
        return self._get(builtins.list[Lens], "lenses")

    def lens(self, name: str) -> Lens:
        """Return a lens by its name."""
        return self._get(Lens, "lenses", name)

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
        """Save a view under a name: filters (those of `search`), a profile, and boosts."""
        body = {"boosts": boosts, "recency": recency, "profile": profile, "filters": drop_none(filters)}
        return self._call(Lens, "PUT", "lenses", name, body=body)

    def remove_lens(self, name: str) -> None:
        """Remove a lens; memories stay as they are."""
        self._delete(Forgotten, "lenses", name)

    # Indexed files

    def index(
        self,
        paths: Any,
        *,
        project: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: Any = None,
    ) -> IndexReport:
        """Raise an error: files are indexed on the machine they are on."""
        refuse("index", "reads files of the server's machine: run `memorist index` there")

    def watch(
        self,
        paths: Any,
        *,
        project: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        redact: bool = True,
        allow: Sequence[str] = (),
        stop: Any = None,
    ) -> Iterator[IndexReport]:
        """Raise an error: files are watched on the machine they are on."""
        refuse("watch", "reads files of the server's machine: run `memorist watch` there")

    def documents(self, *, project: str | None = None, limit: int = 1000) -> builtins.list[Document]:
        """List the indexed files, by path."""
        return self._pages(DocumentPage, "documents", limit, "documents", project=project)

    def document(self, path: str | Path) -> Document:
        """Return one indexed file, with the files that its links lead to and those that link to it."""
        return self._get(Document, "document", path=str(path))

    def unindex(self, path: str | Path) -> int:
        """Remove a file, or all files of a folder, from the index; return how many."""
        return self._delete(Count, "document", path=str(path)).count

    # Files that an agent writes for itself

    def create_file(self, path: str, text: str, *, project: str | None = None) -> File:
        """Store a new file under a path such as /notes/today.md; folders need not be made. May raise AlreadyExists."""
        return self._post(File, "files", path=path, text=text, project=project)

    def edit_file(self, path: str, change: Callable[[str], str], *, project: str | None = None) -> File:
        """
        Replace the text of a file by what `change` returns for it; the earlier text is in the file's history.
        It is called again if somebody else has changed the file meanwhile.
        """
        for attempt in range(_MAX_EDITS):
            found = [file for file in self.files(path, project=project) if file.path == path]
            if not found:
                raise NotFound(f"there is no file {path}")
            before = found[0].text
            body = {"path": path, "text": change(before), "before": before, "project": project}
            try:
                file: File = self._call(File, "PUT", "files", body=body)
                return file
            except ChangedMeanwhile as exc:
                if attempt == _MAX_EDITS - 1:
                    raise InvalidInput(f"{path} is changed all the time by others; try again later") from exc
        raise AssertionError("unreachable")

    def files(self, path: str = "/", *, project: str | None = None) -> builtins.list[File]:
        """List the file of this path, or every file below this folder, by path."""
        return self._get(builtins.list[File], "files", path=path, project=project)

    def move_files(self, path: str, to: str, *, project: str | None = None) -> int:
        """Give a file, or all files of a folder at once, another path; return how many."""
        return self._post(Count, "files:move", path=path, to=to, project=project).count

    def forget_files(self, path: str, *, project: str | None = None) -> int:
        """Forget a file, or all files of a folder at once, as `forget` does; return how many."""
        return self._delete(Count, "files", path=path, project=project).count

    # Export, import and backup

    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        format: str = "jsonl",
        vectors: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Write all of the namespace to a file on this machine; return how many records. See `Memorist.export`."""
        if format != "jsonl":
            refuse("export", f"cannot write {format}: export jsonl, and import it into a memory on this machine")
        lines = 0
        with (
            open_export(path) as file,
            self._transport.open("GET", "/export", query={"vectors": as_text(vectors)}) as answer,
        ):
            last = b""
            while chunk := answer.read(_FILE_CHUNK):
                file.write(chunk)
                lines += chunk.count(b"\n")
                last = (last + chunk)[-200:]
            if b'"type": "end"' not in last and b'"type":"end"' not in last:
                raise MemoristError("the export broke off; try again")
        if progress:
            progress(lines - 2)
        return lines - 2  # without the first and the last line

    def import_(
        self,
        path: str | Path | BinaryIO,
        *,
        format: str | None = None,
        project: str | None = None,
        tools: bool = False,
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> ImportReport:
        """Upload a file of memories or conversations, and import it there; see `Memorist.import_`."""
        options = {"format": format, "project": project, "tools": tools, "redact": redact}
        fields = [(name, as_text(value)) for name, value in options.items() if value is not None]
        with open_import(path) as (name, file):
            chunks = iter(lambda: file.read(_FILE_CHUNK), b"")
            kind, pieces = multipart(name, chunks, [*fields, *(("allow", text) for text in allow)])
            headers = {"Content-Type": kind, "Transfer-Encoding": "chunked"}
            with self._transport.open("POST", "/import", data=pieces, headers=headers) as answer:
                report: ImportReport = decode(ImportReport, json.loads(answer.read()))
        if progress:
            progress(report.added + report.known)
        return report

    def discover(self, programs: Sequence[str] = (), *, tools: bool = False) -> builtins.list[DiscoveredSource]:
        """Raise an error: other programs keep their files on the machine they run on."""
        refuse("discover", "looks at files of the server's machine: run `memorist import --discover` there")

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Raise an error: a backup is made on the server's machine."""
        refuse("backup", "copies the server's database: run `memorist backup create` there, or `export` from here")

    # Maintenance

    def stats(self) -> Stats:
        """Count what there is, and tell which model's vectors are in use."""
        return self._get(StatsAnswer, "stats").stats

    def check(self, repair: bool = False) -> CheckReport:
        """Compare every text with its hash, and every index and vector with the text; `repair` makes those again."""
        report: CheckReport = self._post(CheckReport, "check") if repair else self._get(CheckReport, "check")
        return report

    def reembed(self, embedder: Any = None, progress: Progress | None = None, *, prune: bool = False) -> int:
        """Raise an error: vectors are made by the server's model."""
        refuse("reembed", "uses the models of the server's machine: run `memorist reembed` there")
