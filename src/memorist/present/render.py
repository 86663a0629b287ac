"""Records as JSON and as lines for people."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from memorist.documents import DocumentHit
from memorist.present.snippet import MARK, UNMARK, preview
from memorist.records import Fact, Hit, Memory, Results, Version

Style = Callable[..., str]  # click.style's signature: text, then fg, bold, dim ...

LINE = 100  # characters of a text that is shown on one line
PLACE = ("path", "title", "breadcrumb", "start_line", "end_line")  # of a hit in a file

# What could move the cursor, colour the terminal or hide text: stored text is data, also on a screen.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def timestamp(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the second where there is no fraction."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things: "1 file", "2 files"; `many` where that takes more than an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def plain(value: Any) -> Any:
    """What JSON knows of a value: records by their fields, times as text."""
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return record_json(value) if dataclasses.is_dataclass(value) else value


def record_json(record: Any) -> dict[str, Any]:
    """A record, field by field."""
    return {field.name: plain(getattr(record, field.name)) for field in dataclasses.fields(record)}


def memory_json(memory: Memory, detail: str = "full") -> dict[str, Any]:
    """A memory as it was seen: whole, by its beginning (`snippet`), or as an entry of an index."""
    if detail != "full":
        origin = {"session": plain(memory.session), "valid_until": timestamp(memory.valid_until)}
        return index_json(memory) | origin | ({"snippet": memory.content} if detail == "snippet" else {})
    answer = {
        "id": memory.id,
        "content": memory.content,
        "created_at": timestamp(memory.created_at),
        "updated_at": timestamp(memory.updated_at),
        "deleted_at": timestamp(memory.deleted_at),
        "valid_until": timestamp(memory.valid_until),
        "namespace": memory.namespace,
        "project": memory.project,
        "session": plain(memory.session),
        "sector": memory.sector,
        "tier": memory.tier,
        "pinned": memory.pinned,
        "kind": memory.kind,
        "tags": list(memory.tags),
        "salience": memory.salience,
        "source": memory.source,
        "title": memory.title,
        "summary": memory.summary,
        "metadata": dict(memory.metadata),
        "superseded_by": plain(memory.superseded_by),
        "related_count": memory.related_count,
        "access_count": memory.access_count,
        "facts": [fact_json(fact) for fact in memory.facts],
    }
    return answer | ({"near": plain(memory.near)} if memory.near else {})


def index_json(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "created_at": timestamp(memory.created_at),
        "kind": memory.kind,
        "tags": list(memory.tags),
        "summary": memory.summary,
        "project": memory.project,
        "superseded_by": plain(memory.superseded_by),
    }


def fact_json(fact: Fact) -> dict[str, Any]:
    """A fact, beside the memory it belongs to."""
    return {field: value for field, value in record_json(fact).items() if field != "memory_id"}


def hit_json(hit: Hit, *, explain: bool, detail: str = "full") -> dict[str, Any]:
    answer: dict[str, Any] = {
        "id": hit.memory.id,
        "score": hit.score,
        "relevance": hit.relevance,
        "match": list(hit.match),
    }
    if detail != "index":
        answer |= {"snippet": hit.snippet, "highlights": plain(hit.highlights)}
    if detail == "full":
        numbers = {"keyword_score": hit.keyword_score, "similarity": hit.similarity, "confidence": hit.confidence}
        answer |= numbers | memory_json(hit.memory)
    else:
        answer |= index_json(hit.memory)
    if isinstance(hit, DocumentHit):
        answer |= {name: plain(getattr(hit, name)) for name in PLACE}  # its title is the file's
    return answer | {"trace": dict(hit.trace), "raw": dict(hit.raw)} if explain else answer


def results_json(results: Results, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "query": results.query,
        "mode": results.mode,
        "profile": results.profile,
        "lens": results.lens,
        "detail": results.detail,
        "took_ms": round(results.took_ms, 3),
        "degraded": results.degraded,
        "suggestion": results.suggestion,
        "hidden": dict(results.hidden),
        "facets": plain(results.facets),
        "relevant": results.relevant,
        "results": [hit_json(hit, explain=explain, detail=results.detail) for hit in results],
    }
    return answer | {"plan": results.plan} if explain else answer


def version_json(version: Version) -> dict[str, Any]:
    return {
        "content": version.content,
        "title": version.title,
        "tags": list(version.tags),
        "replaced_at": timestamp(version.replaced_at),
    }


def memory_line(memory: Memory, style: Style, detail: str = "index") -> str:
    """A memory on one line: its beginning, or as much as a `snippet` has."""
    text = memory.content if detail == "snippet" else preview(memory.content or memory.summary or "", LINE)
    return f"{style(memory.short_id, fg='cyan')}  {printable(text)}  {_about(memory, style)}"


def memory_text(memory: Memory, style: Style) -> str:
    """All of a memory, with its facts and the session it comes from."""
    lines = [f"{style(memory.id, fg='cyan')}  {_about(memory, style)}"]
    if memory.title:
        lines.append(style(printable(memory.title), bold=True))
    lines.append(printable(memory.content))
    lines += [f"  {fact_text(fact, style)}" for fact in memory.facts]
    if memory.session:
        about = f": {preview(memory.session.summary, LINE)}" if memory.session.summary else ""
        lines.append(style(printable(f"  from session {memory.session.id}{about}"), dim=True))
    return "\n".join(lines)


def hit_text(place: int, hit: Hit, style: Style, *, explain: bool, detail: str = "snippet") -> str:
    numbers = f"relevance {hit.relevance:.2f} · {' + '.join(hit.match)}"
    lines = [
        f"{place:>2}. {_shown(hit, style, detail)}",
        f"    {style(hit.memory.short_id, fg='cyan')}  {numbers}  {_about(hit.memory, style)}",
    ]
    lines += [f"    {fact_text(fact, style)}" for fact in hit.facts]
    if explain:
        lines.append(f"    {style(explanation(hit), dim=True)}")
    return "\n".join(lines)


def _shown(hit: Hit, style: Style, detail: str) -> str:
    """What is shown of a hit: the summary, the passage that was found, or all of it."""
    if detail == "index":
        return printable(preview(hit.memory.summary or "", LINE))
    if detail == "full":
        return printable(hit.memory.content)
    snippet = printable(" ".join(hit.snippet.split()))
    return re.sub(f"{MARK}(.*?){UNMARK}", lambda match: style(match[1], bold=True, fg="yellow"), snippet)


def fact_text(fact: Fact, style: Style) -> str:
    """A fact in one line, with the confidence it has left."""
    certainty = f"({fact.kind + ', ' if fact.kind else ''}{fact.effective:.2f})"
    return f"- {printable(' '.join(fact.text.split()))}  {style(printable(certainty), dim=True)}"


def explanation(hit: Hit) -> str:
    """The score as the sum it is, with the raw numbers behind it."""
    parts = " ".join(f"{'+' if value >= 0 else '-'} {abs(value):.3f} {step}" for step, value in hit.trace.items())
    raw = ", ".join(f"{name} {value:.3f}" for name, value in hit.raw.items())
    return f"score {hit.score:.3f} = {parts.removeprefix('+ ')}" + (f"   ({raw})" if raw else "")


def when(moment: datetime) -> str:
    """A time as the clock on the wall has it, to the minute."""
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError):  # a time that the local zone cannot express
        return moment.isoformat()


def superseded_mark(memory: Memory) -> str:
    """What is said of a memory that no longer holds; nothing of one that does."""
    if memory.superseded_by:
        return f"(superseded by {memory.superseded_by.id[-8:]})"
    return "(superseded)" if memory.superseded else ""


def _about(memory: Memory, style: Style) -> str:
    details = [memory.project, memory.kind, memory.source, *(f"#{tag}" for tag in memory.tags)]
    about = " · ".join([when(memory.created_at), *(detail for detail in details if detail)])
    marks = " ".join(filter(None, ["(pinned)" if memory.pinned else "", superseded_mark(memory)]))
    return style(printable(f"{about}  {marks}".rstrip()), dim=True)
