"""Milvus Lite: a collection in a folder, with an HNSW index of the vectors and one of the words, behind its client."""

from collections.abc import Callable, Sequence
from typing import Any

from servant import DIMENSIONS, HITS, Question, Row, System, serve

LONGEST_TEXT = 65_535  # bytes: the most that it allows


class MilvusLiteCollection(System):
    package, imports = "milvus-lite", "pymilvus"
    efforts = (64, 100, 200, 500, 1000, 2000)  # 64: as it comes
    is_durable = False  # its log is written, but not flushed to the disk
    shares_processes = False  # a process locks the folder

    def open(self) -> None:
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        self._effort = self.efforts[0]
        self._client = MilvusClient(str(self.folder / "rows.db"))
        if self._client.has_collection("rows"):
            self._client.load_collection("rows")
            return
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("number", DataType.INT64, is_primary=True)
        schema.add_field("text", DataType.VARCHAR, max_length=LONGEST_TEXT, enable_analyzer=True)
        schema.add_field("tenth", DataType.VARCHAR, max_length=8)
        schema.add_field("thousandth", DataType.VARCHAR, max_length=8)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIMENSIONS)
        schema.add_field("terms", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function("bm25", FunctionType.BM25, ["text"], ["terms"]))
        self._client.create_collection("rows", schema=schema)

    def write(self, rows: Sequence[Row]) -> None:
        entries = [{**row._asdict(), "tenth": row.tenth, "thousandth": row.thousandth} for row in rows]
        self._client.insert("rows", entries)

    def finish(self) -> None:
        """Make the indexes after the rows: those that exist before are made behind the back of the caller."""
        self._client.flush("rows")
        indexes = self._client.prepare_index_params()
        indexes.add_index("vector", "HNSW", metric_type="COSINE", params={"M": 16, "efConstruction": 200})
        indexes.add_index("terms", "SPARSE_INVERTED_INDEX", metric_type="BM25")
        indexes.add_index("tenth", "INVERTED")
        indexes.add_index("thousandth", "INVERTED")
        self._client.create_index("rows", indexes)
        self._client.load_collection("rows")

    def set_effort(self, effort: int) -> None:
        self._effort = effort

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        from pymilvus import AnnSearchRequest, RRFRanker

        def meaning(question: Question, where: str = "") -> Any:
            effort = {"params": {"ef": self._effort}}
            return self._client.search("rows", [question.vector], where, HITS, ["text"], effort, anns_field="vector")

        def words(question: Question, where: str = "") -> Any:
            return self._client.search("rows", [question.text], where, HITS, ["text"], anns_field="terms")

        def hybrid(question: Question, where: str = "") -> Any:
            effort = {"params": {"ef": self._effort}}
            by_meaning = AnnSearchRequest([question.vector], "vector", effort, HITS, where)
            by_words = AnnSearchRequest([question.text], "terms", {}, HITS, where)
            return self._client.hybrid_search("rows", [by_meaning, by_words], RRFRanker(), HITS, ["text"])

        def filtered(search: Callable[[Question, str], Any], field: str) -> Callable[[Question], Any]:
            return lambda question: search(question, f"{field} == '{getattr(question, field)}'")

        return {
            "hybrid": hybrid,
            "words": words,
            "meaning": meaning,
            "hybrid, 10 %": filtered(hybrid, "tenth"),
            "hybrid, .1 %": filtered(hybrid, "thousandth"),
            "words, 10 %": filtered(words, "tenth"),
            "words, .1 %": filtered(words, "thousandth"),
            "meaning, 10 %": filtered(meaning, "tenth"),
            "meaning, .1 %": filtered(meaning, "thousandth"),
        }

    def numbers(self, answer: Any) -> list[int]:
        return [hit["number"] for hit in answer[0]]


if __name__ == "__main__":
    serve(MilvusLiteCollection)
