"""Rendering of records as JSON, and as lines for people."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from memorist.file_records import Document, DocumentHit
from memorist.ids import shorten_id
from memorist.present.codec import encode, timestamp
from memorist.records import Fact, Hit, Lens, Memory, Recall, Related, Relation, Results, Session, Timeline
from memorist.reports import IndexReport
from memorist.text.snippet import MARK, UNMARK, preview

Style = Callable[..., str]  # click.style's signature: text, then fg, bold, dim ...

LINE_CHARACTERS = 100  # of a text shown on one line
_MEMORY_FIELDS = (
    "id", "content", "created_at", "updated_at", "deleted_at", "valid_until", "expires_at", "namespace", "project",
    "session", "sector", "tier", "pinned", "kind", "tags", "salience", "source", "title", "summary", "metadata",
    "superseded_by", "related_count", "access_count",
)  # fmt: skip
_INDEX_FIELDS = ("id", "created_at", "kind", "tags", "summary", "project", "superseded_by")
_LOCATION_FIELDS = ("path", "title", "breadcrumb", "start_line", "end_line")  # of a hit in a file

# Characters that could move the cursor, colour the terminal, reorder or hide text, or look like the end of a line.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# The same in JSON, which escapes the first 32 itself, and marks of writing direction: an escape loses nothing.
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Replace control characters, so that stored text cannot steer a terminal."""
    return _UNPRINTABLE.sub("\ufffd", text)


def printable_line(text: str) -> str:
    """Return a text on one line, without control characters: for messages, of which others may have written a part."""
    return printable(" ".join(text.split()))


def printable_json(text: str) -> str:
    """Escape control characters in JSON, which stays the same JSON."""
    return _ESCAPED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shell_id(id: str) -> str:
    """Return an id as an argument of a command to be typed, whatever its characters are."""
    return f"{'-- ' if id.startswith('-') else ''}{shlex.quote(printable(id))}"


def count_of(number: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: "1 file", "2 files"; `many` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def record_json(record: Any) -> dict[str, Any]:
    """Convert a record to JSON, field by field."""
    fields: dict[str, Any] = encode(record)
    return fields


def memory_json(memory: Memory, detail: str = "full") -> dict[str, Any]:
    """Convert a memory to JSON in the detail it has: `full`, `snippet` or `index`."""
    if detail != "full":
        origin = {"session": encode(memory.session), "valid_until": timestamp(memory.valid_until)}
        return _index_json(memory) | origin | ({"snippet": memory.content} if detail == "snippet" else {})
    answer = _fields_json(memory, _MEMORY_FIELDS) | {"facts": [fact_json(fact) for fact in memory.facts]}
    answer |= {"degraded": memory.degraded} if memory.degraded else {}
    return answer | ({"near": encode(memory.near)} if memory.near else {})


def _index_json(memory: Memory) -> dict[str, Any]:
    """Convert a memory to an entry of an index."""
    return _fields_json(memory, _INDEX_FIELDS)


def _fields_json(record: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: encode(getattr(record, name)) for name in names}


def fact_json(fact: Fact) -> dict[str, Any]:
    """Convert a fact to JSON, without the id of its memory."""
    return {field: value for field, value in record_json(fact).items() if field != "memory_id"}


def _hit_json(hit: Hit, *, explain: bool, detail: str = "full") -> dict[str, Any]:
    answer: dict[str, Any] = {
        "id": hit.memory.id,
        "score": hit.score,
        "relevance": hit.relevance,
        "match": list(hit.match),
    }
    if detail != "index":
        answer |= {"snippet": hit.snippet, "highlights": encode(hit.highlights)}
    if detail == "full":
        numbers = _fields_json(hit, ("keyword_score", "similarity", "confidence", "is_superseded"))
        answer |= numbers | memory_json(hit.memory)
    else:
        answer |= _index_json(hit.memory)
    if isinstance(hit, DocumentHit):
        answer |= _fields_json(hit, _LOCATION_FIELDS)  # its title is the file's
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
        "facets": encode(results.facets),
        "relevant": results.relevant,
        "results": [_hit_json(hit, explain=explain, detail=results.detail) for hit in results],
    }
    return answer | {"plan": results.plan} if explain else answer


