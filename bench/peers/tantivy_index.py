"""tantivy: a full-text index of English stems. A part, not a system: it knows no vectors."""

from collections.abc import Callable, Sequence
from typing import Any

from servant import HITS, Question, Row, System, serve


class TantivyIndex(System):
    package, imports = "tantivy", "tantivy"

    def open(self) -> None:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", stored=True)
        builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
        self._index = tantivy.Index(builder.build(), path=str(self.folder))
        self._searcher = self._index.searcher()

    def write(self, rows: Sequence[Row]) -> None:
        import tantivy

        writer = self._index.writer()
        for row in rows:
            document = tantivy.Document()
            document.add_integer("number", row.number)
            document.add_text("text", row.text)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        def words(question: Question) -> Any:
            terms = "".join(letter if letter.isalnum() else " " for letter in question.text)
            query = self._index.parse_query(terms, ["text"])
            # The texts are read, as a memory without its text is of no use.
            return [self._searcher.doc(address) for _, address in self._searcher.search(query, HITS).hits]

        return {"words": words}

    def numbers(self, answer: Any) -> list[int]:
        return [document.get_first("number") for document in answer]


if __name__ == "__main__":
    serve(TantivyIndex)
