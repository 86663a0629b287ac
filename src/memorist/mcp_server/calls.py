"""What each tool does: one call of the engine, and its answer within the limit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memorist import validation
from memorist.engine import Memorist
from memorist.engine.project_view import ProjectView
from memorist.errors import InvalidInput, NotFound
from memorist.ingest.redaction import reported
from memorist.mcp_server.answers import (
    LINE,
    Answer,
    AnswerRow,
    encoded,
    fitted,
    hit_row,
    index_row,
    label,
    left_out,
    to_the_second,
    whole_row,
)
from memorist.present.framing import CAUTION, as_one_line
from memorist.present.render import timestamp
from memorist.records import Memory, Results, Session, Timeline, new_id
from memorist.text.snippet import preview

STILL_LOADING = "keyword search only: the model is still loading; ask again in a moment to find by meaning, too"
MOST_LOOKED_AT = 500  # rows of a timeline
MOST_SESSIONS, MOST_REDACTED = 5, 10
NOTE = 300  # characters of what the engine says about an answer
ID = 60  # characters of an id that nobody has
EMPTIABLE = ("title", "summary", "kind", "source")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What tools work on: a memory or one project of it, how long an answer may be, and where new memories belong."""

    memory: Memorist | ProjectView
    limit: int  # characters
    project: str | None = None
    ready: bool = True  # whether the model is there


def memory_search(served: ToolContext, query: str, detail: str = "snippet", **options: Any) -> Answer:
    if not query.strip():
        raise InvalidInput("the query is empty: say what to look for, or see the latest with memory_timeline")
    mode = "hybrid" if served.ready else "keyword"
    options = {"limit": 10} | options
    results = served.memory.search(query, mode=mode, detail=detail, **options)
    rows = [hit_row(hit, detail) for hit in results]
    return fitted(rows, partial(_found, served, results, detail), served.limit)


def _found(
    served: ToolContext, results: Results, detail: str, entries: list[Answer], rest: Sequence[AnswerRow]
) -> Answer:
    degraded = results.degraded if served.ready else STILL_LOADING
    answer: Answer = {"caution": CAUTION} if entries else {}
    answer |= {"results": entries, "relevant": results.relevant}
    answer |= {"degraded": as_one_line(degraded)[:NOTE]} if degraded else {}
    answer |= {"suggestion": preview(as_one_line(results.suggestion), NOTE)} if results.suggestion else {}
    answer |= {"hidden": dict(results.hidden)} if results.hidden else {}
    less = "memory_get with their ids" if detail != "index" else "a smaller limit"
    answer |= left_out(rest, f"{less}, or ask again with {'filters' if detail == 'index' else 'detail=index'}")
    return answer | {"next": _after_search(results, detail, entries)}


def _after_search(results: Results, detail: str, entries: Sequence[Answer]) -> str:
    if not entries and not results:
        return "nothing found: memory_search with other words or fewer filters; memory_timeline for the latest"
    if not results.relevant:
        return "nothing here is likely to answer, it only comes closest: memory_search with other words"
    if any("more_from" in entry for entry in entries):
        return "memory_get with the id and offset=more_from for the rest of the content"
    if detail == "full":
        return "memory_timeline with anchor=ID for what happened around one"
    return (
        "memory_get with the ids that matter for the full text; memory_timeline with anchor=ID for what came around it"
    )


def memory_get(served: ToolContext, ids: list[str], offset: int = 0, as_of: str | None = None) -> Answer:
    found = served.memory.get(list(dict.fromkeys(ids)), as_of=as_of)
    missing = [as_one_line(id)[:ID] for id in found.missing]
    if not found:
        raise NotFound(f"no memory has the id {' or '.join(missing)}; memory_search and memory_timeline give ids")
    for memory in found:
        if offset and offset >= len(memory.content):
            raise InvalidInput(
                f"memory {memory.short_id} has {len(memory.content):,} characters; offset is beyond them"
            )

    def build(entries: list[Answer], rest: Sequence[AnswerRow]) -> Answer:
        answer: Answer = {"caution": CAUTION} if entries else {}
        answer |= {"memories": entries} | ({"missing": missing} if missing else {})
        more = any("more_from" in entry for entry in entries)
        then = "memory_get with this id and offset=more_from for the rest of the content"
        after = "memory_timeline with anchor=ID for what came around it; memory_supersede if it is outdated"
        return answer | left_out(rest, "memory_get with their ids") | {"next": then if more else after}

    return fitted([whole_row(memory, offset) for memory in found], build, served.limit)


def memory_timeline(
    served: ToolContext,
    start: str | None = None,
    end: str | None = None,
    anchor: str | None = None,
    query: str | None = None,
    **options: Any,
) -> Answer:
    if anchor is not None or query is not None:
        line = served.memory.timeline(start=start, end=end, anchor=anchor, query=query, **options)
        return _around(served, line)
    if "before" in options or "after" in options:
        raise InvalidInput("before and after count rows around a memory: give an anchor or a query, too")
    if start is not None:
        line = served.memory.timeline(start=start, end=end, limit=MOST_LOOKED_AT, **options)
        return _onwards(served, line)
    until = None if end is None else validation.end(end, "end")
    page = served.memory.list(until=until, limit=MOST_LOOKED_AT, detail="index", **options)
    return _latest(served, list(page))


