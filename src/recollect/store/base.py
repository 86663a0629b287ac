"""The seam to databases: the verbs every backend speaks. One store serves one namespace and sees nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.records import Draft, Filter, Match, Memory, Page, Query, Report, Row, Stats, Version


@dataclass(frozen=True, slots=True)
class Model:
    """Whose vectors are compared."""

    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A memory that waits for its vector; it is made of title and content as they are now."""

    key: int
    title: str | None
    content: str

    @property
    def text(self) -> str:
        return f"{self.title}\n{self.content}" if self.title else self.content


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a draft: stored as new, or known already and reinforced."""

    memory: Memory
    pending: Unembedded | None


@dataclass(frozen=True, slots=True)
class Nearest:
    """What the vector leg found, and how many memories have no vector yet to be found by."""

    matches: Sequence[Match]
    missing: int = 0
    total: int = 0


class Store(Protocol):
    """Each verb is one transaction: done whole, or not at all."""

    def add(self, drafts: Sequence[Draft], reinforcement: float) -> list[Kept]: ...

    def find(self, ids: Sequence[str], *, deleted: bool = False) -> list[Memory | None]:
        """The memories with these ids, or unique beginnings or endings of ids, in the order asked."""

    def require(self, id: str) -> Memory:
        """The live memory with this id; NotFound says what became of it otherwise."""

    def page(self, filter: Filter, *, limit: int, cursor: str | None, deleted: bool) -> Page: ...

    def update(self, id: str, changes: Mapping[str, Any], now: datetime) -> tuple[Memory, Unembedded | None]: ...

    def history(self, id: str) -> list[Version]: ...

    def forget(self, id: str, now: datetime) -> None: ...

    def restore(self, id: str) -> Memory: ...

    def erase(self, ids: Sequence[str]) -> int: ...

    def purge(self, before: datetime | None) -> int:
        """Erase what was forgotten (before a time), and wipe what is left of it in the file."""

    def match(
        self, query: Query, filter: Filter, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> list[Match]:
        """The keyword leg: what holds the words of the query, best first; a page of it if there is so much."""

    def nearest(self, model: Model, vector: NDArray[np.float32], filter: Filter, *, limit: int) -> Nearest:
        """The vector leg: what is closest in meaning, best first; `limit` of them if so many pass the filter."""

    def rows(self, keys: Sequence[int], model: Model | None, vector: NDArray[np.float32] | None) -> list[Row]:
        """What ranking and presenting need of these memories, in one read; gone ones are left out."""

    def pending(self, after: int, limit: int) -> Sequence[Unembedded]:
        """Live texts beyond a key that no vector was made of since they were written."""

    def without_vector(self, model: Model, after: int, limit: int) -> Sequence[Unembedded]:
        """Live texts beyond a key that have no vector of this model."""

    def put_vectors(self, model: Model, texts: Sequence[Unembedded], vectors: NDArray[np.float32]) -> None: ...

    def drop_other_vectors(self, model: Model) -> int: ...

    def stats(self, model: str | None) -> Stats: ...

    def check(self, *, repair: bool) -> Report: ...

    def close(self) -> None: ...
