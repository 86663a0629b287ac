"""bm25s: BM25 scores of every word and text, made ahead. A part, not a system: no vectors, no additions."""

from collections.abc import Callable, Sequence
from typing import Any

from servant import HITS, Question, Row, System, serve


class Bm25sIndex(System):
    package, imports = "bm25s", "bm25s"
    is_durable = False  # in memory until it is saved
    takes_single_rows = False

    def open(self) -> None:
        import bm25s

        self._texts: list[str] = []
        self._index = bm25s.BM25()
        if (self.folder / "index").exists():
            self._index = bm25s.BM25.load(str(self.folder / "index"))

    def write(self, rows: Sequence[Row]) -> None:
        self._texts += (row.text for row in rows)

    def finish(self) -> None:
        import bm25s

        self._index.index(bm25s.tokenize(self._texts, stopwords=None, show_progress=False), show_progress=False)
        self._index.save(str(self.folder / "index"))

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        import bm25s

        def words(question: Question) -> Any:
            terms = bm25s.tokenize([question.text], stopwords=None, show_progress=False)
            return self._index.retrieve(terms, k=HITS, show_progress=False)

        return {"words": words}

    def numbers(self, answer: Any) -> list[int]:
        return [int(number) for number in answer[0][0]]


if __name__ == "__main__":
    serve(Bm25sIndex)
