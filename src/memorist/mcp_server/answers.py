"""
Rows of a tool's answer, and answers that fit the size limit.

Stored text is escaped as data. Rows that do not fit are left out and counted, together with the call that gets them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from memorist.file_records import DocumentHit
from memorist.present.codec import timestamp
from memorist.present.framing import as_data, as_one_line
from memorist.records import Hit, Memory
from memorist.text.snippet import preview, strip_marks

_MAX_LABEL_CHARACTERS = 120
_MAX_LINE_CHARACTERS = 200
_MAX_FACT_CHARACTERS = 300
_MAX_METADATA_CHARACTERS = 600
_MAX_TAGS, _MAX_FACTS = 20, 10
_MAX_LEFT_OUT_IDS = 5
_CORE_LABELS = ("id", "created_at", "score", "relevance")

Answer = dict[str, Any]


class AnswerRow(Struct, frozen=True):
    """A memory or a place in a file: its labels and, where the full text was asked for, its content from an offset."""

    labels: Answer
    id: str | None  # for `memory_get`; a place in a file has none
    content: str | None = None
    offset: int = 0

    def render(self, characters: int | None = None) -> Answer:
        """Return the entry of the answer, with all of the content or so many characters of it."""
        if self.content is None:
            return self.labels
        rest = self.content[self.offset :]
        part = rest if characters is None else rest[:characters]
        entry = {**self.labels, "content": as_data(part)}
        if len(part) < len(self.content):
            entry["content_length"] = len(self.content)
        if len(part) < len(rest):
            entry["more_from"] = self.offset + len(part)
        return entry

    def cut_labels(self) -> "AnswerRow":
        """Return the row with its most important labels only."""
        core = {name: value for name, value in self.labels.items() if name in _CORE_LABELS}
        return AnswerRow({**core, "cut": ["labels"]}, self.id, self.content, self.offset)


_BuildAnswer = Callable[[list[Answer], Sequence[AnswerRow]], Answer]  # from entries, and the rows that are left out


def fit_rows(rows: Sequence[AnswerRow], build: _BuildAnswer, limit: int) -> Answer:
    """Return an answer with as many of the first rows as fit, or with a part of the first if that is too long."""

    def build_first(count: int) -> Answer:
        return build([row.render() for row in rows[:count]], rows[count:])

    def fits(count: int) -> bool:
        return len(encode_answer(build_first(count))) <= limit

    # A row whose content alone exceeds the limit cannot fit, so neither it nor those after it are tried.
    count = next((at for at, row in enumerate(rows) if len(row.content or "") - row.offset > limit), len(rows))
    if count == len(rows) and fits(count):
        return build_first(count)
    count = find_largest(fits, min(count, len(rows) - 1))
    return build_first(count) if count or not rows else _fit_first(rows, build, limit)


def _fit_first(rows: Sequence[AnswerRow], build: _BuildAnswer, limit: int) -> Answer:
    """Return an answer with a part of the first row; its labels may take half the room, or else they are cut."""
    first, rest = rows[0], rows[1:]
    answer = _fit_part(first, rest, build, limit, limit // 2) or _fit_part(first.cut_labels(), rest, build, limit)
    return answer or build([], rows)


def _fit_part(
    first: AnswerRow, rest: Sequence[AnswerRow], build: _BuildAnswer, limit: int, room: int = 0
) -> Answer | None:
    """Return an answer with as much of a row's content as fits, or None if there is less room than that for it."""

    def build_part(characters: int) -> Answer:
        return build([first.render(characters)], rest)

    def fits(characters: int) -> bool:
        return len(encode_answer(build_part(characters))) <= limit

    if len(encode_answer(build_part(0))) > limit - room:
        return None
    return build_part(find_largest(fits, limit))


