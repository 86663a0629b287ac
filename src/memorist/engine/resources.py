"""Shared by all components of one memory: the store with its upkeep, the models, redaction and the recall log."""

import _thread
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from memorist import validation
from memorist.arguments import NO_FILTER, Filter, check_filters
from memorist.embed.base import ActiveModel, Embedder, Reranker, close_model
from memorist.engine.recorder import Recorder
from memorist.errors import Ambiguous, EmbedderError, NotFound, StoreCorrupt
from memorist.ids import new_id
from memorist.ingest.vectorizer import Progress, Vectorizer, offset_progress
from memorist.profiles.profile import Profile
from memorist.records import RECORDED_CHARACTERS, SERVED, Decay, Lens, Memory, Recall, RecalledMemory, Reinforcement
from memorist.redact.redaction import Redaction
from memorist.reports import CheckReport, Stats
from memorist.search.page import apply_detail
from memorist.search.pipeline import Pipeline
from memorist.search.signals import with_effective_confidence
from memorist.store.records import EmbeddingJob, RecallLimits
from memorist.store.store import Store

logging.getLogger("memorist").addHandler(logging.NullHandler())  # an application that wants the log adds its own
_MASKED_CHARACTERS = 20_000  # of a question before it is cut to be recorded, as half a secret looks like none


