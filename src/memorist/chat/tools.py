"""
What a model may do with the memory: search it and, where that is allowed, add to it.

A call is answered in JSON, with `{"error": ...}` where it failed: a model can read that, and try otherwise.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from memorist import validation
from memorist.chat.base import Tool, ToolCall
from memorist.documents import DocumentHit
from memorist.engine import Memorist
from memorist.errors import InvalidInput, MemoristError
from memorist.present.framing import as_data, as_one_line
from memorist.present.render import timestamp
from memorist.records import Hit
from memorist.text.snippet import ELLIPSIS, preview, strip_marks

LIMIT, MOST = 5, 20  # memories that a search gives, if the model does not say, and at most
OWN = 100  # more that are looked at, as turns of this conversation may be among them
SIZE = 6000  # characters of an answer: about 1,500 tokens
ROOM = 200  # of them for what stands around the memories
CONTENT = 1200  # characters of one memory in it
LABEL = 100  # characters of a project, kind, title or source
SOURCE = "chat"

SEARCH = Tool(
    "memory_search",
    "Search the user's memory: notes, decisions, earlier conversations and indexed files, by word and by meaning. Use "
    "it whenever the answer may depend on something that was said or decided before. Results come best first; a "
    "relevance below 0.5 is probably not about the question.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to search for, as a question or in keywords."},
            "limit": {"type": "integer", "description": f"How many at most (1..{MOST}, default {LIMIT})."},
        },
        "required": ["query"],
    },
)
ADD = Tool(
    "memory_add",
    "Remember something for later conversations: a decision, a fact, a preference. Only what the user said or agreed "
    "to, in one or two sentences that can be understood without this conversation.",
    {
        "type": "object",
        "properties": {
            "content": {"type": "string", "description": "What to remember."},
            "kind": {"type": "string", "description": "What it is in a word: decision, fact, preference ..."},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags, if any."},
        },
        "required": ["content"],
    },
)


class Tools:
    """The tools of one conversation. `found` are the memories that its searches gave, in order."""

    def __init__(
        self,
        memory: Memorist,
        *,
        session: str,
        warn: Callable[[str], None],
        project: str | None = None,
        add: bool = False,
        add_to: str | None = None,
    ) -> None:
        """
        Only memories of the `project`, where one is given, are found, with those that belong to none. What was said in
        the `session` itself is not: the model knows it. What is added belongs to the project `add_to`.
        """
        self._memory, self._session, self._warn = memory, session, warn
        self._project, self._add_to = project, add_to
        self._run: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {SEARCH.name: self._search}
        if add:
            self._run = {**self._run, ADD.name: self._add}
        self.offered = (SEARCH, ADD) if add else (SEARCH,)
        self.found: list[str] = []

    def run(self, call: ToolCall) -> str:
        """Do what a model asked for, as JSON."""
        return json.dumps(self._answer(call), ensure_ascii=False)

    def _answer(self, call: ToolCall) -> dict[str, Any]:
        if call.name not in self._run:
            return {"error": f"there is no tool {preview(call.name, LABEL)!r}; there are: {', '.join(self._run)}"}
        if call.arguments is None:
            return {"error": "the arguments are no JSON object: write them as the tool's schema says"}
        try:
            return self._run[call.name](call.arguments)
        except InvalidInput as exc:
            return {"error": as_data(str(exc))}
        except MemoristError as exc:  # not the model's fault: whoever looks after the memory has to know
            self._warn(f"{call.name} failed: {exc}")
            return {"error": as_data(str(exc))}

    def _search(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        query, limit = arguments.get("query"), arguments.get("limit")
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput("query is needed: say what to search for")
        wanted = LIMIT if limit is None else validation.whole_number(limit, "limit", 1, MOST)
        results = self._memory.search(
            query,
            limit=wanted + OWN,
            project=self._project,
            include_global=self._project is not None,
            include_documents=True,
            record="off",
        )
        hits = [hit for hit in results if not hit.session or hit.session.id != self._session][:wanted]
        shown = _fitting(hits)
        self.found += [hit.memory.short_id for hit in shown if not isinstance(hit, DocumentHit)]
        return {"results": [_row(hit) for hit in shown]} | _message(len(hits), len(shown))

    def _add(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {name: arguments.get(name) or None for name in ("content", "kind", "tags")}
        added = self._memory.add(**given, project=self._add_to, source=SOURCE)
        return {"added": added.short_id}


def _fitting(hits: list[Hit]) -> list[Hit]:
    """Those that fit into an answer, the better first."""
    left, shown = SIZE - ROOM, []
    for hit in hits:
        size = len(json.dumps(_row(hit), ensure_ascii=False)) + len(", ")
        if size <= left:
            left -= size
            shown.append(hit)
    return shown


def _message(found: int, shown: int) -> dict[str, str]:
    """What a model should know besides the results."""
    if not found:
        return {"message": "Nothing found."}
    if shown < found:
        return {"message": f"{found - shown} more did not fit; search for something narrower to see them."}
    return {}


def _row(hit: Hit) -> dict[str, Any]:
    memory = hit.memory
    labels = {"kind": memory.kind, "project": memory.project, "title": memory.title, "source": memory.source}
    if isinstance(hit, DocumentHit):
        labels |= {"kind": "document", "title": hit.title, "source": f"{hit.path}:{hit.start_line}-{hit.end_line}"}
    return {
        "id": memory.short_id,
        "content": as_data(_passage(hit)),
        "score": round(hit.score, 3),
        "relevance": round(hit.relevance, 3),
        "created_at": timestamp(memory.created_at.replace(microsecond=0)),
    } | {name: preview(as_one_line(label), LABEL) for name, label in labels.items() if label}


def _passage(hit: Hit) -> str:
    """All of a short memory; of a long one, what stands around the passage that was found."""
    content = hit.memory.content
    if len(content) <= CONTENT:
        return content
    found = strip_marks(hit.snippet).strip(ELLIPSIS + " ")
    start = max(0, min(content.find(found[:40]) - CONTENT // 4, len(content) - CONTENT))
    end = start + CONTENT
    before, after = ELLIPSIS if start else "", ELLIPSIS if end < len(content) else ""
    return f"{before}{content[start:end]}{after}"
