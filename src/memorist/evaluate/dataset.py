"""Sets of documents, questions and judgements in BEIR's form: `corpus.jsonl`, `queries.jsonl`, `qrels.tsv`.

A question with a `scope` in its metadata is asked of the documents with the same scope alone. Of a set with several
parts, a part is chosen by name: `qrels/train.tsv`, `train_qrels.tsv` or `qrels_train.tsv`, with the questions in a file
named likewise or in `queries.jsonl`.

Questions of a user's own, asked of their own memories: from a golden file, or from what was said of answers.
"""

import hashlib
import json
import random
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from memorist.engine import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.evaluate.metrics import relevant
from memorist.validation import MAX_NAME_CHARACTERS

USUAL_PART = "test"  # which `qrels.tsv` is, where it has no name
_CATEGORY = ("category_name", "question_type", "category", "type")  # of metadata, the first that is there
_DATES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d (%a) %H:%M")  # as LoCoMo and LongMemEval write them
_UNDATED = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    id: str
    text: str
    title: str | None
    scope: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, where and when, and how relevant each judged document is: above 0 is relevant."""

    id: str
    text: str
    judged: Mapping[str, int]
    category: str | None = None
    scope: str | None = None
    asked: datetime | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents, the questions that have an answer among them, and those that have none: they are not measured."""

    name: str
    documents: tuple[CorpusDocument, ...]
    questions: tuple[Question, ...]
    unanswered: tuple[Question, ...] = ()
    part: str | None = None

    def narrowed(self, scopes: Sequence[str], limit: int | None, seed: int) -> "Dataset":
        """Only questions of some scopes, and of them so many, drawn at random; in their order."""
        questions, unanswered = self.questions, self.unanswered
        if scopes:
            known = {question.scope for question in self.questions}
            for scope in scopes:
                if scope not in known:
                    names = ", ".join(sorted(filter(None, known))) or "none"
                    raise NotFound(f"{self.name} has no question of scope {scope!r}; there are: {names}")
            questions, unanswered = (
                tuple(question for question in some if question.scope in scopes) for some in (questions, unanswered)
            )
        if limit is not None and limit < len(questions):
            chosen = set(random.Random(seed).sample(range(len(questions)), limit))
            questions = tuple(question for place, question in enumerate(questions) if place in chosen)
        return replace(self, questions=questions, unanswered=unanswered)


def load(folder: Path, part: str | None = None) -> Dataset:
    """Read a set from a folder; `part` names one of several sets of judgements."""
    if not (folder / "corpus.jsonl").is_file():
        raise NotFound(f"{folder} has no corpus.jsonl; a set is a folder with that, queries.jsonl and qrels.tsv")
    documents = tuple(_document(*one) for one in _identified(folder / "corpus.jsonl"))
    qrels, queries = _files(folder, part)
    judgements = _judgements(qrels)
    asked = [_question(*one, judgements) for one in _identified(queries)]
    known = {document.id for document in documents}
    if not any(relevant(question.judged) & known for question in asked):
        raise InvalidInput(f"{qrels} judges no document of the corpus relevant to a question of {queries}")
    answered = tuple(question for question in asked if relevant(question.judged))
    unanswered = tuple(question for question in asked if not relevant(question.judged))
    return Dataset(folder.resolve().name, documents, answered, unanswered, part)


def moments(documents: Sequence[CorpusDocument]) -> Iterator[datetime]:
    """
    When each document happened: its own date, or one for all that have none. Those of one date are a second apart, in
    their order.
    """
    seen: dict[datetime, int] = {}
    for document in documents:
        date = _date(document.metadata.get("date")) or _UNDATED
        seen[date] = seen.get(date, -1) + 1
        yield date + timedelta(seconds=seen[date])


def fingerprint(documents: Sequence[CorpusDocument]) -> str:
    """What tells one corpus from another."""
    digest = hashlib.sha256()
    for one in documents:
        digest.update(json.dumps([one.id, one.title, one.text, one.scope, dict(one.metadata)]).encode())
    return digest.hexdigest()


