"""Where the links of documents lead: to a path, or, as in `[[a note]]`, to a name."""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from memorist.documents import Known

PAGES = ("", ".md", ".markdown", "/index.md", "/_index.md", "/README.md")  # what a link may leave out


@dataclass(frozen=True, slots=True)
class Shelf:
    """The documents that a link may lead to, by path and by root and name; paths have forward slashes here."""

    paths: dict[str, str]
    names: dict[tuple[str, str], str]

    @classmethod
    def of(cls, known: Iterable[Known]) -> "Shelf":
        paths, names = dict[str, str](), dict[tuple[str, str], str]()
        for each in sorted(known, key=lambda each: (len(each.path), each.path)):  # of one name, the nearest to the root
            paths[_slashes(each.path)] = each.path
            names.setdefault((each.root, _name(_slashes(each.path))), each.path)
        return cls(paths, names)

    def follow(self, source: Known, target: str) -> str | None:
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
