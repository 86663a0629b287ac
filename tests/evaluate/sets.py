"""Small sets for tests, written to folders."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_set(
    folder: Path,
    documents: Sequence[Mapping[str, Any]],
    questions: Sequence[Mapping[str, Any]],
    judged: Sequence[tuple[str, str, int]],
    qrels: str = "qrels.tsv",
    queries: str = "queries.jsonl",
) -> Path:
    """A set in BEIR's form; a document or question is a mapping with its `_id`."""
    for name, records in (("corpus.jsonl", documents), (queries, questions)):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)]
    (folder / qrels).parent.mkdir(parents=True, exist_ok=True)
    (folder / qrels).write_text("\n".join(rows) + "\n", "utf-8")
    return folder


def harbours(folder: Path) -> Path:
    """Two conversations that speak of the same things, and a question to each; one question has no answer."""
    talk = {
        "north": ["The ferry leaves at nine", "Fish is sold on the quay", "The lighthouse is red"],
        "south": ["The ferry leaves at noon", "Oranges are sold on the quay", "The lighthouse is white"],
    }
    documents = [
        {
            "_id": f"{scope}/{place}", "title": "", "text": text,
            "metadata": {"scope": scope, "session": 1, "date": "1:56 pm on 8 May, 2023"},
        }
        for scope, texts in talk.items()
        for place, text in enumerate(texts)
    ]  # fmt: skip
    questions = [
        {"_id": f"{scope}/{name}", "text": text, "metadata": {"scope": scope, "category_name": name}}
        for scope in talk
        for name, text in (("when", "When does the ferry leave?"), ("what", "Which colour has the lighthouse?"))
    ]
    questions.append({"_id": "nobody", "text": "Who painted the church?", "metadata": {"scope": "north"}})
    judged = [
        (f"{scope}/{name}", f"{scope}/{place}", 1) for scope in talk for name, place in (("when", 0), ("what", 2))
    ]
    return write_set(folder, documents, questions, judged)
