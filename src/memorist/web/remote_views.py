"""Calls of a server that its page makes: comparisons, reviews, surroundings, growth, changes, and the server itself."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from memorist.documents import Document, ImportReport
from memorist.errors import StoreError
from memorist.records import Fact, Page
from memorist.validation import TimeLike
from memorist.views import (
    Change,
    ChunkPage,
    Comparison,
    DocumentPage,
    EvalRun,
    Graph,
    Growth,
    ModelInfo,
    ProfileInfo,
    RecallPage,
    ReviewPage,
    SessionPage,
)
from memorist.web.answers import Access, SettingsAnswer
from memorist.web.remote_calls import RemoteCalls


class RemoteViews(RemoteCalls):
    """The calls for a person who looks at a memory."""

    def compare(
        self, query: str, *, profiles: Sequence[str] = (), lenses: Sequence[str] = (), **options: Any
    ) -> Comparison:
        """Answer a question once for each of several profiles and lenses; takes the arguments of `search`."""
        return self._post(Comparison, "compare", query=query, profiles=profiles, lenses=lenses, **options)

    def review(
        self, kind: str, *, limit: int | None = None, cursor: str | None = None, project: str | None = None
    ) -> ReviewPage:
        """Return what a person should look at, of one of `memorist.views.REVIEW_KINDS`."""
        return self._get(ReviewPage, "review", kind=kind, limit=limit, cursor=cursor, project=project)

    def graph(self, memory: str, *, hops: int = 2, limit: int = 8) -> Graph:
        """Return the surroundings of a memory and the links between them."""
        return self._get(Graph, "graph", memory=memory, hops=hops, limit=limit)

    def growth(self, *, since: TimeLike | None = None) -> Growth:
        """Count what happened on each day."""
        return self._get(Growth, "growth", since=since)

    def sessions(
        self,
        *,
        project: str | None = None,
        active: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SessionPage:
        """Return one page of sessions, the latest first."""
        return self._get(SessionPage, "sessions", project=project, active=active, limit=limit, cursor=cursor)

    def facts(self, memory: str) -> list[Fact]:
        """Return the facts of a memory, with their confidence now."""
        return self._get(list[Fact], "memories", memory, "facts")

    def turns(self, session: str, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """Return one page of what was said in a session, in its order."""
        return self._get(Page, "sessions", session, "turns", limit=limit, cursor=cursor)

    def documents(
        self, *, project: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> DocumentPage:
        """Return one page of the indexed files."""
        return self._get(DocumentPage, "documents", project=project, limit=limit, cursor=cursor)

    def document(self, id: str) -> Document:
        """Return an indexed file by its id."""
        return self._get(Document, "documents", id)

    def chunks(self, document: str, *, limit: int | None = None, cursor: str | None = None) -> ChunkPage:
        """Return one page of the chunks of an indexed file."""
        return self._get(ChunkPage, "documents", document, "chunks", limit=limit, cursor=cursor)

    def recalls(
        self,
        *,
        memory: str | None = None,
        session: str | None = None,
        since: TimeLike | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> RecallPage:
        """Return one page of recorded searches, the latest first."""
        options = {"memory": memory, "session": session, "since": since}
        return self._get(RecallPage, "recalls", limit=limit, cursor=cursor, **options)

    def eval_runs(self) -> list[EvalRun]:
        """List saved runs of `memorist eval` on the server's machine, the earliest first."""
        return self._get(list[EvalRun], "eval-runs")

    def changes(self, position: str | None = None) -> Iterator[Change]:
        """Yield what any process writes or recalls: first what came since a position, then what comes, as it comes."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": position} if position else {})
        with self._transport.open("GET", "/events", headers=headers) as answer:
            fields: dict[str, str] = {}
            while line := answer.readline().decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if name and value:
                    fields[name] = value
                elif "data" in fields:
                    new = json.loads(fields["data"])["new"]
                    yield Change(fields["id"], {kind: tuple(ids) for kind, ids in new.items()})
                    fields = {}
        raise StoreError("the server has ended the stream; go on from the last position")

    def import_sample(self) -> ImportReport:
        """Remember a few things about an invented project."""
        return self._post(ImportReport, "import:sample")

    def models(self) -> list[ModelInfo]:
        """List the models."""
        return self._get(list[ModelInfo], "models")

    def profiles(self) -> list[ProfileInfo]:
        """List the ranking profiles and their options."""
        return self._get(list[ProfileInfo], "profiles")

    def settings(self) -> SettingsAnswer:
        """Return the settings that hold on the server, without secrets."""
        return self._get(SettingsAnswer, "settings")

    def access(self) -> Access:
        """Return the rights of the token in use."""
        return self._get(Access, "access")
