"""Recollect itself: every stage composed into the calls that users and surfaces make."""

import builtins
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

from recollect import inputs
from recollect.config import SYNCHRONOUS
from recollect.embed import resolve
from recollect.embed.base import Embedder
from recollect.errors import EmbedderError, InvalidInput
from recollect.ingest.vectorize import BATCH, Vectorizer
from recollect.present.hits import page
from recollect.rank.fuse import rank
from recollect.records import Draft, Filter, Memories, Memory, Page, Query, Report, Results, Stats, Version
from recollect.retrieve import options
from recollect.retrieve.candidates import gather
from recollect.retrieve.legs import Found, Legs
from recollect.retrieve.query import parse
from recollect.store.base import Kept, Store, Unembedded
from recollect.store.sqlite import SqliteStore

REINFORCEMENT = 0.1


class Recollect:
    """
    A memory: text in, found again by word and by meaning.

    Made by `recollect.open`. One object serves any number of threads; close it, or use it in a `with` block.
    """

    def __init__(self, store: Store, embedder: Embedder | None, *, profile: str, own_embedder: bool) -> None:
        self._store = store
        self._profile = options.profile(profile)
        self._legs = Legs(store)
        self._vectorizer = Vectorizer(store, embedder)
        self._own_model = embedder if own_embedder else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, the model and every thread. Closing twice is fine."""
        self._legs.close()
        self._store.close()
        _close(self._own_model)

    # Writing

    def add(
        self,
        content: str,
        *,
        project: str | None = None,
        sector: str | None = None,
        tier: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        salience: float | None = None,
        source: str | None = None,
        title: str | None = None,
        summary: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | str | float | None = None,
        id: str | None = None,
    ) -> Memory:
        """
        Remember something. It is safe on disk and found by its words when this returns, and by its meaning too
        unless the model failed. The same text again in the same project reinforces the memory that is there.
        """
        fields = dict(
            content=content, project=project, sector=sector, tier=tier, kind=kind, tags=tags, salience=salience,
            source=source, title=title, summary=summary, metadata=metadata, created_at=created_at, id=id,
        )  # fmt: skip
        (kept,) = self._store.add([inputs.draft(fields, datetime.now(UTC))], REINFORCEMENT)
        self._give_vectors([kept.pending] if kept.pending else [])
        return kept.memory

    def add_many(
        self, items: Iterable[str | Mapping[str, Any]], *, progress: Callable[[int], None] | None = None
    ) -> builtins.list[str]:
        """
        Remember many things, each a text or a mapping with the fields of `add`; gives their ids in order.

        They are committed in batches. An item that cannot be used, or an error while the items are read, stops it; the
        items before are kept, and adding them again does no harm.
        """
        if isinstance(items, str | Mapping):
            raise InvalidInput("add_many takes a list of texts or mappings; `add` takes one")
        ids: builtins.list[str] = []
        remaining = iter(items)
        stopped: Exception | None = None
        while stopped is None:
            drafts: builtins.list[Draft] = []
            try:
                for item in islice(remaining, BATCH):
                    drafts.append(_draft(item, len(ids) + len(drafts) + 1))
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

    def _add_batch(self, drafts: builtins.list[Draft], before: int) -> tuple[builtins.list[Kept], InvalidInput | None]:
        """All drafts in one transaction; if one is refused, those before it, and the refusal naming it."""
        try:
            return self._store.add(drafts, REINFORCEMENT), None
        except InvalidInput:
            kept: builtins.list[Kept] = []
            for draft in drafts:
                try:
                    kept += self._store.add([draft], REINFORCEMENT)
                except InvalidInput as exc:
                    return kept, _refusal(before + len(kept) + 1, exc)
            return kept, None

    def update(self, id: str, /, **changes: Any) -> Memory:
        """Change fields of a memory; what it said before is kept in its history. None empties a field."""
        memory, pending = self._store.update(_id(id), inputs.changes(changes), datetime.now(UTC))
        if pending:
            self._give_vectors([pending])
        return memory

    def forget(self, id: str, *, hard: bool = False) -> None:
        """Take a memory out of every search. It can be restored until it is purged; `hard` erases it at once."""
        if hard:
            self._store.erase([_id(id)])
        else:
            self._store.forget(_id(id), datetime.now(UTC))

    def restore(self, id: str) -> Memory:
        """Bring a forgotten memory back."""
        self._vectorizer.expect_backlog()
        return self._store.restore(_id(id))

    def purge(self, *, before: datetime | str | float | None = None) -> int:
        """Erase forgotten memories for good, and rewrite the file so that nothing of them is left in it."""
        return self._store.purge(None if before is None else inputs.moment(before, "before"))

    # Reading

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        mode: str = "hybrid",
        profile: str | None = None,
        project: str | Sequence[str] | None = None,
        sector: str | Sequence[str] | None = None,
        tier: str | Sequence[str] | None = None,
        kind: str | Sequence[str] | None = None,
        tags: str | Sequence[str] | None = None,
        source: str | Sequence[str] | None = None,
        since: datetime | str | float | None = None,
        until: datetime | str | float | None = None,
        min_salience: float | None = None,
        explain: bool = False,
        **replaced: Any,
    ) -> Results:
        """
        Find memories by word and by meaning, best first.

        Filters hold within both legs, so a page is full whenever enough memories pass them. Every option of the
        profile can be replaced by name: `grammar`, `fusion`, `alpha`, `weights`, `min_relevance` ... (see
        `recollect.profiles.Profile`).
        """
        started = time.perf_counter()
        base = self._profile if profile is None else options.profile(profile)
        settled = options.settle(base, {**replaced, "limit": limit, "min_salience": min_salience})
        way = options.mode(mode, settled)
        filter = inputs.search_filter(
            project=project, sector=sector, tier=tier, kind=kind, tags=tags, source=source, since=since, until=until,
            min_salience=settled.min_salience,
        )  # fmt: skip
        question = parse(inputs.query_text(query), settled.grammar)
        question = replace(question, stemmed=settled.stemmed)
        found = self._legs.run(question, filter, way, settled, self._vectorizer) if question else Found()
        settled = options.for_legs(settled, way, degraded=found.model is None)
        legs_done = time.perf_counter()
        gathered = gather(self._store, found)
        ranked = rank(gathered.candidates, settled, time.time())
        answer = page(ranked, gathered.rows, question, settled, found.model.name if found.model else None)
        hidden = {"min_similarity": gathered.too_far} if gathered.too_far and settled.min_similarity is not None else {}
        ended = time.perf_counter()
        return Results(
            hits=answer.hits,
            query=query,
            mode=way,
            profile=settled.name,
            took_ms=(ended - started) * 1000,
            degraded=found.degraded,
            hidden={**hidden, **answer.hidden},
            plan=_plan(question, found, legs_done - started, ended - legs_done) if explain else None,
        )

    @overload
    def get(self, ids: str) -> Memory: ...
    @overload
    def get(self, ids: builtins.list[str] | tuple[str, ...]) -> Memories: ...
    def get(self, ids: str | builtins.list[str] | tuple[str, ...]) -> Memory | Memories:
        """One memory by its id, or several in the order asked, naming those not found."""
        if isinstance(ids, str):
            return self._store.require(_id(ids))
        if not isinstance(ids, list | tuple):
            raise InvalidInput(f"get takes an id or a list of ids, not {type(ids).__name__}")
        found = self._store.find([_id(id) for id in ids])
        return Memories(
            tuple(memory for memory in found if memory),
            tuple(id for id, memory in zip(ids, found, strict=True) if not memory),
        )

    def history(self, id: str) -> builtins.list[Version]:
        """What a memory said before its updates, latest first."""
        return self._store.history(_id(id))

    def list(self, *, limit: int = 50, cursor: str | None = None, deleted: bool = False, **filters: Any) -> Page:
        """Memories newest first, page by page; takes the filters of `search`. `deleted` lists the forgotten ones."""
        inputs.whole_number(limit, "limit", 1, 1_000_000_000)
        unknown = set(filters) - set(Filter.__slots__)
        if unknown:
            raise InvalidInput(f"{', '.join(sorted(unknown))}: no such filter; there are {', '.join(Filter.__slots__)}")
        return self._store.page(inputs.search_filter(**filters), limit=limit, cursor=cursor, deleted=deleted)

    # Looking after it

    def stats(self) -> Stats:
        """How much there is, of what, and which model's vectors are compared."""
        return self._store.stats(self._vectorizer.model_name)

    def check(self, repair: bool = False) -> Report:
        """Compare every index and vector with the text; with `repair`, make anew what does not agree."""
        report = self._store.check(repair=repair)
        if repair and report.repaired and self._vectorizer.embedder is not None:
            with suppress(EmbedderError):  # the texts wait; the next write or `reembed` tries again
                self._vectorizer.give_all()
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
            new, old = resolve(embedder), self._own_model
            self._own_model = new if new is not embedder else None
            self._vectorizer = Vectorizer(self._store, new)
            _close(old)
        done = self._vectorizer.give_all(progress)
        if prune:
            self._store.drop_other_vectors(self._vectorizer.model())
        return done

    def _give_vectors(self, texts: builtins.list[Unembedded]) -> None:
        if self._vectorizer.embedder is not None:
            self._vectorizer.give(texts)


