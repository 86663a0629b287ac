"""Chroma: a collection on disk, with its HNSW index of the vectors and its index of the fields."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from servant import HITS, Question, Row, System, serve


class ChromaCollection(System):
    package, imports = "chromadb", "chromadb"
    efforts = (100, 200, 500, 1000)  # 100: as it comes

    def open(self) -> None:
        import chromadb

        self._client = chromadb.PersistentClient(self.folder, chromadb.Settings(anonymized_telemetry=False))
        self._collection = self._client.get_or_create_collection(
            "rows", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def write(self, rows: Sequence[Row]) -> None:
        self._collection.add(
            ids=[str(row.number) for row in rows],
            documents=[row.text for row in rows],
            embeddings=np.stack([row.vector for row in rows]),
            metadatas=[{"tenth": row.tenth, "thousandth": row.thousandth} for row in rows],
        )

    def set_effort(self, effort: int) -> None:
        self._collection.modify(configuration={"hnsw": {"ef_search": effort}})
        # An index that is in memory keeps its effort: only one that is loaded again has the new one.
        self._client.close()
        self.open()

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def meaning(question: Question, where: dict[str, str] | None = None) -> Any:
            return self._collection.query(
                query_embeddings=question.vector, n_results=HITS, where=where, include=["documents", "distances"]
            )

        return {
            "meaning": meaning,
            "meaning, 10 %": lambda question: meaning(question, {"tenth": question.tenth}),
            "meaning, .1 %": lambda question: meaning(question, {"thousandth": question.thousandth}),
        }

    def numbers(self, answer: Any) -> list[int]:
        return [int(number) for number in answer["ids"][0]]


if __name__ == "__main__":
    serve(ChromaCollection)
