"""The calls behind tools, resources and prompts: each is one call of the engine, with an answer that fits the limit."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import asdict

from memorist import validation
from memorist.arguments import DEFAULT_TOOL_HITS, Detail, MemoryId
from memorist.engine import Memorist
from memorist.engine.context import record_hits, record_last, record_option
from memorist.engine.project_view import ProjectView
from memorist.engine.sessions import choose_project
from memorist.errors import InvalidInput, NotFound
from memorist.mcp_server.answers import (
    Answer,
    AnswerRow,
    describe_left_out,
    encode_answer,
    find_largest,
    fit_rows,
    format_time,
    full_row,
    hit_row,
    index_row,
    short_label,
    short_line,
)
from memorist.mcp_server.tools import ToolSpec, tool
from memorist.present.codec import timestamp
from memorist.present.framing import CAUTION, as_data, as_one_line, frame_element
from memorist.present.render import count_of
from memorist.records import Memory, Results, Session, Timeline
from memorist.redact.redaction import redaction_report, reported_field
from memorist.schemas import Meta
from memorist.text.snippet import preview

_MODEL_LOADING = "keyword search only: the model is still loading; ask again in a moment to search by meaning as well"
_MAX_HITS, _MAX_IDS, _MAX_NEIGHBOURS, _MIN_BUDGET = 100, 20, 100, 100
_MAX_TIMELINE_ROWS = 500
_MAX_SESSIONS, _MAX_REDACTED = 5, 10
_MAX_NOTE_CHARACTERS = 300  # of `degraded` and `suggestion`
_MAX_ID_CHARACTERS = 60  # of an id that was not found
_CHARACTERS_PER_TOKEN = 4
_CLEARABLE_FIELDS = ("title", "summary", "kind", "source", "expires_at")
_SCHEME, _TIMELINE_PREFIX, _STATS = "memory://", "timeline/", "stats"
_MAX_DAY_ROWS = 500
_MAX_KINDS = 20
_FRAME_CHARACTERS = 500  # room for what stands around the rows of a day
_RECALL_TEXT = """\
Before you begin, recall what is known about this task:

{task}

From memory:

{known}

