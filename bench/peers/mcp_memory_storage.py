"""mcp-memory-service's storage in an SQLite file, with the vectors given in place of its model."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
from servant import HITS, Question, Row, System, serve


class GivenVectors:
    """A model that is told each vector before it is asked for it."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def encode(self, texts: Sequence[str], convert_to_numpy: bool = True) -> Any:
        return np.stack([self.known[text] for text in texts])


class McpMemoryStorage(System):
    package, imports = "mcp-memory-service", "mcp_memory_service.storage.sqlite_vec"
    is_durable = False  # a write-ahead log with `synchronous = normal`

    def open(self) -> None:
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            raise SystemExit(
                "Error: mcp-memory-service loads sqlite-vec, and this Python's sqlite3 loads no extensions. "
                "Make its environment with a Python that does, such as Debian's /usr/bin/python3."
            )
        os.environ["MCP_MEMORY_BASE_DIR"] = str(self.folder)  # else its import makes folders in the user's home
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage

        given = self._given = GivenVectors()

        class Storage(SqliteVecMemoryStorage):  # type: ignore[misc]
            async def _initialize_embedding_model(self) -> None:
                self.embedding_model = given

        # The loop has a thread of its own, so that several threads can ask.
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._storage = Storage(str(self.folder / "rows.db"))
        self._wait(self._storage.initialize())

    def _wait(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def write(self, rows: Sequence[Row]) -> None:
        self._given.known = {row.text: row.vector for row in rows}
        self._check(self._wait(self._storage.store_batch([self._entry(row) for row in rows])))

    def add(self, row: Row) -> None:
        self._given.known = {row.text: row.vector}
        # Else it refuses a text that is near to another of the last day, and a row would be missing.
        self._check([self._wait(self._storage.store(self._entry(row), skip_semantic_dedup=True))])

    def _entry(self, row: Row) -> Any:
        from mcp_memory_service.models.memory import Memory

        return Memory(row.text, content_hash=f"row-{row.number}", tags=[row.tenth, row.thousandth])

    def _check(self, outcomes: Sequence[tuple[bool, str]]) -> None:
        for stored, message in outcomes:
            if not stored:
                raise SystemExit(f"Error: mcp-memory-service has not kept a row: {message}")

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def hybrid(question: Question) -> Any:
            self._given.known[question.text] = question.vector
            return self._wait(self._storage.retrieve_hybrid(question.text, HITS))

        def meaning(question: Question, *tags: str) -> Any:
            self._given.known[question.text] = question.vector
            return self._wait(self._storage.retrieve(question.text, HITS, list(tags)))

        return {
            "hybrid": hybrid,
            "meaning": meaning,
            "meaning, 10 %": lambda question: meaning(question, question.tenth),
            "meaning, .1 %": lambda question: meaning(question, question.thousandth),
        }

    def numbers(self, answer: Any) -> list[int]:
        return [int(result.memory.content_hash.removeprefix("row-")) for result in answer]


if __name__ == "__main__":
    serve(McpMemoryStorage)
