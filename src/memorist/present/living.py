"""What memories live through, as JSON and as lines for people: timelines, sessions, relations, recalls, lenses."""

from collections.abc import Mapping
from typing import Any

from memorist.life import Lens, Recall, Related, Session, Timeline
from memorist.present.render import (
    LINE,
    Style,
    counted,
    memory_json,
    memory_line,
    plain,
    printable,
    superseded_mark,
    timestamp,
    when,
)
from memorist.present.snippet import preview
from memorist.records import Memory


def timeline_json(timeline: Timeline, detail: str) -> dict[str, Any]:
    return {
        "anchor": timeline.anchor,
        "entries": [memory_json(memory, detail) for memory in timeline],
        "sessions": [session_json(session) for session in timeline.sessions],
    }


def entry_text(memory: Memory, style: Style, *, anchor: bool, detail: str) -> str:
    """An entry of a timeline: when, which, what; the anchor is marked."""
    tags = " ".join(f"#{tag}" for tag in memory.tags)
    text = {"full": "", "snippet": memory.content}.get(detail, preview(memory.summary or "", LINE))
    about = style(printable("  ".join(filter(None, [tags, superseded_mark(memory)]))), dim=True)
    head = f"{style('>', bold=True) if anchor else ' '} {when(memory.created_at)}  {style(memory.short_id, fg='cyan')}"
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
    ended = f"until {when(session.ended_at)}" if session.ended_at else "open"
    count = counted(session.memories, "memory", "memories")
    about = " · ".join(filter(None, [when(session.started_at), ended, session.project, count]))
    summary = printable(preview(session.summary or "", LINE))
    return f"{style(printable(session.id), fg='cyan')}  {style(printable(about), dim=True)}  {summary}".rstrip()


def related_json(related: Related) -> dict[str, Any]:
    bond = {"relation": plain(related.relation), "similarity": related.similarity}
    return memory_json(related.memory) | bond


def related_line(related: Related, style: Style) -> str:
    """What belongs to a memory, and how: by what was said of the two, or by being similar."""
    if related.relation:
        said = related.relation
        who = f", said by {said.said_by}" if said.said_by else ""
        bond = f"{said.source[-8:]} {said.kind} {said.target[-8:]} ({said.confidence:.2f}{who})"
    else:
        bond = "similar" if related.similarity is None else f"similar ({related.similarity:.2f})"
    return f"{memory_line(related.memory, style)}\n    {style(printable(bond), dim=True)}"


def recall_text(recall: Recall, known: Mapping[str, Memory], style: Style) -> str:
    """A question that was asked, and the memories that came back; `known` are those that are still there."""
    asked = "(the question was erased)" if recall.query is None else preview(recall.query, LINE)
    where = [recall.mode, recall.lens and f"lens {recall.lens}", recall.session and f"session {recall.session}"]
    about = style(printable(" · ".join(filter(None, where))), dim=True)
    lines = [f"{when(recall.at)}  {printable(asked)}  {about}"]
    for found in recall.memories:
        text = printable(preview(known[found.id].content, LINE)) if found.id in known else "(forgotten)"
        relevance = style(f"relevance {found.relevance:.2f}", dim=True)
        lines.append(f"{found.place:>6}. {style(found.id[-8:], fg='cyan')}  {text}  {relevance}")
    return "\n".join(lines)


def lens_parts(lens: Lens) -> list[str]:
    """What a lens does, in a few words each."""
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
