"""Memorist, with the vectors of texts and questions given in place of its model."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from servant import DIMENSIONS, HITS, Question, Row, System, serve

INDEXING_THREAD, SETTLING_SECONDS = "memorist-image", 2.0


class GivenVectors:
    """An embedder that is told each vector before it is asked for it."""

    model_id, dimensions = "given", DIMENSIONS

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def embed(self, texts: Sequence[str]) -> Any:
        return np.stack([self.known[text] for text in texts])


class MemoristItself(System):
    package, imports = "memorist", "memorist"

    def open(self) -> None:
        import memorist

        self._given = GivenVectors()
        self._memory = memorist.open(self.folder / "memories.db", embedder=self._given)

    def write(self, rows: Sequence[Row]) -> None:
        self._given.known = {row.text: row.vector for row in rows}
        self._memory.add_many(
            {"content": row.text, "id": f"row-{row.number}", "project": row.thousandth, "source": row.tenth}
            for row in rows
        )

    def add(self, row: Row) -> None:
        self._given.known = {row.text: row.vector}
        self._memory.add(row.text, id=f"row-{row.number}", project=row.thousandth, source=row.tenth)

    def settle(self, questions: Sequence[Question]) -> None:
        """Search until the index of words, which is made in a thread once it pays, is there."""
        deadline, thread = time.monotonic() + SETTLING_SECONDS, None
        while thread is None and time.monotonic() < deadline:
            for question in questions:
                self._memory.search(question.text, mode="keyword")
            thread = next((one for one in threading.enumerate() if one.name == INDEXING_THREAD), None)
        if thread:
            thread.join()

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def search(question: Question, **options: Any) -> Any:
            self._given.known[question.text] = question.vector
            return self._memory.search(question.text, limit=HITS, **options)

        return {
            "hybrid": search,
            "words": lambda question: search(question, mode="keyword"),
            "meaning": lambda question: search(question, mode="semantic"),
            "hybrid, 10 %": lambda question: search(question, source=question.tenth),
            "hybrid, .1 %": lambda question: search(question, project=question.thousandth),
            "meaning, 10 %": lambda question: search(question, mode="semantic", source=question.tenth),
            "meaning, .1 %": lambda question: search(question, mode="semantic", project=question.thousandth),
        }

    def numbers(self, answer: Any) -> list[int]:
        return [int(hit.memory.id.removeprefix("row-")) for hit in answer]


if __name__ == "__main__":
    serve(MemoristItself)
