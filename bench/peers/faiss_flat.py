"""faiss, exact: every vector in memory as float32. A part, not a system: it keeps no texts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from servant import DIMENSIONS, HITS, Question, Row, System, serve


class FaissFlat(System):
    package, imports = "faiss-cpu", "faiss"
    is_durable = False  # in memory until it is saved

    def open(self) -> None:
        import faiss

        file = str(self.folder / "vectors")
        self._index = faiss.read_index(file) if (self.folder / "vectors").exists() else self.make_index(faiss)

    def make_index(self, faiss: Any) -> Any:
        return faiss.IndexFlatIP(DIMENSIONS)

    def write(self, rows: Sequence[Row]) -> None:
        self._index.add(np.stack([row.vector for row in rows]))

    def finish(self) -> None:
        import faiss

        faiss.write_index(self._index, str(self.folder / "vectors"))

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        return {"meaning": lambda question: self._index.search(question.vector[None], HITS)}

    def numbers(self, answer: Any) -> list[int]:
        return [int(number) for number in answer[1][0]]


if __name__ == "__main__":
    serve(FaissFlat)