def _around(served: ToolContext, line: Timeline) -> Answer:
    """Rows around a memory; what is left out is what is farthest from it."""
    memories = list(line.memories)
    at = next((place for place, memory in enumerate(memories) if memory.id == line.anchor), 0)
    nearest = sorted(range(len(memories)), key=lambda place: (abs(place - at), place))

    def build(entries: list[Answer], rest: Sequence[AnswerRow]) -> Answer:
        shown = sorted(nearest[: len(entries)])
        ordered = [entries[nearest.index(place)] for place in shown]
        return _timeline(ordered, line, left_out(rest, "memory_timeline with anchor=ID of the first or last row shown"))

    return fitted([index_row(memories[place]) for place in nearest], build, served.limit)


def _onwards(served: ToolContext, line: Timeline) -> Answer:
    """Rows from a time on; the next page begins where this one ends."""

    def build(entries: list[Answer], rest: Sequence[AnswerRow]) -> Answer:
        first = line.memories[len(entries)] if rest else None
        how = f"memory_timeline with start={timestamp(first.created_at)}" if first else ""
        return _timeline(entries, line, left_out(rest, _at_least(line.memories) + how))

    return fitted([index_row(memory) for memory in line.memories], build, served.limit)


def _latest(served: ToolContext, memories: list[Memory]) -> Answer:
    """The newest rows, in the order they happened."""

    def build(entries: list[Answer], rest: Sequence[AnswerRow]) -> Answer:
        first = memories[len(entries)] if rest else None
        how = f"memory_timeline with end={timestamp(first.created_at)}" if first else ""
        return _timeline(entries[::-1], None, left_out(rest, _at_least(memories) + how))

    return fitted([index_row(memory) for memory in memories], build, served.limit)


def _at_least(memories: Sequence[Memory]) -> str:
    return "at least so many: " if len(memories) == MOST_LOOKED_AT else ""


def _timeline(entries: list[Answer], line: Timeline | None, rest: Answer) -> Answer:
    answer: Answer = {"caution": CAUTION} if entries else {}
    answer["memories"] = entries
    if line and line.anchor and entries:
        answer["anchor"] = line.anchor
    if line and line.sessions:
        answer["sessions"] = [_session(session) for session in line.sessions[:MOST_SESSIONS]]
    after = "memory_get with the ids that matter" if entries else "nothing there: memory_timeline with another time"
    return answer | rest | {"next": after}


def _session(session: Session) -> Answer:
    summary = {"summary": preview(as_one_line(session.summary), LINE)} if session.summary else {}
    return {"id": label(session.id), "started_at": to_the_second(session.started_at), **summary}


def memory_add(served: ToolContext, content: str, **fields: Any) -> Answer:
    id = new_id()
    home = {} if served.project is None else {"project": served.project}
    added = served.memory.add(content, id=id, **home | fields)
    answer: Answer = {"id": added.id, "known": added.id != id} | _redacted(added, () if added.id != id else None)
    if not added.near:
        return answer | {"next": "memory_search, when it is needed again"}
    near = added.near
    said = {"id": near.id, "snippet": preview(as_one_line(near.content), LINE)}
    answer |= {"caution": CAUTION, "near": said | {"resemblance": round(near.resemblance, 3), "merged": near.merged}}
    if near.merged:
        return answer | {"next": "nothing: it has replaced the one that says almost the same"}
    return answer | {"next": "memory_supersede with old_id=near.id and new_id=id, if this replaces that one"}


def memory_update(served: ToolContext, id: str, **changes: Any) -> Answer:
    emptied = {name: None for name in EMPTIABLE if changes.get(name) == ""}
    updated = served.memory.update(id, **changes | emptied)
    answer: Answer = {"id": updated.id, "updated_at": to_the_second(updated.updated_at)}
    return answer | _redacted(updated, changes) | {"next": "memory_get with the id to see it as it is now"}


def _redacted(memory: Memory, fields: Sequence[str] | Mapping[str, Any] | None) -> Answer:
    """Which secrets were taken out of what was given, and where they stood; never the secret."""
    entries = [
        {name: as_one_line(str(value))[:LINE] if isinstance(value, str) else value for name, value in entry.items()}
        for entry in reported(memory.metadata)
        if fields is None or str(entry.get("field", "content")).partition(".")[0] in fields
    ]
    return {"redacted": entries[:MOST_REDACTED]} if entries else {}


def memory_supersede(served: ToolContext, old_id: str, new_id: str) -> Answer:
    old = served.memory.supersede(old_id, new_id)
    newest = {"superseded_by": old.superseded_by.id} if old.superseded_by else {}
    return {"id": old.id, **newest, "next": "nothing: memory_search finds only the new one from now on"}


def memory_forget(served: ToolContext, id: str) -> Answer:
    served.memory.forget(id)
    return {"id": as_one_line(id), "next": "nothing: it is out of every search; the user can bring it back"}


def memory_context(served: ToolContext, message: str, budget: int | None = None, project: str | None = None) -> Answer:
    if not message.strip():
        raise InvalidInput("the message is empty: say what the task or question is")
    most = served.limit // 4
    tokens = min(budget or most, most)
    while len(encoded(answer := _context(served, message, tokens, project))) > served.limit:
        tokens = tokens * 9 // 10  # quotes and ends of lines are longer in JSON
    return answer


def _context(served: ToolContext, message: str, tokens: int, project: str | None) -> Answer:
    block = served.memory.context(message, budget=tokens, project=project)
    if not block:
        return {"context": "", "next": "nothing relevant is known: go on, or memory_search with other words"}
    return {"context": block, "next": "memory_get with an id for all of a memory; memory_search for more"}


CALLS: Mapping[str, Callable[..., Answer]] = {
    call.__name__: call
    for call in (
        memory_search,
        memory_get,
        memory_timeline,
        memory_add,
        memory_update,
        memory_supersede,
        memory_forget,
        memory_context,
    )
}
