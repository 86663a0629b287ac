"""
Datasets of documents, questions and relevance judgements.

A dataset is read from a folder in BEIR's format: `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`. A question with a
`scope` in its metadata is asked only of the documents with the same scope. A dataset with several splits has files
named after them: `qrels/train.tsv`, `train_qrels.tsv` or `qrels_train.tsv`, with the questions in a file named likewise
or in `queries.jsonl`.

A dataset can also be made of a user's own memories, with questions from a golden file or from recorded feedback.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memorist.engine import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.evaluate.metrics import relevant_ids
from memorist.text.normal_forms import normalize
from memorist.validation import MAX_NAME_CHARACTERS

GOLDEN_EXAMPLE = '{"query": "how do we ship?", "relevant": ["4f2a91bc"]}'  # a line of a golden file
_DEFAULT_SPLIT = "test"  # `qrels.tsv` without a name is this one
_CATEGORY_FIELDS = ("category_name", "question_type", "category", "type")  # of metadata, the first that is set
_DATE_FORMATS = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d (%a) %H:%M")  # of LoCoMo and LongMemEval
_DEFAULT_DATE = datetime(2000, 1, 1, tzinfo=UTC)
_NO_LIMIT = 1_000_000


class CorpusDocument(Struct, frozen=True):
    """A document of a dataset."""

    id: str
    text: str
    title: str | None
    scope: str | None
    metadata: Mapping[str, Any]


class Question(Struct, frozen=True):
    """A question, its scope, the time it was asked, and the grades of the judged documents (above 0: relevant)."""

    id: str
    text: str
    judgements: Mapping[str, int]
    category: str | None = None
    scope: str | None = None
    asked_at: datetime | None = None


class Dataset(Struct, frozen=True):
    """Documents, the questions with a relevant document, and the `unanswered` ones without, which are not measured."""

    name: str
    documents: tuple[CorpusDocument, ...]
    questions: tuple[Question, ...]
    unanswered: tuple[Question, ...] = ()
    split: str | None = None

    def select_questions(self, scopes: Sequence[str], limit: int | None, seed: int) -> "Dataset":
        """Keep the questions of some scopes (all if none is named), and at most `limit` of them, drawn at random."""
        questions, unanswered = self.questions, self.unanswered
        if scopes:
            known = {question.scope for question in self.questions}
            for scope in scopes:
                if scope not in known:
                    names = ", ".join(sorted(filter(None, known))) or "none"
                    raise NotFound(f"{self.name} has no question of scope {scope!r}; there are: {names}")
            questions, unanswered = (
                tuple(question for question in group if question.scope in scopes) for group in (questions, unanswered)
            )
        if limit is not None and limit < len(questions):
            drawn = set(random.Random(seed).sample(range(len(questions)), limit))
            questions = tuple(question for number, question in enumerate(questions) if number in drawn)
        return replace(self, questions=questions, unanswered=unanswered)


def load_dataset(folder: Path, split: str | None = None) -> Dataset:
    """Read a dataset from a folder. `split` names one of several sets of judgements."""
    if not (folder / "corpus.jsonl").is_file():
        raise NotFound(
            f"{folder} has no corpus.jsonl; a dataset is a folder with corpus.jsonl, queries.jsonl and qrels.tsv"
        )
    documents = tuple(_parse_document(*record) for record in _read_records(folder / "corpus.jsonl"))
    qrels, queries = _find_files(folder, split)
    judgements = _read_judgements(qrels)
    questions = [_parse_question(*record, judgements) for record in _read_records(queries)]
    document_ids = {document.id for document in documents}
    if not any(relevant_ids(question.judgements) & document_ids for question in questions):
        raise InvalidInput(f"{qrels} judges no document of the corpus relevant to a question of {queries}")
    return Dataset(folder.resolve().name, documents, *_split_by_answer(questions), split)


def load_golden_file(memory: Memorist, file: Path) -> tuple[Dataset, list[str]]:
    """
    Read questions to a user's own memories from JSON lines.

    A line has `query`, `relevant` (ids, or an object of ids and grades), and optionally `project` and `category`. Also
    returns the ids that no memory has; they do not count.
    """
    questions: list[Question] = []
    missing: list[str] = []
    try:
        for fields, place in _read_json_lines(file):
            text = fields.get("query")
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(f"{place}: there is no query")
            judgements = {}
            for id, grade in _parse_grades(fields.get("relevant"), place).items():
                found = memory.get([id])
                if found:
                    judgements[found[0].id] = grade
                else:
                    missing.append(id)
            category, project = (_parse_text(fields, name, place) for name in ("category", "project"))
            questions.append(Question(str(len(questions) + 1), text, judgements, category, project))
    except InvalidInput as exc:
        raise InvalidInput(f"{exc}; write a question and its answers on each line, such as {GOLDEN_EXAMPLE}") from exc
    return _own_dataset(memory, file.stem, questions), missing


def load_recalls(memory: Memorist) -> Dataset:
    """Make a dataset of the questions that were asked; those for which no memory was called good are unanswered."""
    asked: dict[str, tuple[str, datetime]] = {}
    judgements: dict[str, dict[str, int]] = {}
    for feedback in reversed(memory.searches.list_feedback(limit=_NO_LIMIT)):
        key = _normalize_query(feedback.query)
        asked.setdefault(key, (feedback.query, feedback.at))
        judgements.setdefault(key, {})[feedback.memory] = int(feedback.good)
    for recall in memory.searches.list(limit=_NO_LIMIT):
        if recall.query and recall.query.strip():
            asked.setdefault(_normalize_query(recall.query), (recall.query, recall.at))
    questions = [
        Question(str(number), text, judgements.get(key, {}), asked_at=at)
        for number, (key, (text, at)) in enumerate(asked.items(), 1)
    ]
    return _own_dataset(memory, "recalls", questions)


def assign_times(documents: Sequence[CorpusDocument]) -> Iterator[datetime]:
    """Yield the date of each document, or a common one; those of the same date are a second apart, in order."""
    counts: dict[datetime, int] = {}
    for document in documents:
        date = _parse_date(document.metadata.get("date")) or _DEFAULT_DATE
        counts[date] = counts.get(date, -1) + 1
        yield date + timedelta(seconds=counts[date])


def fingerprint(documents: Sequence[CorpusDocument]) -> str:
    """Hash a corpus."""
    digest = hashlib.sha256()
    for document in documents:
        fields = [document.id, document.title, document.text, document.scope, dict(document.metadata)]
        digest.update(json.dumps(fields).encode())
    return digest.hexdigest()


def _own_dataset(memory: Memorist, name: str, questions: Sequence[Question]) -> Dataset:
    """Make a dataset of all memories and some questions."""
    documents = tuple(
        CorpusDocument(document.id, document.content, document.title, document.project, {})
        for document in memory.list(limit=_NO_LIMIT, include_superseded=False)
    )
    return Dataset(name, documents, *_split_by_answer(questions))


def _split_by_answer(questions: Sequence[Question]) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
    """Divide questions into those with a relevant document and those without."""
    answered = tuple(question for question in questions if relevant_ids(question.judgements))
    unanswered = tuple(question for question in questions if not relevant_ids(question.judgements))
    return answered, unanswered


def _find_files(folder: Path, split: str | None) -> tuple[Path, Path]:
    """Return the file of judgements and the file of questions."""
    names = ["qrels.tsv", f"qrels/{_DEFAULT_SPLIT}.tsv"] if split is None else _split_names(split, "qrels", "tsv")
    if split == _DEFAULT_SPLIT:
        names.append("qrels.tsv")
    qrels = next((folder / name for name in names if (folder / name).is_file()), None)
    if qrels is None:
        found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*qrels*") if path.is_file())
        found += sorted(f"qrels/{path.name}" for path in (folder / "qrels").glob("*.tsv"))
        raise NotFound(f"{folder} has none of {', '.join(names)}; there is: {', '.join(found) or 'no qrels file'}")
    names = [*([] if split is None else _split_names(split, "queries", "jsonl")), "queries.jsonl"]
    queries = next((folder / name for name in names if (folder / name).is_file()), None)
    if queries is None:
        raise NotFound(f"{folder} has no queries.jsonl")
    return qrels, queries


def _split_names(split: str, kind: str, suffix: str) -> list[str]:
    return [f"{kind}/{split}.{suffix}", f"{split}_{kind}.{suffix}", f"{kind}_{split}.{suffix}"]


def _read_records(file: Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the objects of a file of JSON lines with their unique `_id` and their place, for messages."""
    seen: set[str] = set()
    for fields, place in _read_json_lines(file):
        value = fields.get("_id")
        if not isinstance(value, str | int) or value == "":
            raise InvalidInput(f"{place}: there is no _id")
        if (id := str(value)) in seen:
            raise InvalidInput(f"{place}: the _id {id!r} is used twice")
        seen.add(id)
        yield id, fields, place


