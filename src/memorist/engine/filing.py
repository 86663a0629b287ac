"""Files: indexed, kept up with, and searched."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memorist import validation
from memorist.documents import Document, DocumentHit, DocumentLink, IndexReport
from memorist.engine.core import Moment
from memorist.engine.reading import Reading
from memorist.ingest.vectorizer import counter
from memorist.present.hits import widened
from memorist.records import Hit, Results
from memorist.search.documents import LinkResolver


class Filing(Reading):
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
        progress: Callable[[int, int], None] | None = None,
    ) -> IndexReport:
        """
        Take in files, folders and globs: markdown, text, code. What has not changed since is left alone; what is gone
        from a folder goes from the index, too. Where no project is given, files that are indexed stay in theirs.

        Secrets are replaced by a mark before anything is stored, unless `redact` is False; `allow` names what is none.
        `progress` is told how many files are done, and how many there are.
        """
        from memorist.ingest.sync import Sync
        from memorist.ingest.walk import walk

        chosen, allowed = validation.paths(paths, "index"), validation.allowances(allow, "allow")
        sync = Sync(
            self._store.documents,
            self._file_vectorizer,
            counter(self._vectorizer.embedder),
            project=validation.name(project, "project"),
            allow=(*self._redaction.allow, *allowed) if validation.flag(redact, "redact") else None,
        )
        wanted, unwanted = validation.patterns(include, "include"), validation.patterns(exclude, "exclude")
        return sync.run(walk(chosen, include=wanted, exclude=unwanted), progress)

    def documents(self, *, project: str | None = None, limit: int = 1000) -> list[Document]:
        """The files that are indexed, by path."""
        validation.whole_number(limit, "limit", 1, 1_000_000_000)
        return self._store.documents.list_documents(validation.name(project, "project"), limit)

    def document(self, path: str | Path) -> Document:
        """One indexed file, with the files that its links lead to and those whose links lead to it."""
        documents = self._store.documents
        document, known = documents.get(os.path.realpath(validation.path(path))), documents.load_indexed_files()
        shelf = LinkResolver.of(known.values())
        links, linked_from = [], dict[str, None]()
        for source, line, target, text in documents.list_links():
            leads_to = shelf.follow(known[source], target) if source in known else None
            if source == document.path:
                links.append(DocumentLink(line, target, text, leads_to))
            elif leads_to == document.path:
                linked_from[source] = None
        return replace(document, links=tuple(links), linked_from=tuple(linked_from))

    def unindex(self, path: str | Path) -> int:
        """Take a file, or all files of a folder, out of the index; gives how many."""
        place = validation.path(path)
        wholes = {place.absolute(), Path(os.path.realpath(place))}  # of a link, where it leads
        known = self._store.documents.load_indexed_files()
        keys = [each.key for name, each in known.items() if wholes & {Path(name), *Path(name).parents}]
        return self._store.documents.remove(keys)

    def search_documents(
        self,
        query: str,
        *,
        limit: int | None = None,
        mode: str = "hybrid",
        profile: str | None = None,
        project: str | Sequence[str] | None = None,
        sector: str | Sequence[str] | None = None,
        tags: str | Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        grouped: bool = True,
        neighbours: int = 0,
        explain: bool = False,
        **replaced: Any,
    ) -> Results:
        """
        Find places in indexed files by word and by meaning: the best of each file, best first; every place where not
        `grouped`.

        `neighbours` adds so many chunks before and after a place to its text; where two places then meet, they are one.
        """
        started = time.perf_counter()
        validation.whole_number(neighbours, "neighbours", 0, 100)
        filters = dict(project=project, sector=sector, tags=tags, since=since, until=until)
        asked = self._asked(
            query, filters, {**replaced, "limit": limit, "record": "off"}, mode=mode, profile=profile, lens=None,
            record_session=None, include_superseded=True,
        )  # fmt: skip
        asked = replace(asked, memories=False, documents=True, grouped=validation.flag(grouped, "grouped"))
        results = self._answer(asked, started, "full", False, (), explain)
        return replace(results, hits=self._with_neighbours(results.hits, neighbours)) if neighbours else results

    def _with_neighbours(self, hits: Sequence[Hit], window: int) -> tuple[Hit, ...]:
        """Each place with what stands around it, best first; places that meet are one."""
        stretches: dict[str, list[tuple[int, int]]] = {}
        places = [hit for hit in hits if isinstance(hit, DocumentHit)]
        for hit in sorted(places, key=lambda hit: hit.ordinal):
            known = stretches.setdefault(hit.document, [])
            first, last = hit.ordinal - window, hit.ordinal + window
            if known and first <= known[-1][1] + 1:
                known[-1] = (known[-1][0], last)
            else:
                known.append((first, last))
        shown, wanted = [], []
        for hit in places:
            here = next((each for each in stretches[hit.document] if each[0] <= hit.ordinal <= each[1]), None)
            if here is not None:
                stretches[hit.document].remove(here)
                shown.append(hit)
                wanted.append((hit.document, *here))
        return tuple(map(widened, shown, self._store.documents.load_chunk_ranges(wanted)))
