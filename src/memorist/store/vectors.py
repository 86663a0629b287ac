"""The vectors of memories and of their parts: everything but the search for the nearest, which each database does."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorist.arguments import Filter
from memorist.errors import EmbedderError, Hint, StoreCorrupt
from memorist.records import Model
from memorist.store.database import Connection, Database
from memorist.store.filters import filter_conditions
from memorist.store.key_set import Keys
from memorist.store.records import NO_MATCHES, Compared, EmbeddingJob, Matches, Part, ReadyVectors, Scope, VectorMatches
from memorist.store.rows import MEMORIES_CHANGED_SINCE, readable_snapshot
from memorist.store.vector_scan import Codes, compare, encode

METRIC = "cosine"
Halves = NDArray[np.float16]
Span = tuple[int, int]

_MODEL = "(select model from models where name = :model)"
_VECTOR = f"(select v.vector from vectors v where v.rid = m.rid and v.model = {_MODEL})"
_PARTS = f"""
    select p.rid, p.vector
    from @keys(:memories) k
    @then part_vectors p on p.rid = k.value
    where p.model = {_MODEL}
    order by p.rid, p.part
"""
# Those of a memory `m`: from which character of its content up to which each part goes.
SPANS = f"""
    select @list(@array(p.first, p.last))
    from (select first, last from part_vectors where rid = m.rid and model = {_MODEL} order by part) p
"""
_SNAPSHOT = readable_snapshot("t")
# The vector of the text it had: that of a version with the same text, or its own if the text has not changed.
_VECTOR_AS_OF = f"""
    case when m.reworded then (
        select o.vector
        from old_vectors o
        join memory_history t on t.rid = o.rid and t.version = o.version
        where o.rid = m.rid and o.version >= m.version and o.model = {_MODEL}
          and {_SNAPSHOT} ->> 'content' = m.content and {_SNAPSHOT} ->> 'title' is not distinct from m.title
        order by o.version
        limit 1)
    else {_VECTOR} end