def _read_json_lines(file: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects of a file with their place."""
    for line, place in _read_lines(file):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise InvalidInput(f"{place}: not valid JSON ({exc})") from exc
        if not isinstance(fields, dict):
            raise InvalidInput(f"{place}: not a JSON object")
        yield fields, place


def _read_lines(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file that are not empty, with their place."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            place = f"{file}, line {number}"
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise InvalidInput(f"{place}: not valid UTF-8") from exc
            if text.strip():
                yield text, place


def _read_judgements(file: Path) -> dict[str, dict[str, int]]:
    """Read the grades of documents by question."""
    judgements: dict[str, dict[str, int]] = {}
    for line, place in islice(_read_lines(file), 1, None):  # the first line has the column names
        try:
            question, document, grade = line.split("\t")
            judgements.setdefault(question, {})[document] = int(float(grade))
        except (ValueError, OverflowError) as exc:
            raise InvalidInput(f"{place}: three columns are needed: query-id, corpus-id, score (a number)") from exc
    return judgements


def _parse_document(id: str, fields: Mapping[str, Any], place: str) -> CorpusDocument:
    title = str(fields.get("title") or "").strip()
    text = str(fields.get("text") or "").strip() or title or "-"  # a memory cannot be empty, and this one counts, too
    metadata, scope = _parse_metadata(fields, place)
    return CorpusDocument(id, text, title[:MAX_NAME_CHARACTERS].strip() or None, scope, metadata)


def _parse_question(
    id: str, fields: Mapping[str, Any], place: str, judgements: Mapping[str, Mapping[str, int]]
) -> Question:
    metadata, scope = _parse_metadata(fields, place)
    if not isinstance(text := fields.get("text"), str) or not text.strip():
        raise InvalidInput(f"{place}: a question needs a text")
    category = next((str(metadata[name]) for name in _CATEGORY_FIELDS if metadata.get(name) is not None), None)
    asked_at = _parse_date(metadata.get("date")) or _parse_date(metadata.get("question_date"))
    return Question(id, text, judgements.get(id, {}), category, scope, asked_at)


def _parse_metadata(fields: Mapping[str, Any], place: str) -> tuple[Mapping[str, Any], str | None]:
    """Return the metadata, and the scope in it."""
    metadata = fields.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidInput(f"{place}: metadata must be an object")
    scope = metadata.get("scope")
    return metadata, None if scope is None else str(scope)


def _parse_date(value: object) -> datetime | None:
    if isinstance(value, str):
        for form in _DATE_FORMATS:
            with suppress(ValueError):
                return datetime.strptime(value, form).replace(tzinfo=UTC)
        with suppress(ValueError):
            date = datetime.fromisoformat(value)
            return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    return None


def _parse_grades(relevant: Any, place: str) -> dict[str, int]:
    if isinstance(relevant, list) and all(isinstance(id, str) for id in relevant):
        return dict.fromkeys(relevant, 1)
    if isinstance(relevant, dict) and all(type(grade) is int for grade in relevant.values()):
        return relevant
    raise InvalidInput(f"{place}: relevant must be a list of ids, or an object of ids and whole numbers")


def _parse_text(fields: Mapping[str, Any], name: str, place: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{place}: {name} must be text")
    return value


def _normalize_query(query: str) -> str:
    """Return the form in which equal questions are the same text."""
    return " ".join(normalize("NFC", query).casefold().split())
