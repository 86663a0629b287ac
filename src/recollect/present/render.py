"""Records as JSON and as lines for people."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from recollect.present.snippet import MARK, UNMARK, preview
from recollect.records import Hit, Memory, Results, Version

Style = Callable[..., str]  # click.style's signature: text, then fg, bold, dim ...

# What could move the cursor, colour the terminal or hide text: stored text is data, also on a screen.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def timestamp(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the second where there is no fraction."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def memory_json(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "content": memory.content,
        "created_at": timestamp(memory.created_at),
        "updated_at": timestamp(memory.updated_at),
        "deleted_at": timestamp(memory.deleted_at),
        "namespace": memory.namespace,
        "project": memory.project,
        "session": None,
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
        "superseded_by": None,
        "facts": [],
    }


def hit_json(hit: Hit, *, explain: bool) -> dict[str, Any]:
    answer = {
        "id": hit.memory.id,
        "score": hit.score,
        "relevance": hit.relevance,
        "match": list(hit.match),
        "snippet": hit.snippet,
        "highlights": [list(span) for span in hit.highlights],
        "keyword_score": hit.keyword_score,
        "similarity": hit.similarity,
        "confidence": hit.confidence,
        **memory_json(hit.memory),
        "session": hit.session,
        "superseded_by": hit.superseded_by,
        "related_count": hit.related_count,
        "facts": list(hit.facts),
    }
    return answer | {"trace": dict(hit.trace), "raw": dict(hit.raw)} if explain else answer


def results_json(results: Results, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "query": results.query,
        "mode": results.mode,
        "profile": results.profile,
        "took_ms": round(results.took_ms, 3),
        "degraded": results.degraded,
        "suggestion": results.suggestion,
        "hidden": dict(results.hidden),
        "results": [hit_json(hit, explain=explain) for hit in results],
    }
    return answer | {"plan": results.plan} if explain else answer


def version_json(version: Version) -> dict[str, Any]:
    return {
        "content": version.content,
        "title": version.title,
        "tags": list(version.tags),
        "replaced_at": timestamp(version.replaced_at),
    }


def flat_json(record: Any) -> dict[str, Any]:
    """A flat record, field by field."""
    return {
        field.name: dict(value) if isinstance(value := getattr(record, field.name), Mapping) else value
        for field in dataclasses.fields(record)
    }


def memory_line(memory: Memory, style: Style, width: int = 100) -> str:
    return f"{style(memory.short_id, fg='cyan')}  {printable(preview(memory.content, width))}  {_about(memory, style)}"


def memory_text(memory: Memory, style: Style) -> str:
    head = f"{style(memory.id, fg='cyan')}  {_about(memory, style)}"
    title = f"\n{style(printable(memory.title), bold=True)}" if memory.title else ""
    return f"{head}{title}\n{printable(memory.content)}"


def hit_text(place: int, hit: Hit, style: Style, *, explain: bool) -> str:
    snippet = printable(" ".join(hit.snippet.split()))
    marked = re.sub(f"{MARK}(.*?){UNMARK}", lambda match: style(match[1], bold=True, fg="yellow"), snippet)
    numbers = f"relevance {hit.relevance:.2f} · {' + '.join(hit.match)}"
    lines = [
        f"{place:>2}. {marked}",
        f"    {style(hit.memory.short_id, fg='cyan')}  {numbers}  {_about(hit.memory, style)}",
    ]
    if explain:
        lines.append(f"    {style(explanation(hit), dim=True)}")
    return "\n".join(lines)


def explanation(hit: Hit) -> str:
    """The score as the sum it is, with the raw numbers behind it."""
    parts = " ".join(f"{'+' if value >= 0 else '-'} {abs(value):.3f} {step}" for step, value in hit.trace.items())
    raw = ", ".join(f"{name} {value:.3f}" for name, value in hit.raw.items())
    return f"score {hit.score:.3f} = {parts.removeprefix('+ ')}" + (f"   ({raw})" if raw else "")


def _about(memory: Memory, style: Style) -> str:
    try:
        when = memory.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError):  # a time that the local zone cannot express
        when = memory.created_at.isoformat()
    facts = [when, memory.project, memory.kind, memory.source, *(f"#{tag}" for tag in memory.tags)]
    return style(printable(" · ".join(fact for fact in facts if fact)), dim=True)