"""


def vector_column(*, past: bool) -> str:
    """Return the column of the vector by `:model` of a memory `m`, or of the text it had at `:as_of`."""
    return _VECTOR_AS_OF if past else _VECTOR


class Vectors(ABC):
    """The vectors of one namespace."""

    _tables: tuple[str, ...] = ("vectors", "old_vectors")  # that refer to models

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    @abstractmethod
    def find_nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, limit: int) -> VectorMatches:
        """Return the memories nearest to a vector, each by itself or by its nearest part."""

    @abstractmethod
    def have_parts(self, model: Model) -> bool:
        """Tell if any memory has parts, or may have."""

    def load(self, model: Model) -> None:  # noqa: B027
        """Read into memory what the first search needs, if it is not there."""

    def list_unembedded(self, after: int, limit: int, project: str | None = None) -> list[EmbeddingJob]:
        sql = f"""
            select m.rid, m.title, m.content
            from unembedded u
            @then memories m on m.rid = u.rid
            where u.rid > :after and m.namespace = :namespace and m.deleted_at is null
              {"" if project is None else "and m.project = :project"}
            order by u.rid
            limit :limit
        """
        values = {"after": after, "namespace": self._namespace, "limit": limit, "project": project}
        with self._database.reading() as connection:
            return [EmbeddingJob(*row) for row in connection.fetch(sql, values)]

    def list_without_vector(self, model: Model, after: int, limit: int) -> list[EmbeddingJob]:
        sql = f"""
            select m.rid, m.title, m.content
            from memories m
            where m.rid > :after and @plain(m.namespace) = :namespace and m.deleted_at is null
              and (m.rid in (select rid from uncut) or not exists (
                select 1 from vectors v where v.rid = m.rid and v.model = {_MODEL}))
            order by m.rid
            limit :limit
        """
        values = {"after": after, "namespace": self._namespace, "model": model.name, "limit": limit}
        with self._database.reading() as connection:
            return [EmbeddingJob(*row) for row in connection.fetch(sql, values)]

    def put(
        self, model: Model, texts: Sequence[EmbeddingJob], vectors: NDArray[np.float32], parts: Sequence[Part] = ()
    ) -> None:
        """Store the vectors of texts, then those of parts, unless a text has changed since it was embedded."""
        with self._database.writing() as connection:
            self.write(connection, model, texts, vectors, parts)

    def write(
        self,
        connection: Connection,
        model: Model,
        texts: Sequence[EmbeddingJob],
        vectors: NDArray[np.float32],
        parts: Sequence[Part] = (),
    ) -> None:
        """Store vectors like `put`, within a transaction."""
        unchanged = _find_unchanged(connection, texts)
        self._insert(connection, model, texts, vectors, parts, {key: key for key in unchanged})

    def accepts(self, connection: Connection, model: Model) -> bool:
        """Return whether vectors of a model can be stored beside those that are stored under its name."""
        sql = "select dimensions, metric from models where name = :name"
        return connection.fetch_value(sql, {"name": model.name}) in (None, (model.dimensions, METRIC))

    def write_ready(self, connection: Connection, ready: ReadyVectors, keys: Mapping[int, int]) -> None:
        """Store vectors of texts that are inserted in the same transaction; `keys` are those of memories, by place."""
        self._insert(connection, ready.model, ready.texts, ready.vectors, ready.parts, keys)

    def _insert(
        self,
        connection: Connection,
        model: Model,
        texts: Sequence[EmbeddingJob],
        vectors: NDArray[np.float32] | Halves,
        parts: Sequence[Part],
        keys: Mapping[int, int],
    ) -> None:
        """Store the vectors of texts and parts whose jobs have keys that are known, each as one of a memory."""
        number = register_model(connection, model)
        blobs = _to_blobs(vectors)
        of_texts = zip(texts, blobs[: len(texts)], strict=True)
        self.insert(connection, number, [(keys[job.key], blob) for job, blob in of_texts if job.key in keys])
        # Earlier parts of a memory were deleted together with its vector.
        connection.insert_rows(
            "part_vectors",
            ("rid", "model", "first", "last", "vector"),
            [
                (keys[part.job.key], number, part.first, part.last, blob)
                for part, blob in zip(parts, blobs[len(texts) :], strict=True)
                if part.job.key in keys
            ],
        )
        self._finish_write(connection, model, number)

    def insert(self, connection: Connection, number: int, rows: Sequence[tuple[int, bytes]]) -> None:
        """Insert vectors as they are stored, each with the key of its memory, and replace those that are there."""
        connection.insert_rows(
            "vectors",
            ("rid", "model", "vector"),
            [(rid, number, blob) for rid, blob in rows],
            "on conflict @unique(rid, model) do update set vector = excluded.vector",
        )

    def drop_others(self, model: Model) -> int:
        """Drop this namespace's vectors of other models; memories left without any wait for one."""
        own = "rid in (select rid from memories where namespace = :namespace)"
        with self._database.writing() as connection:
            values: dict[str, Any] = {"number": register_model(connection, model), "namespace": self._namespace}
            connection.execute(f"delete from vectors where model <> :number and {own}", values)
            dropped = connection.changes()
            connection.execute(f"delete from old_vectors where model <> :number and {own}", values)
            connection.execute(
                """
                insert into unembedded(rid)
                select m.rid from memories m
                where m.namespace = :namespace and not exists (select 1 from vectors v where v.rid = m.rid)
                on conflict @unique(rid) do nothing
                """,
                {"namespace": self._namespace},
            )
            self._finish_drop(connection, values["number"])
            unused = " and ".join(f"model not in (select model from {table})" for table in self._tables)
            connection.execute(f"delete from models where model <> ? and {unused}", (values["number"],))
            return dropped

    def _finish_write(self, connection: Connection, model: Model, number: int) -> None:  # noqa: B027
        """Do what an index needs after vectors were written, in the same transaction."""

    def _finish_drop(self, connection: Connection, number: int) -> None:  # noqa: B027
        """Do what an index needs after the vectors of all models but one were dropped, in the same transaction."""

    def _match_past(self, connection: Connection, model: Model, vector: NDArray[np.float32], filter: Filter) -> Matches:
        """Return the similarities of memories that have changed since `as_of`, as they were."""
        where, values = filter_conditions(filter, past=True)
        sql = f"""
            select m.rid, {_VECTOR_AS_OF}
            from {MEMORIES_CHANGED_SINCE}
            where m.namespace = :namespace and m.deleted_at is null {where}
        """
        found = connection.fetch(sql, values | {"namespace": self._namespace, "model": model.name})
        rows = [(rid, blob) for rid, blob in found if blob is not None]
        if not rows:
            return NO_MATCHES
        codes = _to_codes([blob for _, blob in rows], len(vector))
        return Matches.of_vectors(np.array([rid for rid, _ in rows], np.int64), compare(vector, codes))