def memory_line(memory: Memory, style: Style, detail: str = "index") -> str:
    """Return a memory on one line: its beginning, or its `snippet`."""
    text = memory.content if detail == "snippet" else preview(memory.content or memory.summary or "", LINE_CHARACTERS)
    return f"{style(printable(memory.short_id), fg='cyan')}  {printable(text)}  {_details(memory, style)}"


def memory_text(memory: Memory, style: Style) -> str:
    """Return a whole memory, with its facts and the session it comes from."""
    lines = [f"{style(printable(memory.id), fg='cyan')}  {_details(memory, style)}"]
    if memory.title:
        lines.append(style(printable(memory.title), bold=True))
    lines.append(printable(memory.content))
    lines += [f"  {fact_text(fact, style)}" for fact in memory.facts]
    if memory.session:
        about = f": {preview(memory.session.summary, LINE_CHARACTERS)}" if memory.session.summary else ""
        lines.append(style(printable(f"  from session {memory.session.id}{about}"), dim=True))
    return "\n".join(lines)


def hit_text(place: int, hit: Hit, style: Style, *, explain: bool, detail: str = "snippet") -> str:
    numbers = f"score {hit.score:.2f} · relevance {hit.relevance:.2f} · {' + '.join(hit.match)}"
    lines = [
        f"{place:>2}. {_hit_content(hit, style, detail)}",
        f"    {style(printable(hit.memory.short_id), fg='cyan')}  {numbers}  {_details(hit.memory, style)}",
    ]
    lines += [f"    {fact_text(fact, style)}" for fact in hit.facts]
    if explain:
        lines.append(f"    {style(_explanation(hit), dim=True)}")
    return "\n".join(lines)


def _hit_content(hit: Hit, style: Style, detail: str) -> str:
    """Return the text of a hit by detail: its summary, the passage found, or all of it."""
    if detail == "index":
        return printable(preview(hit.memory.summary or "", LINE_CHARACTERS))
    if detail == "full":
        return printable(hit.memory.content)
    return _marked_snippet(hit, style)


def _marked_snippet(hit: Hit, style: Style) -> str:
    snippet = printable(" ".join(hit.snippet.split()))
    return re.sub(f"{MARK}(.*?){UNMARK}", lambda match: style(match[1], bold=True, fg="yellow"), snippet)


def fact_text(fact: Fact, style: Style) -> str:
    """Return a fact on one line, with its present confidence."""
    confidence = f"({fact.kind + ', ' if fact.kind else ''}{fact.effective:.2f})"
    return f"- {printable(' '.join(fact.text.split()))}  {style(printable(confidence), dim=True)}"


def _explanation(hit: Hit) -> str:
    """Return the score as the sum of its trace, with the raw scores."""
    parts = " ".join(f"{'+' if value >= 0 else '-'} {abs(value):.3f} {step}" for step, value in hit.trace.items())
    raw = ", ".join(f"{name} {value:.3f}" for name, value in hit.raw.items())
    return f"score {hit.score:.3f} = {parts.removeprefix('+ ')}" + (f"   ({raw})" if raw else "")


def local_time(moment: datetime) -> str:
    """Return a time in the local zone, to the minute."""
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError):  # a time that the local zone cannot express
        return moment.isoformat()


def _superseded_mark(memory: Memory) -> str:
    """Return a mark for a superseded memory, or ""."""
    if memory.superseded_by:
        return f"(superseded by {shorten_id(memory.superseded_by.id)})"
    return "(superseded)" if memory.superseded else ""


def _details(memory: Memory, style: Style) -> str:
    details = [memory.project, memory.kind, memory.source, *(f"#{tag}" for tag in memory.tags)]
    about = " · ".join([local_time(memory.created_at), *(detail for detail in details if detail)])
    marks = " ".join(filter(None, ["(pinned)" if memory.pinned else "", _superseded_mark(memory)]))
    return style(printable(f"{about}  {marks}".rstrip()), dim=True)


