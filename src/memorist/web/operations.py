"""
The table of operations: routes, validation and the OpenAPI document are made of it.

Every operation is one call of the engine (`calls`) with what a request says. Its answer is the record that Python gets,
as JSON: the same fields under the same names. A list is `{"items": [...]}`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from memorist.documents import Document, File, ImportReport
from memorist.profiles import PROFILES
from memorist.records import (
    DETAILS,
    FACETS,
    IF_EXISTS,
    MODES,
    NEAR_ACTIONS,
    RECORD_MODES,
    SECTORS,
    TIERS,
    Fact,
    Feedback,
    Lens,
    Memories,
    Memory,
    Page,
    Related,
    Relation,
    Results,
    Session,
    SessionContext,
    Timeline,
    Version,
)
from memorist.reports import CheckReport
from memorist.schemas import Schema, boolean, describe, fraction, integer, list_schema, nullable, text, texts
from memorist.validation import MAX_ID_CHARACTERS, MAX_QUERY_CHARACTERS
from memorist.views import (
    REVIEW_KINDS,
    ChunkPage,
    Comparison,
    DocumentPage,
    EvalRun,
    Graph,
    Growth,
    ModelInfo,
    ProfileInfo,
    RecallPage,
    ReviewPage,
    SessionPage,
)
from memorist.web import calls
from memorist.web.answers import Access, Block, Count, Forgotten, Ids, SettingsAnswer, StatsAnswer, Suggestion

JSON, MULTIPART = "application/json", "multipart/form-data"
LINES, EVENTS = "application/x-ndjson", "text/event-stream"


@dataclass(frozen=True, slots=True)
class Operation:
    """
    An operation of the API.

    `query` are parameters of the URL, `body` the members of the JSON object that is sent. `one_project` operations are
    offered to tokens of one project, too; one that tells of the `machine` is not even offered to tokens of one
    namespace. A `conditional` one honours If-Match and, where `must_match`, asks for it.
    An operation without a `call` is a stream, which the server answers in its own way.
    """

    name: str
    method: str
    path: str
    summary: str
    answer: Any = None
    call: Callable[..., Any] | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Mapping[str, Schema] | None = None
    required: tuple[str, ...] = ()
    status: int = 200
    writes: bool = False
    one_project: bool = False
    machine: bool = False
    conditional: bool = False
    must_match: bool = False
    takes: str = JSON
    gives: str = JSON
    tag: str = "memories"
    slow: bool = False  # it reads everything, and may take minutes

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


# Arguments

_TEXT, _TEXTS, _FLAG = text(), texts(), boolean()
_NAMES = describe(["string", "array"], items={"type": "string"})  # one, or several of which any will do
_TIME = describe(["string", "number"], 'ISO 8601, seconds since 1970, or a phrase such as "3 weeks ago"')
_LIMIT = integer(minimum=1, maximum=1000)
_QUERY = text(maxLength=MAX_QUERY_CHARACTERS)
_CURSOR = text("The cursor that the page before gave")
_AS_OF = {**_TIME, "description": "As things stood at this time"}
_OBJECT = describe("object", additionalProperties=True)
_DETAIL = text(enum=list(DETAILS))

_FILTERS: Mapping[str, Schema] = {
    "project": _NAMES,
    "session": text("Only memories made or used in this session"),
    "sector": _NAMES,
    "tier": _NAMES,
    "kind": _NAMES,
    "tags": {**_NAMES, "description": "Must have all of them"},
    "source": _NAMES,
    "fact_kind": _NAMES,
    "month": {**_NAMES, "description": "A local month, such as 2026-03"},
    "since": _TIME,
    "until": _TIME,
    "as_of": _AS_OF,
    "pinned": _FLAG,
    "recalled": _FLAG,
    "min_salience": fraction(),
    "include_global": _FLAG,
    "metadata": {**_OBJECT, "description": 'Conditions, such as {"user": "anna", "price": {"$lt": 5}}'},
}
_SEARCH: Mapping[str, Schema] = {
    "query": _QUERY,
    "limit": _LIMIT,
    "offset": integer("Hits to leave out: pages with the same limit do not overlap", minimum=0),
    "mode": text(enum=list(MODES)),
    **_FILTERS,
    "now": {**_TIME, "description": 'The time that "last week" counts from'},
    "include_superseded": _FLAG,
    "include_facts": _FLAG,
    "include_documents": boolean("Also search indexed files"),
    "detail": _DETAIL,
    "record": text(enum=list(RECORD_MODES)),
    "record_session": text("The session that asks"),
    "facets": describe("array", items=text(enum=list(FACETS))),
    "explain": boolean("Also tell how the query was parsed"),
    "options": {**_OBJECT, "description": "Options of the profile to replace"},
}
_WAYS: Mapping[str, Schema] = {"profile": text(enum=list(PROFILES)), "lens": _TEXT}
_FACT: Mapping[str, Schema] = {
    "text": text(minLength=1),
    "kind": _TEXT,
    "confidence": fraction(),
    "decay_rate": describe("number", "The share that is lost each day", minimum=0),
    "subject": _TEXT,
    "predicate": _TEXT,
    "object": _TEXT,
}
_FIELDS: Mapping[str, Schema] = {
    "content": text("What to remember", minLength=1),
    "project": _TEXT,
    "sector": text(enum=list(SECTORS)),
    "tier": text(enum=list(TIERS)),
    "kind": _TEXT,
    "tags": _TEXTS,
    "salience": fraction("How much it matters"),
    "source": text("Where it comes from"),
    "title": _TEXT,
    "summary": text("One line, shown in indexes"),
    "metadata": _OBJECT,
    "expires_at": {**_TIME, "description": "From when on nothing finds it any more"},
}
_NEW: Mapping[str, Schema] = {
    **_FIELDS,
    "session": text("An open session"),
    "facts": list_schema(
        describe(["string", "object"], "A text, or an object", properties=dict(_FACT), additionalProperties=False)
    ),
    "created_at": {**_TIME, "description": "When it happened, if not now"},
    "id": text("An id of your own, of any characters", minLength=1, maxLength=MAX_ID_CHARACTERS),
    "if_exists": text("Where a memory has that id already", enum=list(IF_EXISTS)),
}
_CHANGES: Mapping[str, Schema] = {
    name: schema if name in ("content", "sector", "tier", "salience", "tags", "metadata") else nullable(schema)
    for name, schema in _FIELDS.items()
} | {"session": text("The session that changes it")}
_AMOUNT = fraction("The share by which it rises or falls")
_SCOPE: Mapping[str, Schema] = {
    "budget": integer("Tokens", minimum=1, maximum=1_000_000),
    "project": _TEXT,
    "include_global": _FLAG,
    "core": boolean("Whether pinned memories come first"),
}
_FILE_PATH = text("A path such as /notes/today.md", minLength=1)
_IMPORT_FIELDS: Mapping[str, Schema] = {
    "format": text("Detected if it is left out"),
    "project": _TEXT,
    "tools": _FLAG,
    "redact": _FLAG,
    "allow": texts("Texts that are no secrets"),
}


def _read(name: str, path: str, summary: str, answer: Any, call: Callable[..., Any], **more: Any) -> Operation:
    return Operation(name, "GET", path, summary, answer, call, **more)


def _ask(name: str, path: str, summary: str, answer: Any, call: Callable[..., Any], **more: Any) -> Operation:
    """Return an operation that reads, with a body because what it takes would be too much for a URL."""
    return Operation(name, "POST", path, summary, answer, call, **more)


def _write(
    name: str, method: str, path: str, summary: str, answer: Any, call: Callable[..., Any], **more: Any
) -> Operation:
    return Operation(name, method, path, summary, answer, call, writes=True, **more)


_MEMORY = "/memories/{id}"

_SEARCHING = (
    _ask("search", "/search", "Find memories by word and by meaning, best first", Results, calls.search,
         body={**_SEARCH, **_WAYS}, required=("query",), one_project=True, tag="search"),
    _ask("compare", "/compare", "Answer a question once for each of several profiles or lenses", Comparison,
         calls.compare, body={**_SEARCH, "profiles": describe("array", items=_WAYS["profile"], maxItems=6),
                              "lenses": texts(maxItems=6)}, required=("query",), tag="search"),
    _ask("search_documents", "/documents:search", "Find passages in indexed files", Results, calls.search_documents,
         body={"query": _QUERY, "limit": _LIMIT, "mode": _SEARCH["mode"], "profile": _WAYS["profile"],
               **{name: _FILTERS[name] for name in ("project", "sector", "tags", "since", "until")},
               "grouped": _FLAG, "neighbours": integer(minimum=0, maximum=100), "explain": _FLAG, "options": _OBJECT},
         required=("query",), tag="search"),
    _ask("facets", "/facets", "Count memories by the values of fields", Mapping[str, Mapping[str, int]], calls.facets,
         body={"query": _QUERY, "fields": _SEARCH["facets"], "include_superseded": _FLAG, **_FILTERS},
         one_project=True, tag="search"),
    _read("suggest", "/suggest", "Correct misspelt words of a query", Suggestion, calls.suggest,
          query={"query": _QUERY}, required=("query",), tag="search"),
    _ask("context", "/context", "Return what is remembered about a message, as a block for a language model", Block,
         calls.context,
         body={"message": text(minLength=1), **_SCOPE, "limit": integer(minimum=0, maximum=1000),
               "min_relevance": fraction(), "session": _TEXT, "documents": _FLAG, "metadata": _FILTERS["metadata"]},
         required=("message",), one_project=True, tag="search"),
    _ask("briefing", "/briefing", "Return pinned memories, recent ones and the latest conversations as a block", Block,
         calls.briefing, body={**_SCOPE, "recent": integer(minimum=0, maximum=1000)}, tag="search"),
    _read("list_lenses", "/lenses", "List the lenses", list[Lens], calls.list_lenses, tag="search"),
    _read("get_lens", "/lenses/{name}", "Return a lens", Lens, calls.get_lens, tag="search"),
    _write("set_lens", "PUT", "/lenses/{name}", "Save filters, a profile and boosts under a name", Lens,
           calls.set_lens, tag="search",
           body={"boosts": {**_OBJECT, "additionalProperties": {"type": "object", "additionalProperties": True}},
                 "recency": nullable(_OBJECT), "profile": nullable(_TEXT), "filters": _OBJECT}),
    _write("remove_lens", "DELETE", "/lenses/{name}", "Remove a lens", Forgotten, calls.remove_lens, tag="search"),
)  # fmt: skip

_MEMORIES = (
    _read("list_memories", "/memories", "List memories, newest first", Page, calls.list_memories,
          query={**_FILTERS, "limit": _LIMIT, "cursor": _CURSOR, "deleted": boolean("List the forgotten ones"),
                 "detail": _DETAIL, "include_superseded": _FLAG}, one_project=True),
    _write("add_memory", "POST", "/memories", "Remember a text", Memory, calls.add_memory,
           body={**_NEW, "near": text(enum=list(NEAR_ACTIONS))}, required=("content",), status=201, one_project=True),
    _write("add_memories", "POST", "/memories:batch", "Remember many texts", Ids, calls.add_memories,
           body={"items": describe("array", maxItems=1000, items=describe(
               ["string", "object"], properties=dict(_NEW), required=["content"], additionalProperties=False))},
           required=("items",), status=201),
    _ask("get_memories", "/memories:get", "Return memories by their ids, and the ids that were not found", Memories,
         calls.get_memories, body={"ids": texts(maxItems=1000), "as_of": _AS_OF}, required=("ids",),
         one_project=True),
    _ask("count", "/memories:count", "Count memories", Count, calls.count,
         body={**_FILTERS, "deleted": boolean("Count the forgotten ones"), "include_superseded": _FLAG},
         one_project=True),
    _write("forget_many", "POST", "/memories:forget", "Forget all memories that pass filters", Count,
           calls.forget_many, one_project=True, slow=True,
           body={"hard": boolean("Erase them at once"), "include_superseded": _FLAG,
                 **{name: schema for name, schema in _FILTERS.items() if name != "as_of"}}),
    _write("purge", "POST", "/memories:purge", "Erase forgotten memories for good", Count, calls.purge,
           body={"before": _TIME}, slow=True),
    _read("get_memory", _MEMORY, "Return a memory, or a chunk of an indexed file", Memory, calls.get_memory,
          query={"as_of": _AS_OF}, one_project=True),
    _write("update_memory", "PATCH", _MEMORY, "Change fields of a memory; its history keeps the old text", Memory,
           calls.update_memory, body=_CHANGES, conditional=True, must_match=True, one_project=True),
    _write("forget_memory", "DELETE", _MEMORY, "Forget a memory, which can be undone; `hard` erases it", Forgotten,
           calls.forget_memory, query={"hard": _FLAG}, conditional=True, one_project=True),
    _read("history", f"{_MEMORY}/history", "Return the versions of a memory before its updates", list[Version],
          calls.history),
    _read("related", f"{_MEMORY}/related", "Return linked memories, then similar ones", list[Related], calls.related,
          query={"limit": _LIMIT, "as_of": _AS_OF}),
    _write("restore_memory", "POST", f"{_MEMORY}/restore", "Bring a forgotten memory back", Memory, calls.restore),
    _write("pin", "POST", f"{_MEMORY}/pin", "Make a memory one that always belongs in context", Memory, calls.pin),
    _write("unpin", "DELETE", f"{_MEMORY}/pin", "Undo `pin`", Memory, calls.unpin),
    _write("supersede", "POST", f"{_MEMORY}/supersede", "Let another memory replace this one", Memory,
           calls.supersede, body={"by": text("The id of the newer one"), "at": _TIME, "said_by": _TEXT},
           required=("by",), one_project=True),
    _write("unsupersede", "DELETE", f"{_MEMORY}/supersede", "Undo `supersede`", Memory, calls.unsupersede),
    _read("replaced", f"{_MEMORY}/replaced", "Return the memories that this one superseded", list[Memory],
          calls.replaced),
    _write("merge", "POST", f"{_MEMORY}/merge", "Let a memory supersede others that say the same", Memory,
           calls.merge, body={"others": texts(minItems=1, maxItems=1000)}, required=("others",)),
    _write("relate", "POST", f"{_MEMORY}/relations", "Link a memory with another", Relation, calls.relate,
           body={"target": _TEXT, "kind": _TEXT, "confidence": fraction(), "said_by": _TEXT},
           required=("target", "kind")),
    _write("unrelate", "DELETE", f"{_MEMORY}/relations", "Remove a link", Forgotten, calls.unrelate,
           query={"target": _TEXT, "kind": _TEXT}, required=("target", "kind")),
    _write("reinforce", "POST", f"{_MEMORY}/reinforce", "Let a memory count for more", Memory, calls.reinforce,
           body={"amount": _AMOUNT, "session": _TEXT}),
    _write("deemphasize", "POST", f"{_MEMORY}/deemphasize", "Let a memory count for less", Memory, calls.deemphasize,
           body={"amount": _AMOUNT}),
    _write("feedback", "POST", f"{_MEMORY}/feedback", "Say whether a memory was a good answer", Feedback,
           calls.feedback, body={"good": _FLAG, "query": _QUERY}, required=("good",)),
    _read("list_feedback", "/feedback", "List feedback, the latest first", list[Feedback], calls.list_feedback,
          query={"memory": _TEXT, "limit": _LIMIT}),
    _read("session_of", f"{_MEMORY}/session", "Return the session that used a memory last", SessionContext | None,
          calls.session_context),
    _read("list_facts", f"{_MEMORY}/facts", "Return the facts of a memory, with their confidence now", list[Fact],
          calls.list_facts),
    _write("add_fact", "POST", f"{_MEMORY}/facts", "Attach a fact to a memory", Fact, calls.add_fact, body=_FACT,
           required=("text",), status=201),
    _write("remove_fact", "DELETE", "/facts/{id}", "Remove a fact", Fact, calls.remove_fact),
    _write("reinforce_fact", "POST", "/facts/{id}/reinforce", "Confirm a fact", Fact, calls.reinforce_fact,
           body={"amount": _AMOUNT}),
)  # fmt: skip

_LOOKING = (
    _read("timeline", "/timeline", "List memories in the order they happened", Timeline, calls.timeline,
          query={"start": _TIME, "end": _TIME, "anchor": _TEXT, "query": _QUERY, "project": _NAMES, "as_of": _AS_OF,
                 "before": integer(minimum=0, maximum=10_000), "after": integer(minimum=0, maximum=10_000),
                 "limit": integer(minimum=1, maximum=10_000), "detail": _DETAIL},
          one_project=True, tag="looking around"),
    _read("duplicates", "/duplicates", "Return groups of memories that say almost the same",
          list[tuple[Memory, ...]], calls.duplicates, tag="looking around", slow=True,
          query={"threshold": describe("number", minimum=0.1, maximum=1), **_FILTERS}),
    _read("review", "/review", "Return what a person should look at, a window of memories at a time", ReviewPage,
          calls.review, tag="looking around", required=("kind",),
          query={"kind": text(enum=list(REVIEW_KINDS)), "limit": _LIMIT, "cursor": _CURSOR, "project": _TEXT}),
    _read("graph", "/graph", "Return the surroundings of a memory and the links between them", Graph, calls.graph,
          tag="looking around", required=("memory",),
          query={"memory": _TEXT, "hops": integer(minimum=1, maximum=2), "limit": integer(minimum=1, maximum=25)}),
    _read("growth", "/growth", "Count what happened on each day", Growth, calls.growth, query={"since": _TIME},
          tag="looking around"),
    _read("list_eval_runs", "/eval-runs", "List saved runs of `memorist eval`, the earliest first", list[EvalRun],
          calls.list_eval_runs, machine=True, tag="looking around"),
    _read("list_recalls", "/recalls", "List recorded searches and what they found", RecallPage, calls.list_recalls,
          tag="looking around",
          query={"memory": _TEXT, "session": _TEXT, "since": _TIME, "limit": _LIMIT, "cursor": _CURSOR}),
    _write("clear_recalls", "DELETE", "/recalls", "Delete recorded searches", Count, calls.clear_recalls,
           query={"before": _TIME}, tag="looking around"),
    Operation("events", "GET", "/events", "Follow what any process writes or recalls", tag="looking around",
              gives=EVENTS),
)  # fmt: skip

_SESSIONS = (
    _read("list_sessions", "/sessions", "List sessions, the latest first", SessionPage, calls.list_sessions,
          query={"project": _TEXT, "active": _FLAG, "deleted": _FLAG, "limit": _LIMIT, "cursor": _CURSOR},
          tag="sessions"),
    _write("start_session", "POST", "/sessions", "Start a session", Session, calls.start_session, tag="sessions",
           body={"project": _TEXT, "id": _TEXT, "summary": _TEXT}, status=201),
    _read("get_session", "/sessions/{id}", "Return a session", Session, calls.get_session, tag="sessions"),
    _write("summarise_session", "PATCH", "/sessions/{id}", "Set the summary of a session", Session,
           calls.summarise_session, body={"summary": nullable(_TEXT)}, required=("summary",), tag="sessions"),
    _write("forget_session", "DELETE", "/sessions/{id}", "Forget a session with the memories made in it, or erase them",
           Session, calls.forget_session, query={"hard": _FLAG}, tag="sessions"),
    _write("restore_session", "POST", "/sessions/{id}/restore", "Bring a forgotten session back", Session,
           calls.restore_session, tag="sessions"),
    _write("end_session", "POST", "/sessions/{id}/end", "End a session", Session, calls.end_session,
           body={"summary": _TEXT}, tag="sessions"),
    _read("list_turns", "/sessions/{id}/turns", "Return what was said in a session, in its order", Page,
          calls.list_turns, query={"limit": _LIMIT, "cursor": _CURSOR}, tag="sessions"),
    _write("add_turn", "POST", "/conversations/{id}/turns", "Remember a turn of a conversation that goes on", Memory,
           calls.add_turn, status=201, tag="sessions", required=("role", "text"),
           body={"role": _TEXT, "text": text(minLength=1), "project": _TEXT, "turn": _NEW["id"],
                 "redact": _FLAG, "allow": _TEXTS}),
)  # fmt: skip

_FILES = (
    _read("list_documents", "/documents", "List the indexed files, by path", DocumentPage, calls.list_documents,
          query={"project": _TEXT, "limit": _LIMIT, "cursor": _CURSOR}, tag="files"),
    _read("get_document", "/documents/{id}", "Return an indexed file with its links", Document, calls.get_document,
          tag="files"),
    _read("list_chunks", "/documents/{id}/chunks", "Return the chunks of a file, in its order, with their lines",
          ChunkPage, calls.list_chunks, query={"limit": _LIMIT, "cursor": _CURSOR}, tag="files"),
    _read("find_document", "/document", "Return an indexed file by its path, as the list of files has it", Document,
          calls.find_document, query={"path": text(minLength=1)}, required=("path",), tag="files"),
    _write("unindex", "DELETE", "/document", "Remove a file, or all files of a folder, from the index", Count,
           calls.unindex, query={"path": text(minLength=1)}, required=("path",), tag="files"),
    _read("list_files", "/files", "List files that an agent wrote", list[File], calls.list_files,
          query={"path": _FILE_PATH, "project": _TEXT}, tag="files"),
    _write("create_file", "POST", "/files", "Store a new file", File, calls.create_file, status=201, tag="files",
           body={"path": _FILE_PATH, "text": _TEXT, "project": _TEXT}, required=("path", "text")),
    _write("edit_file", "PUT", "/files", "Replace the text of a file, if it is still what `before` says", File,
           calls.edit_file, tag="files", required=("path", "text", "before"),
           body={"path": _FILE_PATH, "text": _TEXT, "before": _TEXT, "project": _TEXT}),
    _write("move_files", "POST", "/files:move", "Give a file, or all files of a folder, another path", Count,
           calls.move_files, body={"path": _FILE_PATH, "to": _FILE_PATH, "project": _TEXT}, required=("path", "to"),
           tag="files"),
    _write("forget_files", "DELETE", "/files", "Forget a file, or all files of a folder", Count, calls.forget_files,
           query={"path": _FILE_PATH, "project": _TEXT}, required=("path",), tag="files"),
)  # fmt: skip

_UPKEEP = (
    Operation("import_file", "POST", "/import", "Import a file of memories or conversations", ImportReport,
              body={"file": describe("string", format="binary"), **_IMPORT_FIELDS}, required=("file",),
              writes=True, takes=MULTIPART, tag="upkeep"),
    _write("import_sample", "POST", "/import:sample", "Remember a few things about an invented project", ImportReport,
           calls.import_sample, tag="upkeep"),
    Operation("export", "GET", "/export", "Export everything, one JSON record a line", gives=LINES,
              query={"vectors": _FLAG}, tag="upkeep"),
    _read("stats", "/stats", "Count what there is", StatsAnswer, calls.stats, tag="upkeep"),
    _read("check", "/check", "Compare texts, indexes and vectors with each other", CheckReport, calls.check,
          tag="upkeep", slow=True),
    _write("repair", "POST", "/check", "Make again the indexes and vectors that are damaged", CheckReport,
           calls.repair, tag="upkeep", slow=True),
    _read("list_models", "/models", "List the models", list[ModelInfo], calls.list_models, tag="upkeep"),
    _read("list_profiles", "/profiles", "List the ranking profiles and their options", list[ProfileInfo],
          calls.list_profiles, tag="upkeep"),
    _read("settings", "/settings", "Return the settings that hold, without secrets", SettingsAnswer, calls.settings,
          machine=True, tag="upkeep"),
    _read("access", "/access", "Return what the token in use may do", Access, calls.access, one_project=True,
          tag="upkeep"),
)  # fmt: skip

OPERATIONS: tuple[Operation, ...] = (*_SEARCHING, *_MEMORIES, *_LOOKING, *_SESSIONS, *_FILES, *_UPKEEP)
