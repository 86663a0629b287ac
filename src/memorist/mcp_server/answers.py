"""
Memories as a tool's answer: as data, and never more of it than the limit.

What does not fit is left out and counted, with the way to get it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memorist.documents import DocumentHit
from memorist.present.framing import as_data, as_one_line
from memorist.present.render import timestamp
from memorist.records import Hit, Memory
from memorist.text.snippet import MARK, UNMARK, preview

LABEL, LINE, FACT = 120, 200, 300  # characters shown of a name, of a text on one line, and of a fact
MOST_TAGS, MOST_FACTS, METADATA = 20, 10, 600  # metadata in characters
BARE = ("id", "created_at", "score", "relevance")  # labels that are always there
MOST_LEFT_OUT = 5  # ids that are named of what was left out

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An entry of an answer: what is said about a memory and, where all of it was asked for, its text from a place."""

    labels: Answer
    id: str | None  # what `memory_get` takes; a place in a file has none
    content: str | None = None
    offset: int = 0

    def shown(self, characters: int | None = None) -> Answer:
        """With the text, or so many characters of it."""
        if self.content is None:
            return self.labels
        rest = self.content[self.offset :]
        part = rest if characters is None else rest[:characters]
        answer = {**self.labels, "content": as_data(part)}
        if len(part) < len(self.content):
            answer["content_length"] = len(self.content)
        if len(part) < len(rest):
            answer["more_from"] = self.offset + len(part)
        return answer

    def bare(self) -> "AnswerRow":
        """Without what is said about it, where even that is too much."""
        kept = {name: value for name, value in self.labels.items() if name in BARE}
        return AnswerRow({**kept, "cut": ["labels"]}, self.id, self.content, self.offset)


Build = Callable[[list[Answer], Sequence[AnswerRow]], Answer]  # entries and the rows that are left out, to an answer


def encoded(answer: Mapping[str, Any]) -> str:
    """An answer as it is sent; its length is what the limit is about."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def fitted(rows: Sequence[AnswerRow], build: Build, limit: int) -> Answer:
    """An answer with as many of the first rows as fit; where the first alone is too long, with a part of it."""

    def fits(count: int) -> bool:
        return len(encoded(with_rows(count))) <= limit

    def with_rows(count: int) -> Answer:
        return build([row.shown() for row in rows[:count]], rows[count:])

    # A text that is longer than the whole answer may be is not worth looking at.
    short = next((at for at, row in enumerate(rows) if len(row.content or "") - row.offset > limit), len(rows))
    if short == len(rows) and fits(short):
        return with_rows(short)
    count = most_that_fits(fits, min(short, len(rows) - 1))
    return with_rows(count) if count or not rows else _part(rows, build, limit)


def _part(rows: Sequence[AnswerRow], build: Build, limit: int) -> Answer:
    """As much as fits of the first row. What is said about it may take half the room: the text is to get on."""
    part = _cut(rows[0], rows[1:], build, limit, limit // 2) or _cut(rows[0].bare(), rows[1:], build, limit)
    return part or build([], rows)


def _cut(first: AnswerRow, rest: Sequence[AnswerRow], build: Build, limit: int, room: int = 0) -> Answer | None:
    """An answer with a part of a row, if there is so much room for it."""

    def with_part(characters: int) -> Answer:
        return build([first.shown(characters)], rest)

    def fits(characters: int) -> bool:
        return len(encoded(with_part(characters))) <= limit

    if len(encoded(with_part(0))) > limit - room:
        return None
    return with_part(most_that_fits(fits, limit))


def most_that_fits(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that fits, if 0 does."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def left_out(rows: Sequence[AnswerRow], how: str) -> Answer:
    """What is said of rows that did not fit."""
    ids = [row.id for row in rows if row.id][:MOST_LEFT_OUT]
    return {"left_out": {"count": len(rows), **({"ids": ids} if ids else {}), "how": how}} if rows else {}


# Memories and hits as rows


def index_row(memory: Memory) -> AnswerRow:
    """An entry of an index."""
    return AnswerRow(_present(_about(memory) | {"summary": _line(memory.summary)}), memory.id)


def whole_row(memory: Memory, offset: int = 0) -> AnswerRow:
    """All of a memory."""
    return AnswerRow(_present(_all_about(memory)), memory.id, memory.content, offset)


def hit_row(hit: Hit, detail: str) -> AnswerRow:
    labels: Answer = {"score": round(hit.score, 3), "relevance": round(hit.relevance, 3), "match": list(hit.match)}
    memory = hit.memory
    about = _all_about(memory) if detail == "full" else _about(memory)
    if detail == "index":
        about["summary"] = _line(memory.summary)
    if detail == "snippet":
        about["snippet"] = as_data(hit.snippet.replace(MARK, "").replace(UNMARK, ""))
    if isinstance(hit, DocumentHit):  # its chunks have no id that outlives the next change of the file
        place = {"path": _line(hit.path), "start_line": hit.start_line, "end_line": hit.end_line}
        about |= place | {"title": _line(hit.title), "breadcrumb": [label(each) for each in hit.breadcrumb]}
        about |= dict(id=None, source=None, created_at=None)
    content = memory.content if detail == "full" else None
    return AnswerRow(_present(about | labels), None if isinstance(hit, DocumentHit) else memory.id, content)


def label(text: str) -> str:
    """A name, short enough to stand beside others."""
    return preview(as_one_line(text), LABEL)


def to_the_second(moment: datetime) -> str | None:
    return timestamp(moment.replace(microsecond=0))


def _about(memory: Memory) -> Answer:
    return {
        "id": memory.id,
        "created_at": to_the_second(memory.created_at),
        "project": _label(memory.project),
        "kind": _label(memory.kind),
        "tags": [label(tag) for tag in memory.tags[:MOST_TAGS]],
        "title": _line(memory.title),
        "superseded_by": memory.superseded_by.id if memory.superseded_by else None,
        "valid_until": to_the_second(memory.valid_until) if memory.valid_until else None,
    }


def _all_about(memory: Memory) -> Answer:
    facts = [
        {"text": preview(as_data(fact.text), FACT), "confidence": round(fact.effective, 3)}
        for fact in memory.facts[:MOST_FACTS]
    ]
    metadata = _data(memory.metadata)
    much = len(encoded(metadata)) > METADATA
    cut = {"tags": len(memory.tags) > MOST_TAGS, "metadata": much, "facts": len(memory.facts) > MOST_FACTS}
    return _about(memory) | {
        "updated_at": to_the_second(memory.updated_at) if memory.updated_at != memory.created_at else None,
        "session": _label(memory.session.id) if memory.session else None,
        "sector": memory.sector,
        "summary": _line(memory.summary),
        "source": _line(memory.source),
        "salience": round(memory.salience, 3),
        "pinned": memory.pinned or None,
        "facts": facts,
        "metadata": None if much else metadata,
        "cut": [name for name, shortened in cut.items() if shortened],
    }


def _data(value: Any) -> Any:
    """What JSON knows, with every text in it as data."""
    if isinstance(value, str):
        return as_data(value)
    if isinstance(value, Mapping):
        return {as_one_line(str(key)): _data(each) for key, each in value.items()}
    return [_data(each) for each in value] if isinstance(value, list | tuple) else value


def _label(text: str | None) -> str | None:
    return None if text is None else label(text)


def _line(text: str | None) -> str | None:
    return None if text is None else preview(as_one_line(text), LINE)


def _present(labels: Answer) -> Answer:
    """Without what is not there."""
    return {name: value for name, value in labels.items() if value is not None and value != [] and value != {}}
