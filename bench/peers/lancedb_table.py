"""LanceDB: a table with an HNSW index of the vectors, a full-text index, and indexes of the fields."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from servant import DIMENSIONS, HITS, Question, Row, System, serve

os.environ["LANCEDB_LOG"] = "error"  # a warning for each search would take time
INDEXED_FROM = 5_000  # rows; below, LanceDB's own advice is to scan


class LanceTable(System):
    package, imports = "lancedb", "lancedb"
    efforts = (0, 100, 200, 500, 1000, 2000)  # 0: as it comes
    is_durable = False  # files are written, but not flushed to the disk

    def open(self) -> None:
        import lancedb
        import pyarrow

        self._schema = pyarrow.schema(
            [
                ("number", pyarrow.int64()),
                ("text", pyarrow.string()),
                ("tenth", pyarrow.string()),
                ("thousandth", pyarrow.string()),
                ("vector", pyarrow.list_(pyarrow.float32(), DIMENSIONS)),
            ]
        )
        database = lancedb.connect(self.folder)
        self._table = database.create_table("rows", schema=self._schema, exist_ok=True)
        self._effort = 0

    def write(self, rows: Sequence[Row]) -> None:
        import numpy
        import pyarrow

        vectors = numpy.stack([row.vector for row in rows]).ravel()
        columns = [
            pyarrow.array([row.number for row in rows]),
            pyarrow.array([row.text for row in rows]),
            pyarrow.array([row.tenth for row in rows]),
            pyarrow.array([row.thousandth for row in rows]),
            pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors), DIMENSIONS),
        ]
        self._table.add(pyarrow.table(columns, schema=self._schema))

    def finish(self) -> None:
        from lancedb.index import FTS, Bitmap, BTree, HnswSq

        if self._table.count_rows() >= INDEXED_FROM:
            # One partition: a graph of all vectors has the best recall for its time at these sizes.
            self._table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=1))
        self._table.create_index("text", config=FTS())
        self._table.create_index("tenth", config=Bitmap())
        self._table.create_index("thousandth", config=BTree())
        self._table.optimize()

    def set_effort(self, effort: int) -> None:
        self._effort = effort

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def answer(query: Any, where: str | None) -> Any:
            if where:
                query = query.where(where, prefilter=True)
            return query.limit(HITS).select(["number", "text"]).to_arrow()

        def meet(query: Any) -> Any:
            query = query.distance_type("cosine")
            return query.ef(self._effort) if self._effort else query

        def hybrid(question: Question, where: str | None = None) -> Any:
            query = self._table.search(query_type="hybrid").vector(question.vector).text(question.text)
            return answer(meet(query), where)

        def meaning(question: Question, where: str | None = None) -> Any:
            return answer(meet(self._table.search(question.vector)), where)

        def words(question: Question) -> Any:
            return answer(self._table.search(question.text, query_type="fts"), None)

        def tenth(question: Question) -> str:
            return f"tenth = '{question.tenth}'"

        def thousandth(question: Question) -> str:
            return f"thousandth = '{question.thousandth}'"

        return {
            "hybrid": hybrid,
            "words": words,
            "meaning": meaning,
            "hybrid, 10 %": lambda question: hybrid(question, tenth(question)),
            "hybrid, .1 %": lambda question: hybrid(question, thousandth(question)),
            "meaning, 10 %": lambda question: meaning(question, tenth(question)),
            "meaning, .1 %": lambda question: meaning(question, thousandth(question)),
        }

    def numbers(self, answer: Any) -> list[int]:
        return list(answer.column("number").to_pylist())


if __name__ == "__main__":
    serve(LanceTable)