def timeline_json(timeline: Timeline, detail: str) -> dict[str, Any]:
    return {
        "anchor": timeline.anchor,
        "entries": [memory_json(memory, detail) for memory in timeline],
        "sessions": [session_json(session) for session in timeline.sessions],
    }


def timeline_entry_text(memory: Memory, style: Style, *, anchor: bool, detail: str) -> str:
    """Return an entry of a timeline: time, id and text; the anchor is marked."""
    tags = " ".join(f"#{tag}" for tag in memory.tags)
    text = {"full": "", "snippet": memory.content}.get(detail, preview(memory.summary or "", LINE_CHARACTERS))
    about = style(printable("  ".join(filter(None, [tags, _superseded_mark(memory)]))), dim=True)
    mark = style(">", bold=True) if anchor else " "
    head = f"{mark} {local_time(memory.created_at)}  {style(printable(memory.short_id), fg='cyan')}"
    line = "  ".join(filter(None, [head, printable(text), about]))
    return f"{line}\n{printable(memory.content)}" if detail == "full" else line


def session_json(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "started_at": timestamp(session.started_at),
        "ended_at": timestamp(session.ended_at),
        "summary": session.summary,
        "project": session.project,
        "memory_count": session.memories,
    }


def session_line(session: Session, style: Style) -> str:
    ended = f"until {local_time(session.ended_at)}" if session.ended_at else "open"
    count = count_of(session.memories, "memory", "memories")
    about = " · ".join(filter(None, [local_time(session.started_at), ended, session.project, count]))
    summary = printable(preview(session.summary or "", LINE_CHARACTERS))
    return f"{style(printable(session.id), fg='cyan')}  {style(printable(about), dim=True)}  {summary}".rstrip()


def related_json(related: Related) -> dict[str, Any]:
    names = ("relation", "further_relations", "similarity")
    return memory_json(related.memory) | {name: encode(getattr(related, name)) for name in names}


def related_line(related: Related, style: Style) -> str:
    """Return a related memory, and how it is related: by links, or by similarity."""
    if related.relation:
        bonds = [_relation_line(relation) for relation in (related.relation, *related.further_relations)]
    else:
        bonds = ["similar" if related.similarity is None else f"similar ({related.similarity:.2f})"]
    return "\n    ".join([memory_line(related.memory, style), *(style(printable(bond), dim=True) for bond in bonds)])


def _relation_line(relation: Relation) -> str:
    who = f", said by {relation.said_by}" if relation.said_by else ""
    return (
        f"{shorten_id(relation.source)} {relation.kind} {shorten_id(relation.target)} ({relation.confidence:.2f}{who})"
    )


def recall_text(recall: Recall, known: Mapping[str, Memory], style: Style) -> str:
    """Return a recorded search and the memories it found; `known` are those that still exist."""
    asked = "(the question was erased)" if recall.query is None else preview(recall.query, LINE_CHARACTERS)
    where = [recall.mode, recall.lens and f"lens {recall.lens}", recall.session and f"session {recall.session}"]
    if recall.tokens is not None:
        where.append(f"{count_of(recall.tokens, 'token')} put into the prompt by {recall.surface}")
    about = style(printable(" · ".join(filter(None, where))), dim=True)
    lines = [f"{local_time(recall.at)}  {printable(asked)}  {about}"]
    for found in recall.memories:
        text = printable(preview(known[found.id].content, LINE_CHARACTERS)) if found.id in known else "(forgotten)"
        relevance = style(f"relevance {found.relevance:.2f}", dim=True)
        lines.append(f"{found.place:>6}. {style(printable(shorten_id(found.id)), fg='cyan')}  {text}  {relevance}")
    return "\n".join(lines)


def describe_lens(lens: Lens) -> list[str]:
    """Return what a lens does, in a few words each."""
    parts = [f"profile {lens.profile}"] if lens.profile else []
    parts += [f"{field} {_values(value)}" for field, value in lens.filters.items()]
    parts += [
        f"{field}={value} counts x{factor:g}"
        for field, factors in lens.boosts.items()
        for value, factor in factors.items()
    ]
    if lens.recency:
        parts.append("recency " + " ".join(str(value) for value in lens.recency.values()))
    return [printable(part) for part in parts]


