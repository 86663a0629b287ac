"""Questions of a user's own, asked of their own memories: from a golden file, or from what was said of answers."""

import unicodedata
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from memorist.engine import Memorist
from memorist.errors import InvalidInput
from memorist.evaluate.dataset import Dataset, Document, Question, lines
from memorist.evaluate.metrics import relevant

ALL = 1_000_000


def from_golden(memory: Memorist, file: Path) -> tuple[Dataset, list[str]]:
    """
    A file of JSON lines: `query`, `relevant` (ids, or a mapping of ids to grades), and perhaps `project` and
    `category`. Gives also the ids in it that no memory has; they do not count.
    """
    questions: list[Question] = []
    missing: list[str] = []
    for fields, place in lines(file):
        text, judged = fields.get("query"), fields.get("relevant")
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"{place}: there is no query")
        known = {}
        for id, grade in _graded(judged, place).items():
            (found, *_) = [*memory.get([id]), None]
            if found is None:
                missing.append(id)
            else:
                known[found.id] = grade
        category, project = (_name(fields, name, place) for name in ("category", "project"))
        questions.append(Question(str(len(questions) + 1), text, known, category, project))
    return _dataset(memory, file.stem, questions), missing


def from_recalls(memory: Memorist) -> Dataset:
    """
    Every question that a memory was said to be a good answer to. Recorded questions of which nothing good was said are
    counted, not measured.
    """
    asked: dict[str, tuple[str, datetime]] = {}
    judged: dict[str, dict[str, int]] = {}
    for said in reversed(memory.feedbacks(limit=ALL)):
        asked.setdefault(_same(said.query), (said.query, said.at))
        judged.setdefault(_same(said.query), {})[said.memory] = int(said.good)
    for recall in memory.recalls(limit=ALL):
        if recall.query and recall.query.strip():
            asked.setdefault(_same(recall.query), (recall.query, recall.at))
    questions = [
        Question(str(number), text, judged.get(key, {}), asked=at)
        for number, (key, (text, at)) in enumerate(asked.items(), 1)
    ]
    return _dataset(memory, "recalls", questions)


def _dataset(memory: Memorist, name: str, questions: list[Question]) -> Dataset:
    documents = tuple(
        Document(one.id, one.content, one.title, one.project, {})
        for one in memory.list(limit=ALL, include_superseded=False)
    )
    return Dataset(
        name,
        documents,
        tuple(question for question in questions if relevant(question.judged)),
        tuple(question for question in questions if not relevant(question.judged)),
    )


def _graded(judged: Any, place: str) -> dict[str, int]:
    graded = judged if isinstance(judged, Mapping) else dict.fromkeys(judged, 1) if isinstance(judged, list) else None
    if graded is None or not all(isinstance(id, str) and type(grade) is int for id, grade in graded.items()):
        raise InvalidInput(f"{place}: relevant must be a list of ids, or an object of ids and whole numbers")
    return dict(graded)


def _name(fields: Mapping[str, Any], name: str, place: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{place}: {name} must be text")
    return value


def _same(query: str) -> str:
    """What makes two questions one."""
    return " ".join(unicodedata.normalize("NFC", query).casefold().split())
