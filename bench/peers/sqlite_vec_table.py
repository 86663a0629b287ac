"""sqlite-vec beside FTS5: two virtual tables in one file, fused by reciprocal rank in Python."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from servant import DIMENSIONS, HITS, Question, Row, System, serve

CANDIDATES = 50
RANK_CONSTANT = 60


class SqliteVecTable(System):
    package, imports = "sqlite-vec", "sqlite_vec"

    def open(self) -> None:
        self._connections = threading.local()
        self._database.execute(
            f"create virtual table if not exists vectors using vec0(number integer primary key,"
            f" tenth text, thousandth text, vector float[{DIMENSIONS}] distance_metric = cosine)"
        )
        self._database.execute("create virtual table if not exists words using fts5(text, tokenize = 'porter')")

    @property
    def _database(self) -> Any:
        """The connection of this thread."""
        if not hasattr(self._connections, "own"):
            import apsw
            import sqlite_vec

            database = self._connections.own = apsw.Connection(str(self.folder / "rows.db"))
            database.pragma("journal_mode", "wal")
            database.pragma("synchronous", "full")
            database.enable_load_extension(True)
            database.load_extension(sqlite_vec.loadable_path())
        return self._connections.own

    def write(self, rows: Sequence[Row]) -> None:
        with self._database:
            self._database.executemany(
                "insert into vectors values (?, ?, ?, ?)",
                ((row.number, row.tenth, row.thousandth, row.vector.tobytes()) for row in rows),
            )
            self._database.executemany(
                "insert into words(rowid, text) values (?, ?)", ((row.number, row.text) for row in rows)
            )

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def meaning(question: Question, where: str = "", value: tuple[str, ...] = (), limit: int = HITS) -> list[int]:
            rows = self._database.execute(
                f"select number from vectors where vector match ? and k = ? {where} order by distance",
                (question.vector.tobytes(), limit, *value),
            )
            return [number for (number,) in rows]

        def words(question: Question, limit: int = HITS) -> list[int]:
            terms = "".join(letter if letter.isalnum() else " " for letter in question.text).split()
            rows = self._database.execute(
                "select rowid from words where words match ? order by rank limit ?",
                (" OR ".join(f'"{term}"' for term in terms), limit),
            )
            return [number for (number,) in rows]

        def hybrid(question: Question) -> list[int]:
            scores: dict[int, float] = {}
            for leg in (meaning(question, limit=CANDIDATES), words(question, CANDIDATES)):
                for rank, number in enumerate(leg, 1):
                    scores[number] = scores.get(number, 0.0) + 1 / (RANK_CONSTANT + rank)
            return sorted(scores, key=lambda number: -scores[number])[:HITS]

        return {
            "hybrid": hybrid,
            "words": words,
            "meaning": meaning,
            "meaning, 10 %": lambda question: meaning(question, "and tenth = ?", (question.tenth,)),
            "meaning, .1 %": lambda question: meaning(question, "and thousandth = ?", (question.thousandth,)),
        }

    def numbers(self, answer: Any) -> list[int]:
        return list(answer)


if __name__ == "__main__":
    serve(SqliteVecTable)