class Resources:
    """A store and its models, opened together and closed together."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        profile: Profile,
        search_timeout: float,
        owns_embedder: bool,
        resolve_embedder: Callable[[str | Embedder], Embedder | None],
        on_near_duplicate: str,
        redaction: Redaction,
        model_redaction: Redaction,
        reranker: Reranker,
        owns_reranker: bool,
        surface: str,
        records_prompts: bool,
        recall_limits: RecallLimits,
    ) -> None:
        self.store = store
        self.profile = profile
        self.search_timeout = search_timeout
        self.on_near_duplicate = on_near_duplicate
        self.redaction = redaction
        self.model_redaction = model_redaction  # of what models write: turns, files, facts and summaries of sessions
        self.reranker = reranker
        self.recorder = Recorder(store, recall_limits)
        self.surface = surface  # by which searches come
        self.records_prompts = records_prompts
        self.pipeline = Pipeline(store, reranker)
        self._resolve_embedder = resolve_embedder
        self._owns_embedder = owns_embedder
        self._owns_reranker = owns_reranker
        self.restriction = NO_FILTER  # lets everything pass that the caller may know of
        self.owns_machine = True  # else the caller is told nothing of the file, which holds other namespaces, too
        self._set_model(embedder)

    @property
    def is_served(self) -> bool:
        """True if callers may be on other machines, so that paths and patterns are not those of a user of this one."""
        return self.surface in SERVED

    def restrict_to(self, project: str) -> "Resources":
        """Return the same resources for a caller who may not know that there are other projects."""
        restricted = copy(self)
        restricted.restriction = Filter(project=(project,), restricted=True)
        # With a queue shared by all, the number of texts that still wait would tell about those of other projects.
        restricted.vectorizer = Vectorizer(self.store, self.model, project=project)
        return restricted

    def _set_model(self, embedder: Embedder | None) -> None:
        self.model = ActiveModel(embedder)
        self.vectorizer = Vectorizer(self.store, self.model)
        self.file_vectorizer = Vectorizer(self.store.documents.chunks, self.model, parts=False)

    def stats(self) -> Stats:
        self.recorder.settle()
        found = replace(self.store.stats(self.model.name), recalls_lost=self.recorder.lost)
        return found if self.owns_machine else replace(found, path=None, size_bytes=None)

    def check(self, repair: bool) -> CheckReport:
        report = self.store.check(repair=repair)
        if repair and report.repaired and self.model.embedder is not None:
            # The texts wait; the next write or `reembed` tries again.
            with suppress(EmbedderError, StoreCorrupt):
                self.vectorizer.embed_all()
                self.file_vectorizer.embed_all()
        return report if self.owns_machine else report.without_place()

    def reembed(self, embedder: str | Embedder | None, progress: Progress | None, *, prune: bool) -> int:
        if embedder is not None:
            self._switch_embedder(embedder)
        done = self.vectorizer.embed_all(progress)
        done += self.file_vectorizer.embed_all(offset_progress(done, progress))
        if prune:
            for store in (self.store, self.store.documents.chunks):
                store.vectors.drop_others(self.model.identify())
        return done

    def _switch_embedder(self, embedder: str | Embedder) -> None:
        old, owned = self.model, self._owns_embedder
        new = self._resolve_embedder(embedder)
        self._owns_embedder = new is not embedder
        self._set_model(new)
        if owned:
            close_model(old.embedder)

    def close(self) -> None:
        """Release the file, the models and every thread. Closing twice is fine."""
        self.recorder.close()
        self.pipeline.close()
        self.store.close()
        if self._owns_embedder:
            close_model(self.model.embedder)
        if self._owns_reranker:
            close_model(self.reranker)

    @property
    def decay(self) -> Decay:
        """The daily losses of salience and of confidence, by the profile."""
        return Decay(self.profile.sector_decay, self.profile.fact_decay)

    def embed(self, *jobs: EmbeddingJob | None, promptly: bool = True) -> str | None:
        """
        Embed texts that were just written, and some that wait; None stands for a text that needs no vector.

        Return why these texts wait for a vector, if they do. Long work, of which nobody waits for each step, need not
        be done `promptly`.
        """
        reason = self.vectorizer.embed([job for job in jobs if job], promptly=promptly)
        return reason and f"found by keyword only until the model makes its vector: {reason}"

    def begin_loading(self) -> None:
        """Have the vectors read in a thread while the first search loads the model."""
        embedder = self.model.embedder
        if embedder is not None and not getattr(embedder, "is_loaded", True):
            # Not a Thread: Ctrl-C in the midst of its `start` raises a RuntimeError.
            _thread.start_new_thread(self._load_vectors, ())

    def _load_vectors(self) -> None:
        with suppress(Exception):  # which the search will meet as well, and tell
            self.store.vectors.load(self.model.identify())

    def record_prompt(
        self,
        query: str,
        mode: str,
        profile: str,
        lens: str | None,
        memories: tuple[RecalledMemory, ...],
        tokens: int,
        reinforcement: float = 0.0,
    ) -> None:
        """Record what an agent was told. Secrets in the question are masked, as they are in a saved conversation."""
        masked = replace(self.redaction, on=True).redact_text(query[:_MASKED_CHARACTERS])[:RECORDED_CHARACTERS]
        recall = Recall(
            new_id(), masked, datetime.now(UTC), mode, profile, lens, None, memories, self.surface, tokens
        )  # fmt: skip
        self.recorder.put(recall, Reinforcement(reinforcement, self.decay))

    def choose_redaction(self, redact: object, allow: object) -> Redaction:
        """Return the redaction of files and conversations, which is on unless the caller turns it off."""
        check = validation.literal_allowances if self.is_served else validation.allowances
        allowed = (*self.redaction.allow, *check(allow, "allow"))
        return Redaction(validation.flag(redact, "redact"), allowed)

    def resolve_filter(self, filters: Mapping[str, Any], *, include_superseded: object = True) -> Filter:
        """Check filters as callers give them; a session may be named by a part of its id, but has to exist."""
        filter = check_filters(filters, include_superseded=include_superseded)
        if self.restriction.restricted:
            filter = replace(filter, project=self.restriction.project, include_global=False, restricted=True)
        if filter.recalled is not None:
            self.recorder.settle()
        if filter.session is None:
            return filter
        session = self.store.sessions.resolve_id(filter.session)
        self.recorder.settle(session)
        return replace(filter, session=session)

    def find_lens(self, name: object) -> Lens:
        """Return a lens by its name; NotFound lists those there are."""
        wanted, known = validation.required_name(name, "lens"), self.store.lenses.load_all()
        if self.restriction.restricted and not (wanted in known and self._is_within_wall(known[wanted])):
            raise NotFound(f"there is no lens {wanted!r}")  # the names of others may tell of other projects
        if wanted not in known:
            there_are = f"there are: {', '.join(known)}" if known else "none is set yet: `memorist lens set` makes one"
            raise NotFound(f"there is no lens {wanted!r}; {there_are}")
        return Lens(wanted, **known[wanted])

    def _is_within_wall(self, lens: Mapping[str, Any]) -> bool:
        """Return whether a lens is for every project, or for one that the caller may know of."""
        projects = lens.get("filters", {}).get("project") or self.restriction.project
        return not set(self.restriction.project).isdisjoint([projects] if isinstance(projects, str) else projects)

    def find_memory(self, id: object, as_of: datetime | None) -> Memory:
        """Return a memory, now or as it was; NotFound where there was none."""
        wanted = validation.id_or_part(id)
        if as_of is not None:
            (then,) = self.store.find([wanted], as_of=as_of)  # it may have expired since
            if then is not None:
                return self.present(then, as_of=as_of)
        memory = self._require(wanted)
        if as_of is not None:
            raise NotFound(f"memory {memory.short_id} did not exist yet on {as_of:%Y-%m-%d %H:%M} UTC")
        return self.present(memory)

    def find_chunk(self, id: object, as_of: datetime | None = None) -> Memory | None:
        """Return the chunk of an indexed file that an id names and no memory has, as a memory."""
        wanted = validation.id_or_part(id)
        with suppress(Ambiguous):
            (memory,) = self.store.find([wanted])
            if memory is None:
                (chunk,) = self.store.documents.chunks.find([wanted], as_of=as_of)
                return chunk and replace(chunk, namespace=self.store.namespace)
        return None

    def _require(self, id: str) -> Memory:
        """Return the memory of an id; of a chunk's id, NotFound tells which file it is in."""
        try:
            return self.store.require(id)
        except NotFound as exc:
            if chunk := self.find_chunk(id):
                message = f"{id} is not a memory but a chunk of {chunk.source}"
                raise NotFound(f"{message}; `memorist docs` shows its text and lines") from exc
            raise

    def present(self, memory: Memory, detail: str = "full", as_of: datetime | None = None) -> Memory:
        """Return a memory as callers see it: facts with their present confidence, in as much detail as asked for."""
        if memory.facts:
            facts = with_effective_confidence(memory.facts, self.profile.fact_decay, as_of or datetime.now(UTC))
            memory = replace(memory, facts=facts)
        return apply_detail(memory, detail)
