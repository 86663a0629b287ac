"""
A memory: the whole interface, over the resources of this process or over a transport to a server.

Everyday verbs are methods of `Memorist`, each written where it is implemented: `Writing`, `Linking`, `Finding`,
`Listing` and `Prompting`. All else is in rooms, named by their nouns.
"""

from collections.abc import Iterator
from typing import Self

from memorist.contract import EVENTS, Transport, local_only, names_unknown, operation
from memorist.embed.base import Embedder
from memorist.engine.context import Prompting
from memorist.engine.documents import Documents
from memorist.engine.facts import Facts
from memorist.engine.feed import follow_changes
from memorist.engine.files import Files
from memorist.engine.lenses import Lenses
from memorist.engine.links import Links
from memorist.engine.listing import Listing
from memorist.engine.resources import Resources
from memorist.engine.review import Review
from memorist.engine.search import Finding
from memorist.engine.searches import Searches
from memorist.engine.sessions import Sessions
from memorist.engine.transfer import Transfer
from memorist.engine.writing import Writing
from memorist.ingest.vectorizer import Progress
from memorist.reports import CheckReport, Stats
from memorist.views import Change


class Memorist(Writing, Finding, Listing, Prompting):
    """
    A memory: text in, found again by word and by meaning.

    Made by `memorist.open`, or by `memorist.connect` for one on a server. One object serves any number of threads;
    close it, or use it in a `with` block.
    """

    def __init__(self, backend: Resources | Transport) -> None:
        super().__init__(backend)
        self._backend = backend
        self.sessions = Sessions(backend)
        self.facts = Facts(backend)
        self.links = Links(backend)
        self.documents = Documents(backend)
        self.files = Files(backend)
        self.lenses = Lenses(backend)
        self.searches = Searches(backend)
        self.review = Review(self, backend)
        self.transfer = Transfer(backend)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @names_unknown
    def close(self) -> None:
        """Release the file, the model and every thread, or all connections. Closing twice is fine."""
        self._backend.close()

    @operation("GET /events", gives=EVENTS, local=("position",))
    def changes(self, position: str | None = None) -> Iterator[Change]:
        """
        Follow what any process writes or recalls: first what came since a position, then what comes, as it comes.

        Each change tells the position to go on from; the first tells where it begins.
        """
        return follow_changes(self._store, position)

    @operation("GET /stats", answer="stats")
    def stats(self) -> Stats:
        """Count what there is, and tell which model's vectors are in use."""
        return self._resources.stats()

    @names_unknown
    def check(self, repair: bool = False) -> CheckReport:
        """Compare every text with its hash, and every index and vector with the text; `repair` makes those again."""
        return self._repair() if repair else self._check()

    @operation("GET /check", slow=True, called="check")
    def _check(self) -> CheckReport:
        """Compare texts, indexes and vectors with each other."""
        return self._resources.check(False)

    @operation("POST /check", slow=True, called="repair")
    def _repair(self) -> CheckReport:
        """Make again the indexes and vectors that are damaged."""
        return self._resources.check(True)

    @local_only("uses the models of the server's machine: run `memorist reembed` there")
    def reembed(
        self, embedder: str | Embedder | None = None, progress: Progress | None = None, *, prune: bool = False
    ) -> int:
        """
        Make the missing vectors of the active model, or of another one, which becomes the active one; return how many.

        Stopped at any point, it goes on from there the next time. Vectors of other models stay for those who still use
        them, unless `prune` removes them at the end.
        """
        return self._resources.reembed(embedder, progress, prune=prune)


ROOMS: tuple[type, ...] = (
    Memorist, Sessions, Facts, Links, Documents, Files, Lenses, Searches, Review, Transfer,
)  # fmt: skip
