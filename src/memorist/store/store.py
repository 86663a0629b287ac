"""The store: the memories of one namespace, in a database."""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from memorist.arguments import NO_FILTER, Filter
from memorist.errors import AlreadyExists, InvalidInput
from memorist.nesting import MAX_LEVELS
from memorist.records import (
    FILE,
    TURN,
    ConversationBatch,
    Memory,
    MemoryDraft,
    Page,
    Reinforcement,
    Version,
)
from memorist.reports import CheckReport, Stats
from memorist.store.backend import Backend
from memorist.store.cursors import cursor_after, find_cursor
from memorist.store.database import Conflict, Connection
from memorist.store.documents import AgentFileStore, DocumentStore, chunk_namespace
from memorist.store.erasure import erase_memories
from memorist.store.export import ReportDamage, count_records, dump
from memorist.store.feed import FeedStore
from memorist.store.filters import (
    END_OF_TIME,
    filter_conditions,
    from_micros,
    indexed_conditions,
    is_unexpired,
    select_expired,
    to_micros,
)
from memorist.store.finding import FindingStore, moment_of
from memorist.store.forgetting import forget_passing
from memorist.store.group_commit import GroupCommit
from memorist.store.inspection import InspectionStore
from memorist.store.metadata_index import MAX_COUNTED
from memorist.store.project_names import choose_id, find_named
from memorist.store.recalls import FeedbackStore, LensStore, RecallStore
from memorist.store.records import (
    AddedBatch,
    AddRequest,
    AddResult,
    Check,
    ConversationResult,
    EmbeddingJob,
    ReadyVectors,
)
from memorist.store.relations import (
    LinkStore,
    StrengthStore,
    add_facts,
    adjust_salience,
    copy_facts,
    index_facts,
    set_pinned,
    supersede,
    unsupersede,
)
from memorist.store.rows import (
    KeyedMemory,
    decode_json,
    load_memory,
    memories_table,
    memory_columns,
    read_keyed,
    read_memories,
)
from memorist.store.sessions import SessionStore, inherit_projects, link_created, link_memories, require_open_session
from memorist.store.statistics import collect_stats
from memorist.store.writes import (
    add_conversations,
    as_json,
    content_hash,
    find_by_id,
    find_new_turns,
    find_same_text,
    identity_hash,
    insert_memories,
    replace_memory,
    update_memory,
)
from memorist.validation import MAX_TAGS

if TYPE_CHECKING:
    from memorist.store.loader import ExportLoader

_TEXTS_AT_ONCE = 1000
_SWEPT_AT_ONCE = 100  # expired memories that a write erases


class _Written(Struct, frozen=True, gc=False):
    """The memory that holds a draft, if it is new, and the job for its vectors, unless it needs none."""

    rid: int
    id: str
    is_new: bool
    pending: EmbeddingJob | None = None


