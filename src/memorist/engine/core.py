"""What all parts of a memory share: the store, the model, the profile, and an end."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from memorist import validation
from memorist.embed.base import Embedder
from memorist.embed.reranker import Reranker
from memorist.errors import Ambiguous, InvalidInput, NotFound
from memorist.ingest.recorder import Recorder
from memorist.ingest.redaction import Redaction
from memorist.ingest.vectorizer import Vectorizer
from memorist.present.hits import seen
from memorist.records import Decay, Filter, Lens, Memory
from memorist.search import options
from memorist.search.legs import Legs
from memorist.search.signals import certain
from memorist.store.base import EmbeddingJob, Store

Moment = datetime | str | float
_NO_REDACTION = Redaction()

logging.getLogger("memorist").addHandler(logging.NullHandler())  # whoever wants to read along sets up another


class Core:
    """A store and a model, opened together and closed together."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        profile: str,
        own_embedder: bool,
        named_embedder: Callable[[str | Embedder], Embedder | None],
        near: str = "report",
        redaction: Redaction = _NO_REDACTION,
        reranker: Reranker,
        own_reranker: bool,
    ) -> None:
        self._store = store
        self._profile = options.profile(profile)
        self._legs = Legs(store)
        self._vectorizer = Vectorizer(store, embedder)
        self._file_legs = Legs(store.documents.chunks)
        self._file_vectorizer = Vectorizer(store.documents.chunks, embedder, parts=False)
        self._recorder = Recorder(store.recalls)
        self._own_model = embedder if own_embedder else None
        self._named_embedder = named_embedder
        self._near = near
        self._redaction = redaction
        self._reranker = reranker
        self._own_reranker = reranker if own_reranker else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, the model and every thread. Closing twice is fine."""
        self._recorder.close()
        self._legs.close()
        self._file_legs.close()
        self._store.close()
        close_model(self._own_model)
        close_model(self._own_reranker)

    @property
    def recalls_lost(self) -> int:
        """How many recalls could not be written down; the searches they belong to were answered all the same."""
        return self._recorder.lost

    def _filter(self, given: Mapping[str, Any], *, include_superseded: object = True) -> Filter:
        """Filters as a caller gives them; a session may be named by a part of its id, but has to exist."""
        filter = validation.search_filter(given, include_superseded=include_superseded)
        if filter.recalled is not None:
            self._recorder.settle()
        if filter.session is None:
            return filter
        session = self._store.sessions.resolve_id(filter.session)
        self._recorder.settle(session)
        return replace(filter, session=session)

    def _give_vectors(self, texts: Sequence[EmbeddingJob]) -> None:
        if self._vectorizer.embedder is not None:
            self._vectorizer.give(texts)

    @property
    def _decay(self) -> Decay:
        return Decay(self._profile.sector_decay, self._profile.fact_decay)

    def _lens(self, name: object) -> Lens:
        wanted, known = validation.required_name(name, "lens"), self._store.lenses.load_all()
        if wanted not in known:
            there_are = f"there are: {', '.join(known)}" if known else "none is set yet: `memorist lens set` makes one"
            raise NotFound(f"there is no lens {wanted!r}; {there_are}")
        return Lens(wanted, **known[wanted])

    def _one(self, id: str, as_of: datetime | None) -> Memory:
        """A memory, now or as it was; NotFound where there was none."""
        memory = self._required(id)
        if as_of is not None:
            (then,) = self._store.find([memory.id], as_of=as_of)
            if then is None:
                raise NotFound(f"memory {memory.short_id} did not exist yet on {as_of:%Y-%m-%d %H:%M} UTC")
            memory = then
        return self._shown(memory, as_of=as_of)

    def _required(self, id: str) -> Memory:
        """The memory of an id; of one that a search in files gave, NotFound tells where that place is."""
        try:
            return self._store.require(id)
        except NotFound as exc:
            with suppress(Ambiguous):
                (chunk,) = self._store.documents.chunks.find([id])
                if chunk is not None:
                    place = f"{id} is no memory but a place in {chunk.source}"
                    raise NotFound(f"{place}; `memorist docs` shows its text and lines") from exc
            raise

    def _shown(self, memory: Memory, detail: str = "full", as_of: datetime | None = None) -> Memory:
        """A memory as it is shown: with the confidence its facts have left, from as far away as asked for."""
        if memory.facts:
            facts = certain(memory.facts, self._profile.fact_decay, as_of or datetime.now(UTC))
            memory = replace(memory, facts=facts)
        return seen(memory, detail)


def given_id(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"an id must be text, not {value!r}")
    return validation.clean(value)


def close_model(model: Embedder | Reranker | None) -> None:
    close = getattr(model, "close", None)
    if close:
        close()
