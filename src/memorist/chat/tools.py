"""Tools that let a model search the memory and, where that is allowed, add to it.

A call is answered in JSON, with `{"error": ...}` where it failed: a model can read that and try something else.
"""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from memorist import validation
from memorist.arguments import DEFAULT_TOOL_HITS
from memorist.chat.providers import Tool, ToolCall
from memorist.contract import describe_arguments, describe_call, operation_of
from memorist.engine import Memorist
from memorist.engine.context import record_hits, record_option
from memorist.errors import InvalidInput, MemoristError
from memorist.file_records import DocumentHit
from memorist.present.codec import timestamp
from memorist.present.framing import as_data, as_one_line, describe_error
from memorist.records import Hit
from memorist.redact.redaction import redaction_report
from memorist.schemas import Meta
from memorist.text.snippet import ELLIPSIS, preview, strip_marks

MAX_LIMIT = 20  # memories that a search returns
MAX_ANSWER_CHARACTERS = 6000  # about 1,500 tokens
_SESSION_ALLOWANCE = 100  # further hits to look at, because turns of this conversation may be among them
_FRAME_CHARACTERS = 200  # of an answer, for the JSON around the memories
_MAX_CONTENT_CHARACTERS = 1200  # of one memory
_MAX_LABEL_CHARACTERS = 100  # of a project, kind, title or source
_MAX_REDACTED = 10  # secrets that an answer names, by kind and place
_SOURCE = "chat"


class Tools:
    """The tools of one conversation. `found` are the ids of the memories that its searches returned, in order."""

    def __init__(
        self,
        memory: Memorist,
        *,
        session: str,
        warn: Callable[[str], None],
        describe_error: Callable[[Exception], str] = str,
        project: str | None = None,
        add: bool = False,
        add_to: str | None = None,
    ) -> None:
        """
        With a `project`, searches find only its memories and those of no project. They leave out turns of `session`,
        which the model knows already. Memories that the model adds belong to the project `add_to`.
        """
        self._memory, self._session = memory, session
        self._warn, self._describe_error = warn, describe_error
        self._project, self._add_to = project, add_to
        self.offered = (SEARCH_TOOL, ADD_TOOL) if add else (SEARCH_TOOL,)
        self.found: list[str] = []

    def run(self, call: ToolCall) -> str:
        """Run a call and return its result as JSON."""
        return json.dumps(self._run(call), ensure_ascii=False)

    def _run(self, call: ToolCall) -> dict[str, Any]:
        offered = {tool.name: tool for tool in self.offered}
        if call.name not in offered:
            name = preview(call.name, _MAX_LABEL_CHARACTERS)
            return {"error": f"there is no tool {name!r}; there are: {', '.join(offered)}"}
        if call.arguments is None:
            return {"error": "the arguments are no JSON object: write them as the tool's schema says"}
        schema = offered[call.name].parameters
        given = {name: call.arguments[name] for name in schema["properties"] if call.arguments.get(name) is not None}
        for name in schema["required"]:
            if not given.get(name):
                return {"error": f"{name} is needed: {schema['properties'][name]['description']}"}
        try:
            return self._search(**given) if call.name == SEARCH_TOOL.name else self._add(**given)
        except MemoristError as exc:
            if not isinstance(exc, InvalidInput):  # not the model's fault: the user has to know
                self._warn(f"{call.name} failed: {self._describe_error(exc)}")
            return {"error": as_data(describe_error(exc))}

    def _search(
        self,
        query: Annotated[str, Meta("What to search for, as a question or in keywords")],
        limit: Annotated[int, Meta("How many at most", minimum=1, maximum=MAX_LIMIT)] = DEFAULT_TOOL_HITS,
    ) -> dict[str, Any]:
        """
        Search the user's memory: notes, decisions, earlier conversations and indexed files, by word and by meaning. Use
        it whenever the answer may depend on something that was said or decided before. Results come best first; a
        relevance below 0.5 is probably not about the question.
        """
        validation.whole_number(limit, "limit", 1, MAX_LIMIT)
        results = self._memory.search(
            query,
            limit=limit + _SESSION_ALLOWANCE,
            project=self._project,
            include_global=self._project is not None,
            include_documents=True,
            record=record_option(self._memory),
        )
        hits = [hit for hit in results if not hit.session or hit.session.id != self._session][:limit]
        shown = _select_fitting(hits)
        self.found += [hit.memory.short_id for hit in shown if not isinstance(hit, DocumentHit)]
        entries = [_format_hit(hit) for hit in shown]
        texts = (json.dumps(entry, ensure_ascii=False) for entry in entries)
        record_hits(self._memory, results, {hit.memory.id: text for hit, text in zip(shown, texts, strict=True)})
        return {"results": entries} | _describe_rest(len(hits), len(shown))

    def _add(self, content: str, kind: str | None = None, tags: Sequence[str] | None = None) -> dict[str, Any]:
        """
        Remember something for later conversations: a decision, a fact, a preference. Only what the user said or agreed
        to, in one or two sentences that can be understood without this conversation.
        """
        added = self._memory.add(content, kind=kind or None, tags=tags or None, project=self._add_to, source=_SOURCE)
        report = redaction_report(added.metadata)
        return {"added": added.short_id} | ({"redacted": report[:_MAX_REDACTED]} if report else {})