def find_largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number up to `most` that fits, provided that 0 does."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def encode_answer(answer: Mapping[str, Any]) -> str:
    """Return an answer as the JSON that is sent, whose length the limit applies to."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def describe_left_out(rows: Sequence[AnswerRow], how: str) -> Answer:
    """Return the field about rows that did not fit, and how to get them."""
    ids = [row.id for row in rows if row.id][:_MAX_LEFT_OUT_IDS]
    return {"left_out": {"count": len(rows), **({"ids": ids} if ids else {}), "how": how}} if rows else {}


# Memories and hits as rows


def index_row(memory: Memory) -> AnswerRow:
    """Return a memory as one line of an index."""
    return AnswerRow(_drop_empty(_brief_labels(memory) | {"summary": _line(memory.summary)}), memory.id)


def full_row(memory: Memory, offset: int = 0) -> AnswerRow:
    """Return a memory with all its labels and its content."""
    return AnswerRow(_drop_empty(_full_labels(memory)), memory.id, memory.content, offset)


def hit_row(hit: Hit, detail: str) -> AnswerRow:
    """Return a hit of a search in the detail that was asked for."""
    memory = hit.memory
    labels = _full_labels(memory) if detail == "full" else _brief_labels(memory)
    if detail == "index":
        labels["summary"] = _line(memory.summary)
    if detail == "snippet":
        labels["snippet"] = as_data(strip_marks(hit.snippet))
    if isinstance(hit, DocumentHit):  # the ids of its chunks do not outlive the next change of the file
        labels |= {"path": _line(hit.path), "start_line": hit.start_line, "end_line": hit.end_line}
        labels |= {"title": _line(hit.title), "breadcrumb": [short_label(heading) for heading in hit.breadcrumb]}
        labels |= {"id": None, "source": None, "created_at": None}
    labels |= {"score": round(hit.score, 3), "relevance": round(hit.relevance, 3), "match": list(hit.match)}
    return AnswerRow(_drop_empty(labels), labels["id"], memory.content if detail == "full" else None)


def short_label(text: str) -> str:
    """Return a name as a short label on one line."""
    return preview(as_one_line(text), _MAX_LABEL_CHARACTERS)


def short_line(text: str) -> str:
    """Return the beginning of a text on one line."""
    return preview(as_one_line(text), _MAX_LINE_CHARACTERS)


def format_time(moment: datetime | None) -> str | None:
    """Return a time without its fraction of a second."""
    return timestamp(moment and moment.replace(microsecond=0))


def _brief_labels(memory: Memory) -> Answer:
    return {
        "id": memory.id,
        "created_at": format_time(memory.created_at),
        "project": _label(memory.project),
        "kind": _label(memory.kind),
        "tags": [short_label(tag) for tag in memory.tags[:_MAX_TAGS]],
        "title": _line(memory.title),
        "superseded_by": memory.superseded_by.id if memory.superseded_by else None,
        "valid_until": format_time(memory.valid_until),
    }


def _full_labels(memory: Memory) -> Answer:
    facts = [
        {"text": preview(as_data(fact.text), _MAX_FACT_CHARACTERS), "confidence": round(fact.effective, 3)}
        for fact in memory.facts[:_MAX_FACTS]
    ]
    metadata = _escape(memory.metadata)
    too_long = len(encode_answer(metadata)) > _MAX_METADATA_CHARACTERS
    cut = {"tags": len(memory.tags) > _MAX_TAGS, "metadata": too_long, "facts": len(memory.facts) > _MAX_FACTS}
    return _brief_labels(memory) | {
        "updated_at": format_time(memory.updated_at) if memory.updated_at != memory.created_at else None,
        "session": _label(memory.session.id) if memory.session else None,
        "sector": memory.sector,
        "summary": _line(memory.summary),
        "source": _line(memory.source),
        "salience": round(memory.salience, 3),
        "pinned": memory.pinned or None,
        "expires_at": format_time(memory.expires_at),
        "facts": facts,
        "metadata": None if too_long else metadata,
        "cut": [name for name, is_cut in cut.items() if is_cut],
    }


def _escape(value: Any) -> Any:
    """Return a JSON value with every text in it escaped as data."""
    if isinstance(value, str):
        return as_data(value)
    if isinstance(value, Mapping):
        return {as_one_line(str(key)): _escape(item) for key, item in value.items()}
    return [_escape(item) for item in value] if isinstance(value, list | tuple) else value


def _label(text: str | None) -> str | None:
    return None if text is None else short_label(text)


def _line(text: str | None) -> str | None:
    return None if text is None else short_line(text)


def _drop_empty(labels: Answer) -> Answer:
    return {name: value for name, value in labels.items() if value is not None and value != [] and value != {}}
