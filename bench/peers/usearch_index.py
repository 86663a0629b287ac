"""usearch: an HNSW graph of half-precision vectors, saved to a file. A part, not a system: it keeps no texts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from servant import DIMENSIONS, HITS, Question, Row, System, serve


class UsearchIndex(System):
    package, imports = "usearch", "usearch.index"
    efforts = (64, 128, 256, 512, 1024)
    is_durable = False  # in memory until it is saved

    def open(self) -> None:
        from usearch.index import Index

        self._index = Index(ndim=DIMENSIONS, metric="cos", dtype="f16")
        if (self.folder / "vectors").exists():
            self._index.load(self.folder / "vectors")

    def write(self, rows: Sequence[Row]) -> None:
        self._index.add(np.array([row.number for row in rows]), np.stack([row.vector for row in rows]))

    def finish(self) -> None:
        self._index.save(self.folder / "vectors")

    def set_effort(self, effort: int) -> None:
        self._index.expansion_search = effort

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        return {"meaning": lambda question: self._index.search(question.vector, HITS)}

    def numbers(self, answer: Any) -> list[int]:
        return [int(key) for key in answer.keys]


if __name__ == "__main__":
    serve(UsearchIndex)