def _describe_tool(name: str, call: Callable[..., Any], method: Callable[..., Any]) -> Tool:
    """Return a tool as a model is told of it, in front of a method that is an operation."""
    return Tool(name, describe_call(call), describe_arguments(call, operation_of(method)))


SEARCH_TOOL = _describe_tool("memory_search", Tools._search, Memorist.search)
ADD_TOOL = _describe_tool("memory_add", Tools._add, Memorist.add)


def _select_fitting(hits: list[Hit]) -> list[Hit]:
    """Return the hits that fit into an answer, the better first."""
    left, shown = MAX_ANSWER_CHARACTERS - _FRAME_CHARACTERS, []
    for hit in hits:
        size = len(json.dumps(_format_hit(hit), ensure_ascii=False)) + len(", ")
        if size <= left:
            left -= size
            shown.append(hit)
    return shown


def _describe_rest(found: int, shown: int) -> dict[str, str]:
    """Return a message to the model about hits that are not shown, if it needs one."""
    if not found:
        return {"message": "Nothing found."}
    if shown < found:
        return {"message": f"{found - shown} more did not fit; search for something narrower to see them."}
    return {}


def _format_hit(hit: Hit) -> dict[str, Any]:
    memory = hit.memory
    labels = {"kind": memory.kind, "project": memory.project, "title": memory.title, "source": memory.source}
    if isinstance(hit, DocumentHit):
        labels |= {"kind": "document", "title": hit.title, "source": f"{hit.path}:{hit.start_line}-{hit.end_line}"}
    return {
        "id": memory.short_id,
        "content": as_data(_excerpt(hit)),
        "score": round(hit.score, 3),
        "relevance": round(hit.relevance, 3),
        "created_at": timestamp(memory.created_at.replace(microsecond=0)),
    } | {name: preview(as_one_line(label), _MAX_LABEL_CHARACTERS) for name, label in labels.items() if label}


def _excerpt(hit: Hit) -> str:
    """Return all of a short memory; of a long one, the text around the passage that was found."""
    content, size = hit.memory.content, _MAX_CONTENT_CHARACTERS
    if len(content) <= size:
        return content
    found = strip_marks(hit.snippet).strip(ELLIPSIS + " ")
    start = max(0, min(content.find(found[:40]) - size // 4, len(content) - size))
    end = start + size
    before, after = ELLIPSIS if start else "", ELLIPSIS if end < len(content) else ""
    return f"{before}{content[start:end]}{after}"
