"""Memories as resources, and prompts: what a person picks, where tools are what a model calls."""

from collections.abc import Sequence
from dataclasses import fields
from urllib.parse import unquote

from memorist.engine import Memorist
from memorist.engine.project_view import ProjectView
from memorist.errors import NotFound
from memorist.mcp_server.answers import LINE, encoded, label, most_that_fits, to_the_second
from memorist.mcp_server.calls import ToolContext
from memorist.present.framing import CAUTION, as_data, as_one_line, frame_element
from memorist.present.render import count_of
from memorist.records import Memory
from memorist.text.snippet import preview

SCHEME, TIMELINE, STATS = "memory://", "timeline/", "stats"
MOST_LINES = 500
RECALL = """\
Before you begin, recall what is known about this task:

{task}

From memory:

{known}

Look further with memory_search for names, errors and decisions of the task that this does not cover, read what \
matters with memory_get, and see what happened around it with memory_timeline. Say in a few lines what you will rely \
on, with its ids, and what may be outdated. Then begin."""
_OF_THE_MACHINE = ("path", "size_bytes", "schema", "sqlite")  # nobody's business at the other end


def read(served: ToolContext, uri: str) -> tuple[str, str]:
    """The text of a resource, and its type."""
    name = unquote(uri.removeprefix(SCHEME)) if uri.startswith(SCHEME) else ""
    if name == STATS:
        return encoded(_stats(served.memory)), "application/json"
    if name.startswith(TIMELINE):
        return _day(served, name.removeprefix(TIMELINE)), "text/plain"
    if not name:
        raise NotFound(
            f"there is no resource {label(uri)!r}; there are memory://ID, memory://timeline/DATE, memory://stats"
        )
    return _memory(served, name), "text/plain"


def recall(served: ToolContext, task: str) -> str:
    """What to do before a task, with what is known about it already."""
    half = served.limit // 2
    known = served.memory.context(task, budget=(half - len(RECALL)) // 4)
    return RECALL.format(task=task.strip()[:half], known=known or "(nothing comes to mind at once)")


def _memory(served: ToolContext, id: str) -> str:
    (memory, *_) = served.memory.get([id]) or [_missing(id)]
    labels = {
        "id": memory.id,
        "created": to_the_second(memory.created_at),
        "project": label(memory.project or ""),
        "kind": label(memory.kind or ""),
        "tags": label(", ".join(memory.tags)),
        "superseded-by": memory.superseded_by.id if memory.superseded_by else None,
    }

    def framed(characters: int) -> str:
        text = f"{CAUTION}\n{frame_element('memory', labels, memory.content[:characters])}"
        cut = characters < len(memory.content)
        return f"{text}\nThe rest: memory_get with ids=[{memory.id!r}] and offset={characters}." if cut else text

    return framed(most_that_fits(lambda count: len(framed(count)) <= served.limit, len(memory.content)))


def _missing(id: str) -> Memory:
    raise NotFound(f"no memory has the id {label(id)!r}")


def _day(served: ToolContext, date: str) -> str:
    line = served.memory.timeline(start=date, end=date, limit=MOST_LINES)
    lines = [_line(memory) for memory in line.memories]
    kept = _first(lines, served.limit - 500)
    more = len(lines) - len(kept)
    said = [f"{count_of(more, 'more memory', 'more memories')}: memory_timeline with start={date}"] if more else []
    what = frame_element("memories", {"date": date[:LINE]}, "\n".join(kept) or "nothing")
    return "\n".join([CAUTION, what, *said])


def _line(memory: Memory) -> str:
    what = f" [{label(memory.kind)}]" if memory.kind else ""
    return f"{to_the_second(memory.created_at)} {memory.id}{what} {preview(as_one_line(memory.summary or ''), LINE)}"


def _first(lines: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= len(as_data(line)) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def _stats(memory: Memorist | ProjectView) -> dict[str, object]:
    if isinstance(memory, ProjectView):
        counts = memory.facets(fields=("project", "kind"), include_superseded=True)
        kinds = {label(kind): count for kind, count in list(counts["kind"].items())[:20]}
        return {"project": memory.project, "memories": sum(counts["project"].values()), "kinds": kinds}
    stats = memory.stats()
    return {field.name: getattr(stats, field.name) for field in fields(stats) if field.name not in _OF_THE_MACHINE}
