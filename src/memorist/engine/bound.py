"""One project of a memory, and no way out of it: what a surface serves that may not show the rest."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from memorist import validation
from memorist.engine.core import Moment, given_id
from memorist.engine.opening import Memorist
from memorist.errors import Ambiguous, InvalidInput, NotFound
from memorist.records import Hit, Memories, Memory, Page, Results, SessionRef, Successor, Timeline

T = TypeVar("T")


class Bound:
    """
    The verbs of a memory for one project.

    No argument leads out of it: a project cannot be named, the id of a memory elsewhere is that of none, and what an
    answer would say of other projects (what replaced a memory, what a filter held back, words like the one asked for)
    is left out.
    """

    def __init__(self, memory: Memorist, project: str) -> None:
        self._memory = memory
        self.project = validation.required_name(project, "project")

    def search(self, query: str, **options: Any) -> Results:
        found = self._memory.search(query, **self._looking(options))
        hidden = {name: count for name, count in found.hidden.items() if name != "project"}
        # A suggestion is made of the words of all projects.
        return replace(found, hits=self._seen_hits(found.hits), hidden=hidden, suggestion=None)

    def get(self, ids: Sequence[str], *, as_of: Moment | None = None) -> Memories:
        """Several by id; one that was elsewhere at that time, or is now, counts as missing."""
        missing, own = [], []
        for id in ids:
            try:
                own.append(self._own(id))
            except NotFound:
                missing.append(id)
        found = self._memory.get(own, as_of=as_of)
        inside = [memory for memory in found if memory.project == self.project]
        missing += [id for id in own if id not in {memory.id for memory in inside}]
        return Memories(self._seen(inside), tuple(missing))

    def list(self, **options: Any) -> Page:
        page = self._memory.list(**self._looking(options))
        return replace(page, memories=self._seen(page.memories))

    def timeline(self, *, anchor: str | None = None, **options: Any) -> Timeline:
        middle = None if anchor is None else self._own(anchor)
        found = self._memory.timeline(anchor=middle, **self._within(options))
        sessions = tuple(session for session in found.sessions if session.project == self.project)
        # Around a memory that was elsewhere at the time asked about, it would stand in the middle all the same.
        inside = [memory for memory in found.memories if memory.project == self.project]
        return replace(found, memories=self._seen(inside), sessions=sessions)

    def facets(self, query: str | None = None, **options: Any) -> Mapping[str, Mapping[str, int]]:
        return self._memory.facets(query, **self._looking(options))

    def context(self, message: str, **options: Any) -> str:
        return self._memory.context(message, **self._looking(options))

    def add(self, content: str, **fields: Any) -> Memory:
        return self._one(self._memory.add(content, **self._within(fields)))

    def update(self, id: str, /, **changes: Any) -> Memory:
        self._refuse_a_project(changes)
        return self._one(self._memory.update(self._own(id), **self._in_a_session_of_ours(changes)))

    def supersede(self, old: str, new: str, **options: Any) -> Memory:
        return self._one(self._memory.supersede(self._own(old), self._own(new), **options))

    def forget(self, id: str, *, hard: bool = False) -> None:
        self._memory.forget(self._own(id), hard=hard)

    def _looking(self, options: dict[str, Any]) -> dict[str, Any]:
        if options.get("include_global"):
            raise InvalidInput(f"only project {self.project!r} is served here: leave include_global out")
        return {**self._within(options), "include_global": False}

    def _within(self, options: dict[str, Any]) -> dict[str, Any]:
        self._refuse_a_project(options)
        return {**self._in_a_session_of_ours(options), "project": self.project}

    def _refuse_a_project(self, options: Mapping[str, Any]) -> None:
        if options.get("project") not in (None, self.project):
            raise InvalidInput(f"only project {self.project!r} is served here: leave the project out")

    def _in_a_session_of_ours(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options, with sessions by their whole ids; one of another project is none."""
        named = {name: self._session(options[name]) for name in ("session", "record_session") if options.get(name)}
        return {name: value for name, value in options.items() if name != "project"} | named

    def _session(self, id: str) -> str:
        session = _or_none(lambda: self._memory.session(id))
        if session is None or session.project != self.project:
            raise NotFound(f"no session of project {self.project!r} has the id {id!r}")
        return session.id

    def _own(self, id: str) -> str:
        """The whole id of a memory of this project; whatever else has it is not spoken of."""
        wanted = given_id(id)
        memory = _or_none(lambda: self._memory.get(wanted))
        if memory is None or memory.project != self.project:
            raise NotFound(f"no memory of project {self.project!r} has the id {id!r}")
        return memory.id

    def _one(self, memory: Memory) -> Memory:
        return self._seen([memory])[0]

    def _seen_hits(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        memories = self._seen([hit.memory for hit in hits])
        return tuple(replace(hit, memory=memory) for hit, memory in zip(hits, memories, strict=True))

    def _seen(self, memories: Iterable[Memory]) -> tuple[Memory, ...]:
        """Memories without what they say of other projects."""
        shown = tuple(memories)
        successors = {memory.superseded_by.id for memory in shown if memory.superseded_by}
        ours = {one.id for one in self._memory.get(list(successors)) if one.project == self.project}
        return tuple(
            replace(memory, superseded_by=_known(memory.superseded_by, ours), session=self._origin(memory.session))
            for memory in shown
        )

    def _origin(self, session: SessionRef | None) -> SessionRef | None:
        if session is None or session.project == self.project:
            return session
        return replace(session, summary=None, project=None)


def _known(successor: Successor | None, ids: Collection[str]) -> Successor | None:
    return successor if successor and successor.id in ids else None


def _or_none(look: Callable[[], T]) -> T | None:
    """What is found, if it is one; who asks with a part of an id must not learn which others it fits."""
    try:
        return look()
    except (NotFound, Ambiguous):
        return None