class Store(FindingStore):
    """The memories of one namespace; it sees no other. Each method is one transaction."""

    def __init__(self, backend: Backend, namespace: str = "default") -> None:
        super().__init__(backend, namespace)
        self.links = LinkStore(self._pool, namespace)
        self.strength = StrengthStore(self._pool, namespace)
        self.sessions = SessionStore(self._pool, namespace)
        self.recalls = RecallStore(self._pool, namespace)
        self.feedback = FeedbackStore(self._pool, namespace)
        self.lenses = LensStore(self._pool, namespace)
        self.agent_files = AgentFileStore(self._pool, namespace)
        self.feed = FeedStore(self._pool, namespace)
        self.inspection = InspectionStore(self._pool, namespace)
        self._adding = GroupCommit[AddRequest, AddResult]()

    @cached_property
    def documents(self) -> DocumentStore:
        """The files of this namespace. Their chunks are memories of another namespace in the same database."""
        return DocumentStore(self._pool, self.namespace, Store(self._backend, chunk_namespace(self.namespace)))

    @property
    def own_files(self) -> tuple[str, ...]:
        """The paths of the files that this store writes."""
        return self._backend.own_files

    @property
    def database(self) -> str:
        """The path of the file, or the address of the server without its password."""
        return self._pool.path

    def close(self) -> None:
        self._backend.close()

    # Writing

    def index_metadata(self, paths: Collection[tuple[str, ...]]) -> None:
        """Index these fields of metadata, and no others."""
        with self._pool.reading() as connection:
            if self._fields.list_fields(connection).keys() == set(paths):
                return
        with self._pool.writing() as connection:
            self._fields.set_paths(connection, paths)

    def add(
        self,
        draft: MemoryDraft,
        reinforcement: Reinforcement,
        ready: ReadyVectors | None = None,
        wall: Filter = NO_FILTER,
    ) -> AddResult:
        """
        Add a memory, with its vectors if they are ready; what several threads add at once is committed together.

        Behind a `wall` around one project, the id that a caller chose is a name within that project.
        """
        return self._adding.write(AddRequest(draft, reinforcement, ready, wall), self._add_together)

    def _add_together(self, given: Sequence[AddRequest]) -> list[AddResult]:
        """Add memories in one transaction."""
        results: list[AddResult] = []
        with self._pool.writing() as connection:
            for (reinforcement, wall, _), group in groupby(given, AddRequest.together_with):
                several = [one._replace(draft=self._name_draft(connection, one)) for one in group]
                drafts, ready = [one.draft for one in several], ReadyVectors.join([one.ready for one in several])
                for written in self._write(connection, drafts, reinforcement, ready, wall):
                    results.append(AddResult(load_memory(connection, written.rid), written.is_new, written.pending))
            self._sweep(connection)
            self._backend.optimize(connection, len(given))
        return results

    def _name_draft(self, connection: Connection, given: AddRequest) -> MemoryDraft:
        """Return a draft with the id that stands for its name where the caller is restricted to a project."""
        if given.draft.if_exists is None or not given.wall.restricted:
            return given.draft
        (project,) = given.wall.project
        return given.draft._replace(id=choose_id(connection, self.namespace, project, given.draft.id))

    def add_many(
        self,
        drafts: Sequence[MemoryDraft],
        reinforcement: Reinforcement,
        ready: ReadyVectors | None = None,
        wall: Filter = NO_FILTER,
    ) -> AddedBatch:
        """Add memories as `add` does, all of them or none."""
        with self._pool.writing() as connection:
            written = self._write(connection, drafts, reinforcement, ready, wall)
            self._sweep(connection)
            self._backend.optimize(connection, len(drafts))
        # Of a memory that is written twice, the later text counts.
        pending = {one.rid: one.pending for one in written if one.pending}
        return AddedBatch([one.id for one in written], list(pending.values()))

    def add_conversations(self, batches: Sequence[ConversationBatch]) -> ConversationResult:
        """Add the turns that are not stored yet, each to its session. Stored turns stay as they are."""
        with self._pool.writing() as connection:
            result = add_conversations(connection, self.namespace, batches)
            self._backend.optimize(connection, len(result.ids))
            return result

    def _write(
        self,
        connection: Connection,
        drafts: Sequence[MemoryDraft],
        reinforcement: Reinforcement,
        ready: ReadyVectors | None,
        wall: Filter,
    ) -> list[_Written]:
        """Write drafts: new ones by one statement, then those that a memory with the same text or id stands for."""
        sessions = {
            id: require_open_session(connection, self.namespace, id)
            for id in dict.fromkeys(draft.session for draft in drafts)
            if id is not None
        }
        drafts = inherit_projects(connection, drafts, sessions)
        hashes = [
            content_hash(draft.content) if draft.if_exists is None else identity_hash(draft.id, draft.content)
            for draft in drafts
        ]
        if ready and not self.vectors.accepts(connection, ready.model):
            ready = None  # the text is stored all the same, and whoever embeds it later says what is wrong
        keys = insert_memories(connection, self.namespace, drafts, hashes)
        new = [(rid, draft) for rid, draft in zip(keys, drafts, strict=True) if rid is not None]
        created = [(rid, sessions[one.session], to_micros(one.recorded_at)) for rid, one in new if one.session]
        link_created(connection, created)
        if ready:
            by_place = {place: rid for place, rid in enumerate(keys) if rid is not None}
            self.vectors.write_ready(connection, ready, by_place)
        embedded = {job.key for job in ready.texts} if ready else ()
        written: list[_Written] = []
        for place, (key, draft, hash) in enumerate(zip(keys, drafts, hashes, strict=True)):
            if key is not None:
                pending = None if place in embedded else EmbeddingJob(key, draft.title, draft.content)
                written.append(_Written(key, draft.id, True, pending))
                if draft.facts:
                    since = to_micros(min(draft.recorded_at, draft.created_at))
                    add_facts(connection, key, draft.facts, since, indexed=True)
            elif draft.if_exists is None:
                written.append(self._reinforce(connection, draft, hash, sessions, reinforcement, wall))
            else:
                written.append(self._replace(connection, draft, sessions, reinforcement, wall))
        return written

    def _write_anew(
        self, connection: Connection, draft: MemoryDraft, expired: int, reinforcement: Reinforcement, wall: Filter
    ) -> _Written:
        """Write a draft in the place of a memory that has expired."""
        erase_memories(connection, [expired])
        return self._write(connection, [draft], reinforcement, None, wall)[0]

    def _reinforce(
        self,
        connection: Connection,
        draft: MemoryDraft,
        hash: bytes,
        sessions: Mapping[str, int],
        reinforcement: Reinforcement,
        wall: Filter,
    ) -> _Written:
        """Reinforce the memory that has the text of a draft already."""
        same = find_same_text(connection, self.namespace, draft.project, hash)
        if same and _has_expired(load_memory(connection, same[0]), draft.recorded_at):
            return self._write_anew(connection, draft, same[0], reinforcement, wall)
        if same is None:
            raise InvalidInput(f"the id {draft.id} belongs to another memory already; choose another one")
        known, recorded = same[0], to_micros(draft.recorded_at)
        adjust_salience(connection, [known], reinforcement.share, recorded, reinforcement.decay.sectors)
        unsupersede(connection, known, recorded)  # said again, it holds again
        if draft.session is not None:
            link_memories(connection, sessions[draft.session], [known], "reinforced", recorded)
        add_facts(connection, known, draft.facts, recorded)
        return _Written(known, same[1], False)

    def _replace(
        self,
        connection: Connection,
        draft: MemoryDraft,
        sessions: Mapping[str, int],
        reinforcement: Reinforcement,
        wall: Filter,
    ) -> _Written:
        """Do what `if_exists` says with the memory that has the id of a draft already."""
        found = find_by_id(connection, self.namespace, draft.id)
        if found and _has_expired(found[1], draft.recorded_at):
            return self._write_anew(connection, draft, found[0], reinforcement, wall)
        assert found is not None, "its id was taken, and no other connection writes to the namespace meanwhile"
        rid, memory = found
        if wall.restricted and memory.project not in wall.project:
            raise AlreadyExists(f"the id {draft.id} cannot be used here; choose another one")
        if memory.deleted_at is None and draft.if_exists == "error":
            raise AlreadyExists(f"the id {draft.id} belongs to another memory already; choose another one")
        if memory.deleted_at is None and draft.if_exists == "keep":
            return _Written(rid, draft.id, False)
        recorded = to_micros(draft.recorded_at)
        _, job = replace_memory(connection, rid, memory, draft, recorded)
        if draft.session is not None:
            link_memories(connection, sessions[draft.session], [rid], "updated", recorded)
        add_facts(connection, rid, draft.facts, recorded)
        return _Written(rid, draft.id, False, job)

    def update(
        self,
        id: str,
        changes: Mapping[str, Any],
        now: datetime,
        session: str | None,
        check: Check | None = None,
    ) -> tuple[Memory, EmbeddingJob | None]:
        """Change a memory, unless `check` raises for what it is while nobody else can write."""
        with self._pool.writing() as connection:
            rid, memory = self._require_memory(connection, id)
            if check:
                check(memory)
            if session is not None:
                sid = require_open_session(connection, self.namespace, session)
                link_memories(connection, sid, [rid], "updated", to_micros(now))
            return update_memory(connection, rid, memory, changes, to_micros(now))

    def merge(self, keep: str, others: Sequence[str], now: datetime) -> Memory:
        """Let one memory supersede others and take over their tags, facts and pins."""
        stamp = to_micros(now)
        with self._pool.writing() as connection:
            rid, memory = self._require_memory(connection, keep)
            merged = [self._require_memory(connection, id) for id in others]
            for other in merged:
                supersede(connection, other, (rid, memory), None, "merge", now)
                copy_facts(connection, rid, other[1].facts, stamp)
            tags = dict.fromkeys([*memory.tags, *(tag for _, other in merged for tag in other.tags)])
            update_memory(connection, rid, memory, {"tags": tuple(tags)[:MAX_TAGS]}, stamp)
            if any(other.pinned for _, other in merged):
                set_pinned(connection, rid, memory, True, stamp)
            index_facts(connection, rid)
            return load_memory(connection, rid)

    def forget(self, id: str, now: datetime, check: Check | None = None) -> None:
        with self._pool.writing() as connection:
            rid, memory = self._require_memory(connection, id)
            if check:
                check(memory)
            connection.execute("update memories set deleted_at = ? where rid = ?", (to_micros(now), rid))

    def restore(self, id: str) -> Memory:
        with self._pool.writing() as connection:
            rid, _ = self._require_key(connection, id, deleted=True)
            try:
                connection.execute("update memories set deleted_at = null where rid = ?", (rid,))
            except Conflict as exc:
                raise InvalidInput(f"{id} cannot be restored: a newer memory of its project has the same text") from exc
            return load_memory(connection, rid)

    def erase(self, id: str, check: Check | None = None) -> None:
        with self._pool.writing() as connection:
            rid, memory = self._require_memory(connection, id, deleted=None)
            if check:
                check(memory)
            erase_memories(connection, [rid])

    def _sweep(self, connection: Connection) -> int:
        """Erase some memories that have expired, and return how many; nothing finds them anyway."""
        sql = f"{select_expired('@now')} limit {_SWEPT_AT_ONCE}"
        keys = [rid for (rid,) in connection.fetch(sql, {"namespace": self.namespace})]
        if keys:
            erase_memories(connection, keys)
        return len(keys)

    def count(self, filter: Filter, *, deleted: bool = False) -> int:
        """Return the number of memories that pass a filter."""
        past = filter.as_of is not None
        with self._reading(filter) as connection:
            filter = replace(filter, hide_expired=True)
            where, values, _ = indexed_conditions(connection, self._fields, filter, past=past)
            state = f"m.deleted_at is {'not null' if deleted else 'null'}"
            sql = f"select count(*) from {memories_table(past=past)} where {where} and {state}"
            return int(connection.fetch_value(sql, values))

    def forget_many(self, filter: Filter, now: datetime, *, hard: bool) -> int:
        """Forget, or erase, the memories that pass a filter; return how many. Others can write in between."""
        return forget_passing(self._pool, self._fields, filter, to_micros(now), hard=hard)

    def purge(self, before: datetime | None, *, copies: bool = True) -> int:
        """
        Erase the memories forgotten before a time, or all of them, and wipe their remains from the file.

        The `copies` beside it hold all of its namespaces; they are removed, unless they are to stay.
        """
        with self._pool.writing() as connection:
            forgotten = connection.fetch(
                """
                select rid from memories
                where namespace = :namespace and deleted_at is not null and deleted_at < :before
                """,
                {"namespace": self.namespace, "before": END_OF_TIME if before is None else to_micros(before)},
            )
            erase_memories(connection, [rid for (rid,) in forgotten])
            self.sessions.erase_forgotten(connection, before)
            while self._sweep(connection):
                pass
            self._backend.purge(connection)
        self._backend.wipe(copies=copies)
        return len(forgotten)

    # Reading

    def find(self, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory | None]:
        """Return the live memories with these ids, or unique beginnings or endings of ids, in the order asked."""
        moment = None if as_of is None else to_micros(as_of)
        with self._pool.reading() as connection:
            sql = f"""
                select {memory_columns(past=as_of is not None)} from {memories_table(past=as_of is not None)}
                where m.id in @texts(:ids) and m.namespace = :namespace
                  and m.deleted_at is null and {is_unexpired("m", past=as_of is not None)}
            """
            values = {"ids": as_json(list(ids)), "namespace": self.namespace, "as_of": moment}
            rows = connection.fetch(sql, values)
            found = {memory.id: memory for memory in read_memories(connection, rows, moment)}
            for id in ids:
                if id not in found and (keyed := self._find_memory(connection, id, as_of=moment)):
                    found[id] = keyed[1]
        return [found.get(id) for id in ids]

    def find_unknown(self, ids: Sequence[str]) -> set[str]:
        """Return those of some whole ids that no memory has, not even a forgotten one."""
        sql = "select id from memories where namespace = :namespace and id in @texts(:ids)"
        with self._pool.reading() as connection:
            known = connection.fetch(sql, {"ids": as_json(list(ids)), "namespace": self.namespace})
        return set(ids) - {id for (id,) in known}

    def find_new_turns(self, batches: Sequence[ConversationBatch]) -> set[str]:
        """Return the ids of the turns that `add_conversations` would add, unless their session was forgotten."""
        with self._pool.reading() as connection:
            return find_new_turns(connection, self.namespace, batches)

    def require(self, id: str) -> Memory:
        """Return the live memory with this id; a NotFound says if it was forgotten."""
        with self._pool.reading() as connection:
            return self._require_memory(connection, id)[1]

    def find_in_project(self, id: str, project: str) -> Memory | None:
        """Return the live memory of a project with this id, or with this part of it, which other projects may share."""
        with self._pool.reading() as connection:
            found = self._find_memory(connection, id, project=project)
        return found[1] if found else None

    def find_named(self, name: str, project: str) -> Memory | None:
        """Return the live memory of a project that was added under a name within that project."""
        with self._pool.reading() as connection:
            id = find_named(connection, self.namespace, project, name)
            found = self._find_memory(connection, id, project=project) if id else None
        return found[1] if found else None

    def list_page(self, filter: Filter, *, limit: int, cursor: str | None, deleted: bool) -> Page:
        where, values = "", dict[str, Any](limit=limit + 1)
        if cursor is not None:
            with self._pool.reading() as connection:
                where, place = find_cursor(connection, self.namespace, cursor, filter)
            values |= place
        found = self._select_by_time(filter, where, values, "desc", deleted=deleted)
        page = tuple(memory for _, memory in found[:limit])
        return Page(page, cursor_after(page[-1]) if len(found) > limit else None)

    def list_around(self, id: str, filter: Filter, *, before: int, after: int) -> list[Memory]:
        """Return one memory and those nearest in time on both sides of it, oldest first."""
        with self._pool.reading() as connection:
            rid, full_id = self._require_key(connection, id)
            created_at = connection.fetch_value("select created_at from memories where rid = ?", (rid,))
        values = {"time": created_at, "rid": rid}
        where = "and (m.created_at, m.rid) {} (:time, :rid)"
        earlier = self._select_by_time(filter, where.format("<"), values | {"limit": before}, "desc")
        later = self._select_by_time(filter, where.format(">"), values | {"limit": after}, "asc")
        current = self.find([full_id], as_of=filter.as_of)
        around = [*(memory for _, memory in reversed(earlier)), *current, *(memory for _, memory in later)]
        return [memory for memory in around if memory is not None]

    def list_between(self, filter: Filter, limit: int) -> list[Memory]:
        """Return the memories that pass a filter, oldest first."""
        return [memory for _, memory in self._select_by_time(filter, "", {"limit": limit}, "asc")]

    def _select_by_time(
        self, filter: Filter, where: str, values: Mapping[str, Any], order: str, *, deleted: bool = False
    ) -> list[KeyedMemory]:
        """Return memories that pass a filter, by time and, of the same time, in the order they were added."""
        past = filter.as_of is not None
        # There is an index of the few pinned memories, but a database would choose the one by time, and read all of it.
        at = "@plain(m.created_at)" if filter.pinned else "m.created_at"
        with self._reading(filter) as connection:
            unexpired = replace(filter, hide_expired=True)
            # Where many pass, the first of them in the order of time are soon found.
            passing = indexed_conditions(connection, self._fields, unexpired, past=past, most=MAX_COUNTED)
            sql = f"""
                select m.rid, {memory_columns(past=past)}
                from {memories_table(past=past)}
                where {passing.where} and m.deleted_at is {"not null" if deleted else "null"} {where}
                order by {at} {order}, m.rid {order}
                limit :limit
            """
            rows = connection.fetch(sql, {**passing.values, **values})
            return read_keyed(connection, rows, moment_of(filter))

    def iter_texts(self, filter: Filter) -> Iterator[tuple[str, str | None, str]]:
        """
        Yield the id, project and text of every memory that passes a filter, in the order they were added.

        Turns and files are left out: the same words said twice are two turns.
        """
        where, values = filter_conditions(replace(filter, hide_expired=True))
        sql = f"""
            select m.rid, m.id, m.project, m.content from memories m
            where m.rid > :after and @plain(m.namespace) = :namespace and m.deleted_at is null {where}
              and (m.kind is null or m.kind not in ('{TURN}', '{FILE}'))
            order by m.rid limit {_TEXTS_AT_ONCE}
        """
        after = 0
        while True:
            with self._pool.reading() as connection:
                rows = connection.fetch(sql, values | {"namespace": self.namespace, "after": after})
            yield from ((id, project, text) for _, id, project, text in rows)
            if len(rows) < _TEXTS_AT_ONCE:
                return
            after = rows[-1][0]

    def list_versions(self, id: str) -> list[Version]:
        with self._pool.reading() as connection:
            rid, _ = self._require_key(connection, id, deleted=None)
            rows = connection.fetch(
                "select snapshot, replaced_at from memory_history where rid = ? order by version desc",
                (rid,),
            )
        return [
            Version(old["content"], old["title"], tuple(old["tags"]), from_micros(replaced_at))
            for old, replaced_at in (
                (decode_json(snapshot, {}, MAX_LEVELS + 1), replaced_at) for snapshot, replaced_at in rows
            )
            if {"content", "title", "tags"} <= old.keys()  # or it is damaged
        ]

    # Maintenance

    def dump(
        self, *, vectors: bool, types: Collection[str] = (), report_damage: ReportDamage | None = None
    ) -> Generator[dict[str, Any], None, None]:
        """Yield a header and every record of this namespace, as of one moment; see `export`."""
        return dump(self._pool, self.namespace, vectors=vectors, types=types, report_damage=report_damage)

    def count_records(self) -> dict[str, int]:
        """Return the number of records that a dump has, by type."""
        return count_records(self._pool, self.namespace)

    def create_loader(self, sentence_models: Collection[str] = ()) -> "ExportLoader":
        """
        Begin an import. Of `sentence_models`, a text of several sentences has vectors of its parts, too.

        Such texts that come without them are listed by `list_without_vector`.
        """
        from memorist.store.loader import ExportLoader  # only where something is imported

        return ExportLoader(self._backend, self.namespace, sentence_models)

    def backup(self, path: str, *, overwrite: bool) -> None:
        """Copy the whole database, as of one moment, and check the copy."""
        self._backend.back_up(path, overwrite=overwrite)

    def stats(self, model: str | None) -> Stats:
        return collect_stats(self._backend, self.namespace, model)

    def check(self, *, repair: bool) -> CheckReport:
        return self._backend.check(self.namespace, repair=repair)


def _has_expired(memory: Memory, now: datetime) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now
