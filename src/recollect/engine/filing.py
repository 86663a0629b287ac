"""Files: indexed, kept up with, and searched."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from recollect import inputs
from recollect.documents import Document, DocumentHit, IndexReport, Place
from recollect.engine.core import Core
from recollect.errors import InvalidInput
from recollect.ingest.vectorize import Vectorizer
from recollect.present.hits import page
from recollect.profiles import Profile
from recollect.rank.fuse import rank
from recollect.records import Hit, Query, Results
from recollect.retrieve import options
from recollect.retrieve.candidates import Candidates, gather
from recollect.retrieve.legs import Found, Legs
from recollect.retrieve.query import parse

CHUNKS_A_DOCUMENT = 4  # looked at for each document that is shown
CHARACTERS_A_TOKEN = 4  # where the model does not count tokens itself


class Filing(Core):
    """Everything about documents."""

    def index(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        project: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: Callable[[int], None] | None = None,
    ) -> IndexReport:
        """
        Take in files, folders and globs: markdown, text, code. What has not changed since is left alone; what is gone
        from a folder goes from the index, too.

        Secrets are replaced by a mark before anything is stored, unless `redact` is False; `allow` names what is none.
        """
        from recollect.ingest.sync import Sync
        from recollect.ingest.walk import walk

        chosen = [paths] if isinstance(paths, str | Path) else list(paths)
        if not chosen:
            raise InvalidInput("index needs a file or a folder")
        sync = Sync(
            self._store.documents,
            self._file_vectorizer,
            self._count_tokens,
            project=inputs.name(project, "project"),
            allow=tuple(allow) if inputs.flag(redact, "redact") else None,
        )
        return sync.run(walk(chosen, include=include, exclude=exclude), progress)

    def documents(self, *, project: str | None = None, limit: int = 1000) -> list[Document]:
        """The files that are indexed, by path."""
        inputs.whole_number(limit, "limit", 1, 1_000_000_000)
        return self._store.documents.page(inputs.name(project, "project"), limit)

    def unindex(self, path: str | Path) -> int:
        """Take a file, or all files of a folder, out of the index; gives how many."""
        whole = Path(path).absolute()
        known = self._store.documents.known()
        keys = [each.key for name, each in known.items() if Path(name) == whole or whole in Path(name).parents]
        return self._store.documents.remove(keys)

    def search_documents(
        self,
        query: str,
        *,
        project: str | Sequence[str] | None = None,
        limit: int = 10,
        mode: str = "hybrid",
        neighbours: int = 0,
        **replaced: Any,
    ) -> Results:
        """
        Find places in files by word and by meaning: the best of each document, best first.

        `neighbours` adds so many chunks before and after each to its text.
        """
        inputs.whole_number(neighbours, "neighbours", 0, 100)
        started = datetime.now(UTC)
        count = inputs.limit(limit)
        settled = options.settle(self._profile, {**replaced, "limit": min(count * CHUNKS_A_DOCUMENT, inputs.MAX_LIMIT)})
        way = options.mode(mode, settled)
        text = inputs.query_text(query)
        question = replace(parse(text, settled.grammar), stemmed=settled.stemmed)
        found, gathered = self._in_files(question, self._file_filter(project), way, settled, started)
        settled = options.for_legs(settled, way, degraded=found.model is None)
        ranked = rank(gathered.candidates, settled, started.timestamp())
        model = found.model.name if found.model else None
        answer = page(ranked, gathered, question, settled, model, started, detail="full", include_facts=False)
        hits = self._placed(answer.hits, answer.keys)
        best = {hit.path: hit for hit in reversed(hits)}
        shown = sorted(best.values(), key=lambda hit: -hit.score)[:count]
        return Results(
            hits=tuple(self._with_neighbours(hit, neighbours) for hit in shown),
            query=text,
            mode=way,
            profile=settled.name,
            took_ms=(datetime.now(UTC) - started).total_seconds() * 1000,
            degraded=found.degraded,
        )

    @cached_property
    def _file_vectorizer(self) -> Vectorizer:
        return Vectorizer(self._store.documents.chunks, self._vectorizer.embedder)

    @cached_property
    def _file_legs(self) -> Legs:
        return Legs(self._store.documents.chunks)

    def _file_filter(self, project: object) -> Any:
        return inputs.search_filter({"project": project})

    def _in_files(
        self, question: Query, filter: Any, mode: str, profile: Profile, now: datetime
    ) -> tuple[Found, Candidates]:
        """What the legs find among chunks."""
        found = self._file_legs.run(question, filter, mode, profile, self._file_vectorizer) if question else Found()
        return found, gather(self._store.documents.chunks, found, profile, now, None)

    def _placed(self, hits: Sequence[Hit], keys: Sequence[int]) -> list[DocumentHit]:
        """Hits among chunks, with where they stand."""
        places = self._store.documents.places(keys)
        return [_document_hit(hit, places[key]) for hit, key in zip(hits, keys, strict=True) if key in places]

    def _with_neighbours(self, hit: DocumentHit, window: int) -> DocumentHit:
        if not window:
            return hit
        document, ordinal = hit.memory.metadata["document"], hit.memory.metadata["ordinal"]
        around = self._store.documents.around(document, ordinal, window)
        text = "\n".join(content for _, _, content in around)
        memory = replace(hit.memory, content=text)
        return replace(hit, memory=memory, start_line=around[0][0], end_line=around[-1][1], highlights=())

    def _count_tokens(self, text: str) -> int:
        count = getattr(self._vectorizer.embedder, "count_tokens", None)
        return int(count(text)) if count else -(-len(text) // CHARACTERS_A_TOKEN)


def _document_hit(hit: Hit, place: Place) -> DocumentHit:
    where = {"document": place.document, "ordinal": place.ordinal}
    memory = replace(hit.memory, metadata={**hit.memory.metadata, **where})
    given = {each.name: getattr(hit, each.name) for each in fields(Hit) if each.name != "memory"}
    return DocumentHit(
        memory=memory,
        **given,
        path=place.path,
        title=place.title,
        breadcrumb=place.breadcrumb,
        start_line=place.start_line,
        end_line=place.end_line,
    )
