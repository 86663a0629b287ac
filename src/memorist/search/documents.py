"""Documents in search: their passages ranked as documents, and the links between them resolved."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memorist.documents import IndexedFile
from memorist.search.fusion import Ranked

# How much each further passage of a document counts, relative to the one before it. Chosen on 24 questions about the
# Kubernetes documentation: the right page is first for half of them instead of 29 %.
FURTHER_PASSAGE_DECAY = 0.7

_IMPLIED_SUFFIXES = ("", ".md", ".markdown", "/index.md", "/_index.md", "/README.md")  # a link may leave them out


def group_by_document(
    ranked: Sequence[Ranked], documents: Mapping[int, str], decay: float = FURTHER_PASSAGE_DECAY
) -> list[Ranked]:
    """
    Keep the best passage of each document, and whatever is in none, best first; `documents` maps keys to documents.

    A page about a subject mentions it in more than one passage. So further passages raise the score of the best one, as
    independent evidence raises a probability: never beyond 1.
    """
    best: dict[object, Ranked] = {}
    missing: dict[object, float] = {}  # to a score of 1
    share: dict[object, float] = {}
    for entry in ranked:
        key = entry.candidate.key
        document = documents.get(key, key)
        best.setdefault(document, entry)
        missing[document] = missing.get(document, 1.0) * (1 - share.setdefault(document, 1.0) * entry.score)
        share[document] *= decay
    grouped = [_with_score(entry, 1 - missing[document]) for document, entry in best.items()]
    return sorted(grouped, key=lambda entry: -entry.score)


def _with_score(entry: Ranked, score: float) -> Ranked:
    if score - entry.score < 1e-12:  # a single passage: nothing but rounding
        return entry
    return replace(entry, score=score, trace={**entry.trace, "further passages": score - entry.score})


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """The documents that links can lead to, by path and by root and name; paths have forward slashes here."""

    paths: dict[str, str]
    names: dict[tuple[str, str], str]

    @classmethod
    def of(cls, files: Iterable[IndexedFile]) -> "LinkResolver":
        paths, names = dict[str, str](), dict[tuple[str, str], str]()
        for file in sorted(files, key=lambda file: (len(file.path), file.path)):  # of one name, the nearest to the root
            paths[_with_slashes(file.path)] = file.path
            names.setdefault((file.root, _document_name(_with_slashes(file.path))), file.path)
        return cls(paths, names)

    def resolve(self, source: IndexedFile, target: str) -> str | None:
        """Return the document that a link in `source` leads to: by path or, as in `[[a note]]`, by name."""
        base = _with_slashes(source.root) if target.startswith("/") else posixpath.dirname(_with_slashes(source.path))
        path = posixpath.normpath(posixpath.join(base, target.lstrip("/")))
        by_path = next((self.paths[path + end] for end in _IMPLIED_SUFFIXES if path + end in self.paths), None)
        is_name = not posixpath.splitext(target)[1]
        return by_path or (self.names.get((source.root, _document_name(target))) if is_name else None)


def _document_name(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0].casefold()


def _with_slashes(path: str) -> str:
    return path.replace("\\", "/")