def open_memory(
    target: str | Path | None = None,
    *,
    namespace: str = "default",
    embedder: str | Embedder | None = None,
    profile: str = "balanced",
    read_only: bool = False,
    busy_timeout: float = 30.0,
    synchronous: str = "full",
    threads: int | None = None,
) -> Recollect:
    """
    Open a memory, creating it where there is none.

    `target` is a path or ":memory:"; None is the user's own database. `embedder` is None for the bundled model,
    "none" for keyword search only, "openai:MODEL", "ollama:MODEL" or an object with `model_id`, `dimensions` and
    `embed(texts)`. Nothing is read from a config file or the environment, except that a provider reads its own key.
    `synchronous="normal"` is faster and may lose the last writes, never the database, in a power cut.
    """
    options.profile(profile)
    inputs.choice(synchronous, SYNCHRONOUS, "synchronous")
    inputs.number(busy_timeout, "busy_timeout", 0, 86_400)
    if threads is not None:
        inputs.whole_number(threads, "threads", 1, 256)
    model = resolve(embedder, threads=threads)
    path = _path(target)
    if path == ":memory:" or (read_only and nothing_at(Path(path))):
        path, read_only = ":memory:", False  # nothing there to read: an empty memory, and no file made
    store = SqliteStore(
        path,
        namespace=inputs.required_name(namespace, "namespace"),
        read_only=read_only,
        busy_timeout=busy_timeout,
        synchronous=synchronous,
    )
    return Recollect(store, model, profile=profile, own_embedder=model is not embedder)


