"""A memory as some callers get it: only one project, nothing about its file, or no secrets in what models write."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from msgspec.structs import replace

from memorist import validation
from memorist.arguments import Names, TimeLike
from memorist.engine.memory import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.records import Memories, Memory, Page, Results, SessionRef, Timeline, check_version
from memorist.store.records import Check


def within_namespace(memory: Memorist) -> Memorist:
    """Return the same memory for a caller who is told nothing of the file, which holds other namespaces, too."""
    resources = copy(memory._resources)
    resources.owns_machine = False
    return Memorist(resources)


def for_model(memory: Memorist) -> Memorist:
    """Return the same memory for what a model writes: without secrets, unless the memory keeps them."""
    resources = copy(memory._resources)
    resources.redaction = resources.model_redaction
    return Memorist(resources)


class ProjectView:
    """
    The methods of a memory, restricted to one project.

    No other project can be named, ids of memories elsewhere are not found, and no answer depends on what is in other
    projects: scores, counts and the meaning of a part of an id are those of this project, a successor elsewhere is left
    out, and no spelling is suggested. An id that a caller chooses is a name within this project: the memory gets a
    longer one, because another project may use the same.
    """

    def __init__(self, memory: Memorist, project: str) -> None:
        self.project = validation.required_name(project, "project")
        self._resources = memory._resources.restrict_to(self.project)
        self._memory, self._store = Memorist(self._resources), self._resources.store

    def search(self, /, query: str, **options: Any) -> Results:
        found = self._memory.search(query, **self._search_options(options))
        hidden = {name: count for name, count in found.hidden.items() if name != "project"}
        memories = self._restrict([hit.memory for hit in found], options.get("as_of"))
        hits = tuple(replace(hit, memory=memory) for hit, memory in zip(found, memories, strict=True))
        return replace(found, hits=hits, hidden=hidden)

    def get(self, ids: Sequence[str], *, as_of: TimeLike | None = None) -> Memories:
        """Return memories by id; one that is elsewhere now, or was at that time, counts as missing."""
        missing, own = [], []
        for id in ids:
            try:
                own.append(self._resolve_id(id))
            except NotFound:
                missing.append(id)
        found = self._memory.get(own, as_of=as_of)
        inside = [memory for memory in found if memory.project == self.project]
        missing += [id for id in own if id not in {memory.id for memory in inside}]
        return Memories(self._restrict(inside, as_of), tuple(missing))

    _get_several = get

    def _get_one(self, id: str, *, as_of: TimeLike | None = None) -> Memory:
        found = self.get([id], as_of=as_of)
        if not found:
            raise NotFound(f"no memory of project {self.project!r} has the id {id!r}")
        return found[0]

    def list(self, **options: Any) -> Page:
        page = self._memory.list(**self._search_options(options))
        return replace(page, memories=self._restrict(page.memories, options.get("as_of")))

    def count(self, **options: Any) -> int:
        return self._memory.count(**self._search_options(options))

    def timeline(self, *, anchor: str | None = None, **options: Any) -> Timeline:
        middle = None if anchor is None else self._resolve_id(anchor)
        found = self._memory.timeline(anchor=middle, **self._options(options))
        sessions = tuple(session for session in found.sessions if session.project == self.project)
        # The anchor may have been in another project at the time asked about.
        inside = [memory for memory in found.memories if memory.project == self.project]
        return replace(found, memories=self._restrict(inside, options.get("as_of")), sessions=sessions)

    def facets(self, query: str | None = None, **options: Any) -> Mapping[str, Mapping[str, int]]:
        return self._memory.facets(query, **self._search_options(options))

    def context(self, message: str, **options: Any) -> str:
        return self._memory.context(message, **self._search_options(options))

    def add(self, content: str, **fields: Any) -> Memory:
        return self._restrict([self._memory.add(content, **self._options(fields))])[0]

    def update(self, id: str, *, if_version: Names | None = None, **changes: Any) -> Memory:
        """Change a memory, unless what this project sees of it has another version by then."""
        self._refuse_project(changes)
        fields = self._resolve_sessions(dict(changes))
        session, whole = fields.pop("session", None), self._resolve_id(id)
        check = self._within(check_version(if_version))
        return self._restrict([self._memory._update(whole, session, fields, check)])[0]

    def supersede(self, old: str, new: str, **options: Any) -> Memory:
        return self._restrict([self._memory.supersede(self._resolve_id(old), self._resolve_id(new), **options)])[0]

    def forget(self, id: str, *, hard: bool = False, if_version: Names | None = None) -> None:
        """Forget a memory, unless what this project sees of it has another version by then."""
        self._memory._forget(self._resolve_id(id), hard, self._within(check_version(if_version)))

    def forget_many(self, **options: Any) -> int:
        """Forget the memories of this project that pass filters: the project itself counts as none."""
        return self._memory.forget_many(**self._search_options(options))

    def _search_options(self, options: dict[str, Any]) -> dict[str, Any]:
        if options.get("include_global"):
            raise InvalidInput(f"only project {self.project!r} is served here: leave include_global out")
        return {**self._options(options), "include_global": False}

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        self._refuse_project(options)
        return {**self._resolve_sessions(options), "project": self.project}

    def _refuse_project(self, options: Mapping[str, Any]) -> None:
        if options.get("project") not in (None, self.project):
            raise InvalidInput(f"only project {self.project!r} is served here: leave the project out")

    def _resolve_sessions(self, options: dict[str, Any]) -> dict[str, Any]:
        """Replace ids of sessions by whole ones; sessions of other projects are not found."""
        named = {name: self._session(options[name]) for name in ("session", "record_session") if options.get(name)}
        return {name: value for name, value in options.items() if name != "project"} | named

    def _session(self, id: str) -> str:
        try:
            return self._store.sessions.require(validation.session_id(id), self.project).id
        except NotFound as exc:
            raise NotFound(f"no session of project {self.project!r} has the id {id!r}", hint=exc.hint) from exc

    def _resolve_id(self, id: str) -> str:
        """Return the whole id of a memory of this project; all others are not found."""
        wanted = validation.id_or_part(id)
        found = self._store.find_in_project(wanted, self.project)
        if found is None or found.id != wanted:  # a whole name means more than a part of an id
            found = self._store.find_named(wanted, self.project) or found
        if found is None:
            raise NotFound(f"no memory of project {self.project!r} has the id {id!r}")
        return found.id

    def _within(self, check: Check | None) -> Check:
        """Return a check that a memory is still of this project, and then of what is seen of it here."""

        def check_within(memory: Memory) -> None:
            if memory.project != self.project:
                raise NotFound(f"no memory of project {self.project!r} has the id {memory.id!r}")
            if check:
                check(self._restrict_one(memory))

        return check_within

    def _restrict(self, memories: Iterable[Memory], as_of: TimeLike | None = None) -> tuple[Memory, ...]:
        """Remove from memories what they tell about other projects."""
        inside = [self._restrict_one(memory) for memory in memories]
        linked = [memory.id for memory in inside if memory.related_count]
        counts = self._store.links.count_within(linked, self.project, validation.as_of(as_of)) if linked else {}
        return tuple(
            replace(memory, related_count=counts.get(memory.id, 0)) if memory.related_count else memory
            for memory in inside
        )

    def _restrict_one(self, memory: Memory) -> Memory:
        """Remove what can be removed from a memory without reading more: a check may not read while it writes."""
        successor = memory.superseded_by
        return replace(
            memory,
            superseded_by=successor if successor and successor.project == self.project else None,
            session=self._restrict_session(memory.session),
        )

    def _restrict_session(self, session: SessionRef | None) -> SessionRef | None:
        if session is None or session.project == self.project:
            return session
        return replace(session, summary=None, project=None)