def _values(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


_MAX_REDACTED_PLACES = 5  # of secrets of one kind, unless all are asked for

_COUNTS = ("added", "changed", "unchanged", "renamed", "removed")


def display_path(path: str) -> str:
    """Return a path relative to the current folder where it is inside it, else absolute."""
    here = os.path.realpath(os.curdir)
    inside = os.path.relpath(path, here) if path.startswith(here.rstrip(os.sep) + os.sep) else path
    return printable(inside)


def document_hit_text(place: int, hit: DocumentHit, style: Style, *, whole: bool) -> str:
    """Return the location of a passage and, below it, the passage, or the `whole` text line by line."""
    lines = f"{hit.start_line}-{hit.end_line}" if hit.end_line > hit.start_line else f"{hit.start_line}"
    # A heading that equals the title is not repeated.
    titles = dict.fromkeys(part for part in (hit.title, *hit.breadcrumb) if part)
    numbers = style(f"(score {hit.score:.2f} · relevance {hit.relevance:.2f} · {' + '.join(hit.match)})", dim=True)
    where = style(f"{display_path(hit.path)}:{lines}", fg="cyan")
    head = f"{place:>2}. {where}  {printable(' › '.join(titles))}  {numbers}"
    if whole:
        return "\n".join([head, *(f"    {printable(line)}" for line in hit.memory.content.splitlines())])
    return f"{head}\n    {_marked_snippet(hit, style)}"


def document_json(document: Document) -> dict[str, Any]:
    """Convert a listed file to JSON, without its links, which only a single document has."""
    return {name: value for name, value in record_json(document).items() if name not in ("links", "linked_from")}


def document_line(document: Document, style: Style) -> str:
    """Return a file on one line."""
    chunks = count_of(document.chunks, "chunk")
    about = " · ".join(filter(None, [local_time(document.indexed_at), chunks, document.project]))
    title = f"  {printable(document.title)}" if document.title else ""
    return f"{style(display_path(document.path), fg='cyan')}{title}  {style(printable(about), dim=True)}"


def report_line(report: IndexReport) -> str:
    """Return the counts of an indexing run on one line."""
    parts = [f"{getattr(report, name):,} {name}" for name in _COUNTS if getattr(report, name)]
    if report.chunks:
        parts.append(f"{count_of(report.chunks, 'chunk')} ({report.embedded:,} embedded)")
    for name, number in (("skipped", len(report.skipped)), ("redacted", sum(report.redacted.values()))):
        parts += [f"{number:,} {name}"] if number else []
    return ", ".join(parts) or "nothing to index"


def report_lines(report: IndexReport, *, verbose: bool) -> Iterator[str]:
    """Yield what was skipped, by reason, and what was redacted, by kind and place; never the secret itself."""
    if report.skipped:
        yield "Skipped:"
        yield from _count_lines(Counter(reason for _, reason in report.skipped).most_common(), lambda reason: reason)
    if verbose:
        yield from (f"          {display_path(path)}: {printable(reason)}" for path, reason in report.skipped)
    if report.redacted:
        yield "Redacted:"
        kinds = sorted(report.redacted.items(), key=lambda item: (-item[1], item[0]))
        yield from _count_lines(kinds, lambda kind: f"{kind} at {_redacted_places(report, kind, verbose)}")


def _count_lines(counts: Iterable[tuple[str, int]], say: Callable[[str], str]) -> Iterator[str]:
    return (f"  {count:>6,}  {printable(say(name))}" for name, count in counts)


def _redacted_places(report: IndexReport, kind: str, verbose: bool) -> str:
    places = [f"{display_path(path)}:{line}" for each, path, line in report.redacted_at if each == kind]
    shown = places if verbose else places[:_MAX_REDACTED_PLACES]
    more = report.redacted[kind] - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