def _files(folder: Path, part: str | None) -> tuple[Path, Path]:
    names = ["qrels.tsv", f"qrels/{USUAL_PART}.tsv"] if part is None else _named(part, "qrels", "tsv")
    if part == USUAL_PART:
        names.append("qrels.tsv")
    qrels = next((folder / name for name in names if (folder / name).is_file()), None)
    if qrels is None:
        there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*qrels*") if path.is_file())
        there += sorted(f"qrels/{path.name}" for path in (folder / "qrels").glob("*.tsv"))
        raise NotFound(
            f"{folder} has none of {', '.join(names)}; there is: {', '.join(there) or 'no file of judgements'}"
        )
    named = [] if part is None else _named(part, "queries", "jsonl")
    queries = next((folder / name for name in [*named, "queries.jsonl"] if (folder / name).is_file()), None)
    if queries is None:
        raise NotFound(f"{folder} has no queries.jsonl")
    return qrels, queries


def _named(part: str, kind: str, ending: str) -> list[str]:
    return [f"{kind}/{part}.{ending}", f"{part}_{kind}.{ending}", f"{kind}_{part}.{ending}"]


def lines(file: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a file of JSON lines, each with its place."""
    for line, place in _written(file):
        yield _object(line, place), place


def _written(file: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file that are not empty, each with its place."""
    with file.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            place = f"{file}, line {number}"
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise InvalidInput(f"{place}: it is not UTF-8") from exc
            if text.strip():
                yield text, place


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"{place}: it is not JSON ({exc})") from exc
    if not isinstance(fields, dict):
        raise InvalidInput(f"{place}: it is no JSON object")
    return fields


def _identified(file: Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The objects of a file of JSON lines, each with its id, which no other has, and its place."""
    seen: set[str] = set()
    for fields, place in lines(file):
        if not isinstance(given := fields.get("_id"), str | int) or given == "":
            raise InvalidInput(f"{place}: there is no _id")
        if (id := str(given)) in seen:
            raise InvalidInput(f"{place}: the _id {id!r} was there before")
        seen.add(id)
        yield id, fields, place


def _document(id: str, fields: Mapping[str, Any], place: str) -> CorpusDocument:
    title = str(fields.get("title") or "").strip()
    text = str(fields.get("text") or "").strip() or title or "-"  # an empty one is found by nothing, and is there
    about = _about(fields, place)
    return CorpusDocument(id, text, title[:MAX_NAME_CHARACTERS].strip() or None, _scope(about), about)


def _question(id: str, fields: Mapping[str, Any], place: str, judgements: Mapping[str, Mapping[str, int]]) -> Question:
    about = _about(fields, place)
    if not isinstance(text := fields.get("text"), str) or not text.strip():
        raise InvalidInput(f"{place}: a question needs a text")
    category = next((str(about[name]) for name in _CATEGORY if about.get(name) is not None), None)
    return Question(id, text, judgements.get(id, {}), category, _scope(about), _asked(about))


def _asked(about: Mapping[str, Any]) -> datetime | None:
    """When it was asked, where that is known: "last week" is the one before."""
    return _date(about.get("date")) or _date(about.get("question_date"))


def _about(fields: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    about = fields.get("metadata") or {}
    if not isinstance(about, dict):
        raise InvalidInput(f"{place}: metadata must be an object")
    return about


def _scope(about: Mapping[str, Any]) -> str | None:
    scope = about.get("scope")
    return None if scope is None else str(scope)


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for line, place in islice(_written(file), 1, None):  # the first has the names of the columns
        try:
            question, document, grade = line.split("\t")
            judged.setdefault(question, {})[document] = int(float(grade))
        except (ValueError, OverflowError) as exc:
            raise InvalidInput(f"{place}: three columns are needed: query-id, corpus-id, score (a number)") from exc
    return judged


def _date(value: object) -> datetime | None:
    if isinstance(value, str):
        for form in _DATES:
            with suppress(ValueError):
                return datetime.strptime(value, form).replace(tzinfo=UTC)
        with suppress(ValueError):
            date = datetime.fromisoformat(value)
            return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    return None


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
        CorpusDocument(one.id, one.content, one.title, one.project, {})
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