def default_path() -> Path:
    """The user's own database, where their system keeps such things."""
    from platformdirs import user_data_path

    return user_data_path("recollect", appauthor=False) / "memory.db"


def _path(target: object) -> str:
    if target is None:
        return str(default_path())
    if not isinstance(target, str | os.PathLike):
        raise InvalidInput(f"the database must be a path, not {type(target).__name__}")
    path = os.fspath(target)
    if not isinstance(path, str) or not path.strip():
        raise InvalidInput('the path of the database is empty; name a file, or ":memory:"')
    if "://" in path:
        raise InvalidInput(f"{path.partition('://')[0]}:// databases are not supported; name a file")
    return path


def nothing_at(path: Path) -> bool:
    """Whether there is no database to read yet: no file, or an empty one."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _close(model: Embedder | None) -> None:
    close = getattr(model, "close", None)
    if close:
        close()


def _refusal(number: int, exc: InvalidInput) -> InvalidInput:
    return InvalidInput(f"item {number} cannot be added: {exc}. The {number - 1} before it were kept")


def _draft(item: object, number: int) -> Draft:
    try:
        return inputs.draft({"content": item} if isinstance(item, str) else inputs.mapping(item), datetime.now(UTC))
    except InvalidInput as exc:
        raise _refusal(number, exc) from exc


def _id(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"an id must be text, not {value!r}")
    return inputs.clean(value)


def _plan(query: Query, found: Found, legs_seconds: float, rank_seconds: float) -> dict[str, Any]:
    return {
        "terms": [term.text + "*" * term.prefix for term in query.terms],
        "left_out": [term.text for term in query.spare],
        "keyword_candidates": len(found.keyword),
        "vector_candidates": len(found.vector),
        "legs_ms": round(legs_seconds * 1000, 3),
        "ranking_ms": round(rank_seconds * 1000, 3),
    }
