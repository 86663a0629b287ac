"""Memories as resources, and the text of the prompt `recall`: what a person picks, where a model calls tools."""

from collections.abc import Sequence
from dataclasses import fields
from urllib.parse import unquote

from memorist.engine import Memorist
from memorist.engine.project_view import ProjectView
from memorist.errors import NotFound
from memorist.mcp_server.answers import encode_answer, find_largest, format_time, short_label, short_line
from memorist.mcp_server.calls import ToolContext
from memorist.present.framing import CAUTION, as_data, frame_element
from memorist.present.render import count_of
from memorist.records import Memory

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
_LOCAL_STATS = ("path", "size_bytes", "schema", "sqlite")  # about this machine, so they are not sent


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
    return {field.name: getattr(stats, field.name) for field in fields(stats) if field.name not in _LOCAL_STATS}