def _to_blobs(vectors: NDArray[np.float32] | Halves) -> list[bytes]:
    """Return vectors as they are stored, float16."""
    whole, size = vectors.astype(np.float16, copy=False).tobytes(), 2 * vectors.shape[1]
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def _find_unchanged(connection: Connection, jobs: Sequence[EmbeddingJob]) -> set[int]:
    """Return the keys of the jobs whose memory still has the text that was embedded."""
    sql = "select rid, title, content from memories where rid in @keys(:keys)"
    stored = {
        rid: (title, content)
        for rid, title, content in connection.fetch(sql, {"keys": json.dumps([job.key for job in jobs])})
    }
    return {job.key for job in jobs if stored.get(job.key) == (job.title, job.content)}


def register_model(connection: Connection, model: Model) -> int:
    """Return the number of a model, which is made if the model is new."""
    connection.execute(
        "insert into models(name, dimensions) values (:name, :dimensions) on conflict do nothing",
        {"name": model.name, "dimensions": model.dimensions},
    )
    number, dimensions = connection.fetch_value(
        "select model, dimensions from models where name = :name", {"name": model.name}
    )
    check_dimensions(model, dimensions)
    return int(number)


def check_dimensions(model: Model, recorded: int) -> None:
    """Raise an EmbedderError if a model gives other vectors than those stored under its name."""
    if recorded != model.dimensions:
        raise EmbedderError(
            f"{model.name} now gives {model.dimensions} dimensions, but the vectors stored under that name have "
            f"{recorded}: it is another model, so give it another name and make the vectors again",
            hint=Hint("reembed"),
        )


def check_metric(model: Model, recorded: str) -> None:
    """Raise an EmbedderError if the vectors of a model are to be compared in another way."""
    if recorded != METRIC:
        raise EmbedderError(
            f"the vectors of {model.name} were made to be compared by {recorded}, not by {METRIC}; "
            "give the model another name and make its vectors again",
            hint=Hint("reembed"),
        )


def damaged_vector(reason: str) -> StoreCorrupt:
    return StoreCorrupt(f"a stored vector is damaged ({reason}); repair the database", hint=Hint("repair"))


def compare_stored(
    connection: Connection,
    model: str,
    keys: Keys,
    blobs: Sequence[bytes | None],
    vector: NDArray[np.float32],
    have_parts: NDArray[np.bool_],
) -> Compared:
    """Compare the vectors of memories as a database stores them, and those of parts where memories may have some."""
    similarities = np.full(len(blobs), np.nan)
    present = np.flatnonzero([blob is not None for blob in blobs])
    if not len(present):
        return Compared(None, similarities)
    stored = _to_codes([blob for blob in blobs if blob is not None], len(vector))
    codes = np.zeros((len(blobs), stored.shape[1]), stored.dtype)
    codes[present], similarities[present] = stored, compare(vector, stored)
    nearest: dict[int, int] = {}
    for place, scores in _compare_stored_parts(connection, model, keys, have_parts, vector):
        best = int(np.argmax(scores))  # the first of equal ones
        if scores[best] > similarities[place]:
            similarities[place], nearest[place] = scores[best], best
    return Compared(codes, similarities, nearest)


def _compare_stored_parts(
    connection: Connection, model: str, keys: Keys, wanted: NDArray[np.bool_], vector: NDArray[np.float32]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the places of the wanted memories that have parts, and the similarities of these in their order."""
    places = {key: place for place, key in enumerate(keys.tolist()) if wanted[place]}
    found = connection.fetch(_PARTS, {"memories": json.dumps([*places]), "model": model}) if places else []
    if not found:
        return
    scores = compare(vector, _to_codes([blob for _, blob in found], len(vector)))
    owners = np.array([rid for rid, _ in found])
    starts = np.flatnonzero(np.diff(owners, prepend=owners[0] - 1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(owners)], strict=True):
        yield places[int(owners[start])], scores[start:end]


def decode_span(spans: str, part: int) -> Span | None:
    """Return the span of a part, given by its number, of a memory whose `SPANS` were read."""
    listed = json.loads(spans)
    return tuple(listed[part]) if part < len(listed) else None


def _to_codes(blobs: Sequence[bytes], dimensions: int) -> Codes:
    if any(len(blob) != 2 * dimensions for blob in blobs):
        raise damaged_vector("its length is wrong")
    return encode(np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), dimensions))
