"""Mem0 with its own local store, no language model, and the vectors given in place of its embedder."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from servant import DIMENSIONS, HITS, Question, Row, System, serve

os.environ["MEM0_TELEMETRY"] = "False"  # read at its import: else it sends events, and fetches notices


class GivenVectors:
    """An embedder that is told each vector before it is asked for it."""

    def __init__(self) -> None:
        self.known: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.known[text]


class Mem0Memory(System):
    package, imports = "mem0ai", "mem0"
    shares_processes = False  # a process locks the folder

    def open(self) -> None:
        os.environ["MEM0_DIR"] = str(self.folder)  # else its import makes a folder in the user's home
        from mem0 import Memory

        store = {"path": str(self.folder / "qdrant"), "embedding_model_dims": DIMENSIONS, "on_disk": True}
        never_called = {"provider": "openai", "config": {"api_key": "none"}}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(self.folder / "history.db"),
                "llm": never_called,
                "embedder": never_called,
            }
        )
        # Its list of embedders is closed, so that one of our own can only take the place of another.
        self._given = self._memory.embedding_model = GivenVectors()

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:  # it has no call for many texts with fields of their own
            self.add(row)

    def add(self, row: Row) -> None:
        self._given.known = {row.text: row.vector.tolist()}
        fields = {"number": row.number, "tenth": row.tenth}
        self._memory.add(row.text, user_id=row.thousandth, metadata=fields, infer=False)

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def meaning(question: Question, **filters: str) -> Any:
            self._given.known[question.text] = question.vector.tolist()
            return self._memory.search(question.text, top_k=HITS, filters={"user_id": "*", **filters}, threshold=0.0)

        return {
            "meaning": meaning,
            "meaning, 10 %": lambda question: meaning(question, tenth=question.tenth),
            "meaning, .1 %": lambda question: meaning(question, user_id=question.thousandth),
        }

    def numbers(self, answer: Any) -> list[int]:
        return [memory["metadata"]["number"] for memory in answer["results"]]


if __name__ == "__main__":
    serve(Mem0Memory)
