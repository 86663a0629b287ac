"""Places in documents, ranked as documents: what was found of one speaks for its best place.

Where the links of documents lead: to a path, or, as in `[[a note]]`, to a name.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memorist.documents import IndexedFile
from memorist.search.fusion import Ranked

# What each further place counts, of the one before it. Chosen on 24 questions about the Kubernetes documentation: the
# right page is first for half of them instead of 29 %.
FURTHER = 0.7


def best_places(ranked: Sequence[Ranked], documents: Mapping[int, str], further: float = FURTHER) -> list[Ranked]:
    """
    The best place of each document, and whatever is in none, best first; `documents` tells the document of a key.

    A page that deals with a matter speaks of it in more than one place; one that mentions it does not. So further
    places that were found raise the score of the best one, as one more reason raises a chance: never beyond 1.
    """
    best: dict[object, Ranked] = {}
    missing: dict[object, float] = {}  # to a score of 1
    share: dict[object, float] = {}
    for entry in ranked:
        key = entry.candidate.key
        document = documents.get(key, key)
        best.setdefault(document, entry)
        missing[document] = missing.get(document, 1.0) * (1 - share.setdefault(document, 1.0) * entry.score)
        share[document] *= further
    whole = [_raised(entry, 1 - missing[document]) for document, entry in best.items()]
    return sorted(whole, key=lambda entry: -entry.score)


def _raised(entry: Ranked, score: float) -> Ranked:
    if score - entry.score < 1e-12:  # of one place nothing changes but the last digits
        return entry
    return replace(entry, score=score, trace={**entry.trace, "further places": score - entry.score})


PAGES = ("", ".md", ".markdown", "/index.md", "/_index.md", "/README.md")  # what a link may leave out


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """The documents that a link may lead to, by path and by root and name; paths have forward slashes here."""

    paths: dict[str, str]
    names: dict[tuple[str, str], str]

    @classmethod
    def of(cls, known: Iterable[IndexedFile]) -> "LinkResolver":
        paths, names = dict[str, str](), dict[tuple[str, str], str]()
        for each in sorted(known, key=lambda each: (len(each.path), each.path)):  # of one name, the nearest to the root
            paths[_slashes(each.path)] = each.path
            names.setdefault((each.root, _name(_slashes(each.path))), each.path)
        return cls(paths, names)

    def follow(self, source: IndexedFile, target: str) -> str | None:
        """The document that a link in another one leads to."""
        base = _slashes(source.root) if target.startswith("/") else posixpath.dirname(_slashes(source.path))
        whole = posixpath.normpath(posixpath.join(base, target.lstrip("/")))
        by_path = next((self.paths[whole + page] for page in PAGES if whole + page in self.paths), None)
        is_name = not posixpath.splitext(target)[1]
        return by_path or (self.names.get((source.root, _name(target))) if is_name else None)


def _name(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0].casefold()


def _slashes(path: str) -> str:
    return path.replace("\\", "/")
