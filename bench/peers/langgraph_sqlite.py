"""LangGraph's store in an SQLite file, with the vectors of texts and questions given in place of its embedder."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from servant import DIMENSIONS, HITS, Question, Row, System, serve


class LanggraphSqlite(System):
    package, imports = "langgraph-checkpoint-sqlite", "langgraph.store.sqlite"
    batch = 2_000  # it writes a batch by one statement, and SQLite bounds a statement's parameters

    def open(self) -> None:
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            raise SystemExit(
                "Error: LangGraph's store loads sqlite-vec, and this Python's sqlite3 loads no extensions. "
                "Make its environment with a Python that does, such as Debian's /usr/bin/python3."
            )
        from langgraph.store.sqlite import SqliteStore

        self._known: dict[str, list[float]] = {}
        self._context = SqliteStore.from_conn_string(
            str(self.folder / "rows.db"), index={"dims": DIMENSIONS, "embed": self._embed}
        )
        self._store = self._context.__enter__()
        self._store.setup()

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._known[text] for text in texts]

    def write(self, rows: Sequence[Row]) -> None:
        from langgraph.store.base import PutOp

        self._known = {row.text: row.vector.tolist() for row in rows}
        self._store.batch([PutOp(*self._entry(row), index=["text"]) for row in rows])

    def add(self, row: Row) -> None:
        self._known = {row.text: row.vector.tolist()}
        self._store.put(*self._entry(row), index=["text"])

    def _entry(self, row: Row) -> tuple[tuple[str, ...], str, dict[str, Any]]:
        """Return a row's namespace, which is its way to part users and projects, its key and its value."""
        return ("rows", row.thousandth), str(row.number), {"text": row.text, "tenth": row.tenth}

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def meaning(question: Question, *namespace: str, where: dict[str, str] | None = None) -> Any:
            self._known[question.text] = question.vector.tolist()
            return self._store.search(("rows", *namespace), query=question.text, filter=where, limit=HITS)

        return {
            "meaning": meaning,
            "meaning, 10 %": lambda question: meaning(question, where={"tenth": question.tenth}),
            "meaning, .1 %": lambda question: meaning(question, question.thousandth),
        }

    def numbers(self, answer: Any) -> list[int]:
        return [int(item.key) for item in answer]


if __name__ == "__main__":
    serve(LanggraphSqlite)