Look further with memory_search for names, errors and decisions of the task that this does not cover, read what \
matters with memory_get, and see what happened around it with memory_timeline. Say in a few lines what you will rely \
on, with its ids, and what may be outdated. Then begin."""
_LOCAL_STATS = ("path", "size_bytes", "schema", "database")  # about this machine, so they are not sent

_QUOTED: Mapping[str, Any] = {"caution": str, "left_out": dict}  # in every answer that quotes memories
_WRITTEN: Mapping[str, Any] = {"redacted": list, "degraded": str}
_FIELDS = "title summary kind tags source salience expires_at"


class ToolContext(Struct, frozen=True):
    """The memory, or one project of it, that tools work on; the limit of an answer; the project of new memories."""

    memory: Memorist | ProjectView
    limit: int  # characters
    project: str | None = None
    is_ready: bool = True  # the model is loaded
    read_only: bool = False


@tool(
    Memorist.search,
    "project session kind tags metadata since until as_of min_relevance include_superseded include_documents",
    answers={"results": list, "relevant": bool},
    may_answer={"degraded": str, "suggestion": str, "hidden": dict, **_QUOTED},
    self_evident="project kind limit detail include_documents",
)
def memory_search(
    context: ToolContext,
    query: str,
    limit: Annotated[int, Meta(minimum=1, maximum=_MAX_HITS)] = DEFAULT_TOOL_HITS,
    detail: Detail = "snippet",
    **options: Any,
) -> Answer:
    """
    Search memories by keyword and by meaning, best first. Start here, then use memory_get for the few that matter.
    """
    if not query.strip():
        raise InvalidInput("the query is empty: say what to look for, or list the latest with memory_timeline")
    mode = "hybrid" if context.is_ready else "keyword"
    options = {"record": record_option(context.memory)} | options
    results = context.memory.search(query, limit=limit, mode=mode, detail=detail, **options)
    rows = [hit_row(hit, detail) for hit in results]
    answer = fit_rows(rows, partial(_build_search_answer, context, results, detail), context.limit)
    shown = zip(results, answer["results"], strict=False)
    record_hits(context.memory, results, {hit.memory.id: encode_answer(entry) for hit, entry in shown})
    return answer


def _build_search_answer(
    context: ToolContext, results: Results, detail: str, entries: list[Answer], rest: Sequence[AnswerRow]
) -> Answer:
    degraded = results.degraded if context.is_ready else _MODEL_LOADING
    answer: Answer = {"caution": CAUTION} if entries else {}
    answer |= {"results": entries, "relevant": results.relevant}
    answer |= {"degraded": as_one_line(degraded)[:_MAX_NOTE_CHARACTERS]} if degraded else {}
    if results.suggestion:
        answer["suggestion"] = preview(as_one_line(results.suggestion), _MAX_NOTE_CHARACTERS)
    answer |= {"hidden": dict(results.hidden)} if results.hidden else {}
    if detail == "index":
        how = "a smaller limit, or ask again with filters"
    else:
        how = "memory_get with their ids, or ask again with detail=index"
    return answer | describe_left_out(rest, how) | {"next": _next_after_search(results, detail, entries)}


def _next_after_search(results: Results, detail: str, entries: Sequence[Answer]) -> str:
    if not entries and not results:
        return "nothing found: memory_search with other words or fewer filters; memory_timeline for the latest"
    if not results.relevant:
        return "none of these is likely to answer the question: memory_search with other words"
    if any("more_from" in entry for entry in entries):
        return "memory_get with the id and offset=more_from for the rest of the content"
    if detail == "full":
        return "memory_timeline with anchor=ID for what happened around one"
    return (
        "memory_get with the ids that matter for the full text; memory_timeline with anchor=ID for what came around it"
    )


@tool(
    Memorist._get_several,
    "as_of",
    answers={"memories": list},
    may_answer={"missing": list, **_QUOTED},
)
def memory_get(
    context: ToolContext,
    ids: Annotated[Sequence[str], Meta(min_items=1, max_items=_MAX_IDS)],
    offset: Annotated[int, Meta("Character to start at (0)", minimum=0)] = 0,
    **options: Any,
) -> Answer:
    """Get the full text of memories by the ids from a search or timeline. Long ones come in parts: see offset."""
    memories = context.memory.get(list(dict.fromkeys(ids)), **options)
    missing = [as_one_line(id)[:_MAX_ID_CHARACTERS] for id in memories.missing]
    if not memories:
        raise NotFound(f"no memory has the id {' or '.join(missing)}; memory_search and memory_timeline return ids")
    for memory in memories:
        if offset and offset >= len(memory.content):
            raise InvalidInput(
                f"offset {offset:,} is beyond the end: memory {memory.short_id} has {len(memory.content):,} characters"
            )

    def build(entries: list[Answer], rest: Sequence[AnswerRow]) -> Answer:
        answer: Answer = {"caution": CAUTION} if entries else {}
        answer |= {"memories": entries} | ({"missing": missing} if missing else {})
        if any("more_from" in entry for entry in entries):
            following = "memory_get with this id and offset=more_from for the rest of the content"
        else:
            following = "memory_timeline with anchor=ID for what came around it"
            following += "" if context.read_only else "; memory_supersede if it is outdated"
        return answer | describe_left_out(rest, "memory_get with their ids") | {"next": following}

    return fit_rows([full_row(memory, offset) for memory in memories], build, context.limit)


@tool(
    Memorist.timeline,
    "project as_of",
    answers={"memories": list},
    may_answer={"anchor": str, "sessions": list, **_QUOTED},
    self_evident="start project after",
)
def memory_timeline(
    context: ToolContext,
    start: str | None = None,
    end: Annotated[str | None, Meta("Inclusive: 2026-03 covers all of March")] = None,
    anchor: str | None = None,
    query: str | None = None,
    before: Annotated[int | None, Meta("Rows before the anchor (5)", maximum=_MAX_NEIGHBOURS)] = None,
    after: Annotated[int | None, Meta(maximum=_MAX_NEIGHBOURS)] = None,
    **options: Any,
) -> Answer:
    """
    List what happened, in order, one line each: the latest, between two times, or around a memory (anchor) or the best
    match for a query.
    """
    around: dict[str, Any] = {
        name: count for name, count in (("before", before), ("after", after)) if count is not None
    }
    if anchor is not None or query is not None:
        timeline = context.memory.timeline(start=start, end=end, anchor=anchor, query=query, **around, **options)
        return _answer_around_anchor(context, timeline)
    if around:
        raise InvalidInput("before and after count rows around a memory: give an anchor or a query as well")
    if start is not None:
        timeline = context.memory.timeline(start=start, end=end, limit=_MAX_TIMELINE_ROWS, **options)
        return _answer_page(context, timeline.memories, timeline)
    until = None if end is None else validation.end(end, "end")
    page = context.memory.list(until=until, limit=_MAX_TIMELINE_ROWS, detail="index", **options)
    return _answer_page(context, page)


def _answer_around_anchor(context: ToolContext, timeline: Timeline) -> Answer:
    """Return the rows around a memory; those farthest from it are left out first."""
    memories = list(timeline.memories)
    center = next((at for at, memory in enumerate(memories) if memory.id == timeline.anchor), 0)
    nearest = sorted(range(len(memories)), key=lambda at: (abs(at - center), at))

    def build(entries: list[Answer], rest: Sequence[AnswerRow]) -> Answer:
        in_order = [entry for _, entry in sorted(zip(nearest, entries, strict=False), key=lambda pair: pair[0])]
        left_out = describe_left_out(rest, "memory_timeline with anchor=ID of the first or last row shown")
        return _build_timeline_answer(in_order, timeline, left_out)

    return fit_rows([index_row(memories[at]) for at in nearest], build, context.limit)


def _answer_page(context: ToolContext, memories: Sequence[Memory], timeline: Timeline | None = None) -> Answer:
    """Return the rows of a timeline from its start, or the newest memories; the next page goes on from the last."""

    def build(entries: list[Answer], rest: Sequence[AnswerRow]) -> Answer:
        left_out: Answer = {}
        if rest:
            at_least = "at least this many: " if len(memories) == _MAX_TIMELINE_ROWS else ""
            place = f"{'end' if timeline is None else 'start'}={timestamp(memories[len(entries)].created_at)}"
            left_out = describe_left_out(rest, f"{at_least}memory_timeline with {place}")
        return _build_timeline_answer(entries[::-1] if timeline is None else entries, timeline, left_out)

    return fit_rows([index_row(memory) for memory in memories], build, context.limit)


def _build_timeline_answer(entries: list[Answer], timeline: Timeline | None, left_out: Answer) -> Answer:
    answer: Answer = {"caution": CAUTION} if entries else {}
    answer["memories"] = entries
    if timeline and timeline.anchor and entries:
        answer["anchor"] = timeline.anchor
    if timeline and timeline.sessions:
        answer["sessions"] = [_session_entry(session) for session in timeline.sessions[:_MAX_SESSIONS]]
    following = "memory_get with the ids that matter" if entries else "nothing there: memory_timeline with another time"
    return answer | left_out | {"next": following}


def _session_entry(session: Session) -> Answer:
    summary = {"summary": short_line(session.summary)} if session.summary else {}
    return {"id": short_label(session.id), "started_at": format_time(session.started_at), **summary}


@tool(
    Memorist.add,
    f"{_FIELDS} project session sector facts created_at id if_exists",
    answers={"id": str, "known": bool},
    may_answer={"near": dict, "caution": str, **_WRITTEN},
    self_evident="title tags facts project sector",
)
def memory_add(context: ToolContext, content: str, **fields: Any) -> Answer:
    """
    Remember one thing worth knowing next time: a decision and its reason, a cause, a preference. In full sentences, no
    secrets. The same text again reinforces the memory.
    """
    started = datetime.now(UTC)
    memory, project = context.memory, context.project
    if isinstance(memory, Memorist):
        project = choose_project(memory, fields.get("session"), project)
    added = memory.add(content, **{"project": project} | fields)
    is_known = added.recorded_at < started
    answer: Answer = {"id": added.id, "known": is_known} | _describe_redacted(added, () if is_known else None)
    answer |= _describe_degraded(added)
    near = added.near
    if not near:
        return answer | {"next": "memory_search, when it is needed again"}
    entry = {"id": near.id, "snippet": short_line(near.content)}
    answer |= {"caution": CAUTION, "near": entry | {"resemblance": round(near.resemblance, 3), "merged": near.merged}}
    if near.merged:
        return answer | {"next": "nothing: it has replaced a memory that says almost the same"}
    return answer | {"next": "memory_supersede with old_id=near.id and new_id=id, if this replaces that one"}


@tool(
    Memorist.update,
    f"content {_FIELDS}",
    answers={"id": str},
    may_answer={"updated_at": str, **_WRITTEN},
    is_idempotent=True,
    self_evident="title kind tags",
)
def memory_update(context: ToolContext, id: str, **changes: Any) -> Answer:
    """
    Correct a memory; its history keeps the old text. Only the given fields change; "" clears one. If things have
    changed since, add a new memory and use memory_supersede instead.
    """
    cleared = {name: None for name in _CLEARABLE_FIELDS if changes.get(name) == ""}
    updated = context.memory.update(id, **changes | cleared)
    answer: Answer = {"id": updated.id, "updated_at": format_time(updated.updated_at)} | _describe_degraded(updated)
    return answer | _describe_redacted(updated, changes) | {"next": "memory_get with the id to see it as it is now"}


def _describe_degraded(memory: Memory) -> Answer:
    """Return why a memory that was written waits for its vector."""
    return {"degraded": as_one_line(memory.degraded)[:_MAX_NOTE_CHARACTERS]} if memory.degraded else {}


def _describe_redacted(memory: Memory, fields: Sequence[str] | Mapping[str, Any] | None) -> Answer:
    """Return the kinds and positions of secrets that were replaced in these fields (None: in all), never a secret."""
    entries = [
        {name: short_line(value) if isinstance(value, str) else value for name, value in entry.items()}
        for entry in redaction_report(memory.metadata)
        if fields is None or reported_field(entry) in fields
    ]
    return {"redacted": entries[:_MAX_REDACTED]} if entries else {}


@tool(Memorist.supersede, answers={"id": str}, may_answer={"superseded_by": str}, is_idempotent=True)
def memory_supersede(context: ToolContext, old_id: MemoryId, new_id: MemoryId) -> Answer:
    """Mark an older memory as replaced by a newer one; searches then leave out the older one."""
    old = context.memory.supersede(old_id, new_id)
    newest = {"superseded_by": old.superseded_by.id} if old.superseded_by else {}
    return {"id": old.id, **newest, "next": "nothing: from now on memory_search finds only the new one"}


@tool(Memorist.forget, answers={"id": str}, destroys=True)
def memory_forget(context: ToolContext, id: str) -> Answer:
    """Remove a memory from all searches. Only if it is wrong or unwanted; the user can restore it."""
    context.memory.forget(id)
    return {"id": as_one_line(id), "next": "nothing: no search finds it any more; the user can restore it"}


@tool(Memorist.context, "project metadata", answers={"context": str})
def memory_context(
    context: ToolContext,
    message: str,
    budget: Annotated[int | None, Meta(minimum=_MIN_BUDGET)] = None,
    **options: Any,
) -> Answer:
    """Get the memories that matter for a message, packed into one block: the quickest start for a task."""
    if not message.strip():
        raise InvalidInput("the message is empty: say what the task or question is")
    most = context.limit // _CHARACTERS_PER_TOKEN
    tokens = min(budget or most, most)
    with record_last(context.memory):
        while len(encode_answer(answer := _build_context_answer(context, message, tokens, options))) > context.limit:
            tokens = tokens * 9 // 10  # quotes and line ends are longer in JSON
    return answer


def _build_context_answer(context: ToolContext, message: str, tokens: int, options: Mapping[str, Any]) -> Answer:
    block = context.memory.context(message, budget=tokens, **options)
    if not block:
        return {"context": "", "next": "nothing relevant is known: go on, or memory_search with other words"}
    return {"context": block, "next": "memory_get with an id for its full text; memory_search for more"}


TOOLS: Mapping[str, ToolSpec] = {one.name: one for one in list(globals().values()) if isinstance(one, ToolSpec)}


# Resources and prompts


def read_resource(context: ToolContext, uri: str) -> tuple[str, str]:
    """Return the text of a resource and its MIME type."""
    name = unquote(uri.removeprefix(_SCHEME)) if uri.startswith(_SCHEME) else ""
    if name == _STATS:
        return encode_answer(_collect_stats(context.memory)), "application/json"
    if name.startswith(_TIMELINE_PREFIX):
        return _format_day(context, name.removeprefix(_TIMELINE_PREFIX)), "text/plain"
    if not name:
        raise NotFound(
            f"there is no resource {short_label(uri)!r}; the resources are memory://ID, memory://timeline/DATE and "
            "memory://stats"
        )
    return _format_memory(context, name), "text/plain"


def build_recall_text(context: ToolContext, task: str) -> str:
    """Return the prompt for the beginning of a task, with what is known about it."""
    half = context.limit // 2
    known = context.memory.context(task, budget=(half - len(_RECALL_TEXT)) // 4)
    return _RECALL_TEXT.format(task=task.strip()[:half], known=known or "(nothing relevant was found)")


def _format_memory(context: ToolContext, id: str) -> str:
    memories = context.memory.get([id])
    if not memories:
        raise NotFound(f"no memory has the id {short_label(id)!r}")
    memory = memories[0]
    labels = {
        "id": memory.id,
        "created": format_time(memory.created_at),
        "project": short_label(memory.project or ""),
        "kind": short_label(memory.kind or ""),
        "tags": short_label(", ".join(memory.tags)),
        "superseded-by": memory.superseded_by.id if memory.superseded_by else None,
    }

    def format_part(characters: int) -> str:
        text = f"{CAUTION}\n{frame_element('memory', labels, memory.content[:characters])}"
        is_cut = characters < len(memory.content)
        return f"{text}\nThe rest: memory_get with ids=[{memory.id!r}] and offset={characters}." if is_cut else text

    return format_part(find_largest(lambda count: len(format_part(count)) <= context.limit, len(memory.content)))


def _format_day(context: ToolContext, date: str) -> str:
    timeline = context.memory.timeline(start=date, end=date, limit=_MAX_DAY_ROWS)
    rows = [_format_row(memory) for memory in timeline.memories]
    shown = _take_fitting(rows, context.limit - _FRAME_CHARACTERS)
    more = len(rows) - len(shown)
    note = [f"{count_of(more, 'more memory', 'more memories')}: memory_timeline with start={date}"] if more else []
    block = frame_element("memories", {"date": short_line(date)}, "\n".join(shown) or "nothing")
    return "\n".join([CAUTION, block, *note])


def _format_row(memory: Memory) -> str:
    kind = f" [{short_label(memory.kind)}]" if memory.kind else ""
    successor = f" by {memory.superseded_by.id}" if memory.superseded_by else ""
    superseded = f" [superseded{successor}]" if memory.valid_until else ""
    return f"{format_time(memory.created_at)} {memory.id}{kind}{superseded} {short_line(memory.summary or '')}"


def _take_fitting(rows: Sequence[str], room: int) -> list[str]:
    """Return as many of the first rows as fit into a number of characters."""
    fitting: list[str] = []
    for row in rows:
        room -= len(as_data(row)) + 1
        if room < 0:
            break
        fitting.append(row)
    return fitting


def _collect_stats(memory: Memorist | ProjectView) -> dict[str, object]:
    if isinstance(memory, ProjectView):
        counts = memory.facets(fields=("project", "kind"), include_superseded=True)
        kinds = {short_label(kind): count for kind, count in list(counts["kind"].items())[:_MAX_KINDS]}
        return {"project": memory.project, "memories": sum(counts["project"].values()), "kinds": kinds}
    stats = memory.stats()
    return {name: value for name, value in asdict(stats).items() if name not in _LOCAL_STATS}
