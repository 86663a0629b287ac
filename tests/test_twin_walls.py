"""
Walls, held against the whole interface: two databases that differ only in what is hidden answer the same.

One is quiet: there is nothing but what the caller may see. The other is loud: it was copied from the quiet one, then
others wrote to it, with the same words, names and ids, until more is hidden than seen; and after that, the caller once
more. Both get the same calls in the same order, by the library, over HTTP and over MCP, and the answers are compared as
they are sent. What may differ is named below, each with its reason; nothing else may.
"""

import http.client
import io
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import apsw
import psycopg
import pytest
from mcp.shared.exceptions import MCPError
from mcp_agents import Agent, serve_in_process
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

import memorist
from conftest import HashingEmbedder
from memorist import Memorist, MemoristError
from memorist.engine.project_view import ProjectView
from memorist.present.codec import encode
from memorist.records import FACETS
from memorist.web.access import TokenAuth
from postgres_fixtures import Databases
from postgres_server import url_of
from test_walls import CALLS, MINE, SECRETS, THEIRS, Names, fill, typo
from web_server import TOKEN, WebServer, web_server

# What may differ, and why.

_NEW_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_RANDOM_END = re.compile(r"~([0-9a-f]{16})[0-9a-f]{12}")
_ETAG = re.compile(r'"etag": "\\"[0-9a-f]+\\""')
_POSITION = re.compile(r"id: [\w-]{200,}")
CLOSE = 2e-4  # a score and a confidence fade with time, and the calls are made one after the other
ROUNDING = ("clamp",)  # of a trace: by how little the highest score would be above 1, at that moment
TIMINGS = ("took_ms", "legs_ms", "ranking_ms")
# Where several namespaces share the index of a SQLite file, the phrases of an expression in the syntax of FTS5 count
# alike, as they do in one project: its scores tell that there are others, and nothing more.
RAW_SCORES = ("score", "keyword_score", "raw", "trace")
MACHINE = ("path", "size_bytes")  # of the database, told to its owner alone


@dataclass
class Twins:
    """The quiet and the loud one, and the names that there are to ask for."""

    targets: tuple[Path | str, Path | str]
    namespace: str
    project: str | None  # if only one is served
    names: Mapping[str, Names]
    began: str
    differences: list[str] = field(default_factory=list)
    compared: int = 0

    @property
    def on_sqlite(self) -> bool:
        return isinstance(self.targets[0], Path)

    def choose(self, place: int, *, whole: bool) -> Iterator[tuple[str, Names]]:
        """Yield whose names a call is made with: all, or for one call these and for the next one those."""
        for number, item in enumerate(self.names.items()):
            if whole or number == place % len(self.names):
                yield item

    def compare(self, what: str, answers: Sequence[Any], *, raw: bool = False) -> None:
        """Note a difference between the answers of the two; to a `raw` query, scores may differ on SQLite."""
        dropped = MACHINE + TIMINGS + ROUNDING + (RAW_SCORES if raw and self.on_sqlite and self.project is None else ())
        quiet, loud = (
            self._normalise(answer, target, dropped) for answer, target in zip(answers, self.targets, strict=True)
        )
        self.compared += 1
        if not _is_same(quiet, loud):
            at = next((at for at, (a, b) in enumerate(zip(quiet, loud, strict=False)) if a != b), 0)
            shown = slice(max(0, at - 80), at + 160)
            self.differences.append(f"{what}: {quiet[shown]!r} <> {loud[shown]!r}")

    def _normalise(self, answer: Any, target: Path | str, dropped: Sequence[str]) -> str:
        text = answer if isinstance(answer, str) else json.dumps(drop(answer, dropped), ensure_ascii=False, default=str)
        # The path of its database, or its address, is what its owner chose.
        for name in {str(target), str(target).rpartition("/")[2]}:
            text = text.replace(name, "DATABASE")
        seen: dict[str, str] = {}

        def name_new(found: re.Match[str]) -> str:
            made = datetime.fromtimestamp(int(found[0].replace("-", "")[:12], 16) / 1000, UTC)
            if made.isoformat() < self.began:
                return found[0]
            return seen.setdefault(found[0], f"NEW-{len(seen)}")  # it is random, and made by the call itself

        text = _NEW_ID.sub(name_new, text)
        # The time of writing, and the version of what was written then.
        text = _TIME.sub(lambda found: "NOW" if found[0].replace(" ", "T")[:16] >= self.began[:16] else found[0], text)
        if "NOW" in text:
            text = _ETAG.sub('"etag": "…"', text)
        text = _RANDOM_END.sub(r"~\1", text)  # of the id that stands for a name in one project
        return _POSITION.sub("id: SEALED", text)  # made of keys, which nobody can read


def drop(value: Any, names: Sequence[str]) -> Any:
    """Return a value of JSON without some members of its objects."""
    if isinstance(value, Mapping):
        return {key: drop(item, names) for key, item in value.items() if key not in names}
    return [drop(item, names) for item in value] if isinstance(value, list) else value


def _is_same(one: str, other: str) -> bool:
    if one == other:
        return True
    numbers = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=False)
    return _NUMBER.sub("#", one) == _NUMBER.sub("#", other) and all(
        math.isclose(float(a), float(b), rel_tol=0, abs_tol=CLOSE) for a, b in numbers
    )


# The two databases


def open_at(target: Path | str, namespace: str) -> Memorist:
    return memorist.open(target, namespace=namespace, embedder=HashingEmbedder(), synchronous="normal")


def write_late(memory: Memorist, project: str | None) -> None:
    """Memories with larger keys than the hidden ones."""
    for number in range(6):
        memory.add(
            f"late note {number} on the release and the harbour", id=f"late-{number}", project=project,
            on_near_duplicate="off", created_at=f"2026-01-0{number // 2 + 1}", tags=["late"],
            metadata={"number": number},
        )  # fmt: skip


# What two runs write at different times is made the same.
_FREEZE = "update memories set updated_at = {0}, recorded_at = {0}, reinforced_at = {0} where id like 'late-%'"
_FROZEN_AT = 1_770_000_000_000_000


def hide_much(memory: Memorist, marks: dict[str, str], folder: Path, prefix: str) -> Names:
    hidden = fill(memory, marks, prefix, folder)
    memory.add_many(
        {"content": f"the release and the harbour number {number}", "project": marks["project"], "tags": ["late"]}
        for number in range(150)
    )
    for number in range(20):
        memory.search(f"release {number}", project=marks["project"], record="reinforce")
        memory.sessions.add_turn(
            "user", f"harbour {number}", conversation=f"{prefix}-talk-{number % 3}", project=marks["project"]
        )
    return hidden


class Backend:
    """Makes databases and copies of them."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self._folder, self._request, self._stack = folder, request, ExitStack()

    @contextmanager
    def make_pair(self) -> Iterator[tuple[Path | str, Callable[[], Path | str]]]:
        """Give a database, and a function that copies it."""
        if self._request.param == "sqlite":
            number = len(list(self._folder.iterdir()))
            quiet, loud = self._folder / f"quiet{number}.db", self._folder / f"loud{number}.db"
            yield quiet, lambda: Path(shutil.copyfile(quiet, loud))
            return
        databases: Databases = self._request.getfixturevalue("postgres_databases")
        address: str = self._request.getfixturevalue("postgres_server")
        with databases.lend("migrated", "postgres") as url:
            name = str(conninfo_to_dict(url)["dbname"])

            def copy() -> str:
                with psycopg.connect(url_of(address), autocommit=True) as admin:
                    statement = SQL("create database {} template {} strategy file_copy")
                    admin.execute(statement.format(Identifier(f"{name}_loud"), Identifier(name)))
                return url_of(address, f"{name}_loud")

            yield url, copy
            with psycopg.connect(url_of(address), autocommit=True) as admin:
                admin.execute(SQL("drop database if exists {} with (force)").format(Identifier(f"{name}_loud")))


def freeze(target: Path | str, namespace: str) -> None:
    sql = _FREEZE.format(_FROZEN_AT)
    if isinstance(target, Path):
        connection = apsw.Connection(str(target))
        connection.execute(sql)
        connection.close()
    else:
        with psycopg.connect(target, autocommit=True) as raw:
            raw.execute(sql.encode())


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    return Backend(request, tmp_path_factory.mktemp("twins"))


NAMES = dict.fromkeys(("session", "lens", "file_name", "note_name"), "x")


@contextmanager
def namespace_twins(backend: Backend, folder: Path) -> Iterator[Twins]:
    with backend.make_pair() as (quiet, copy):
        with open_at(quiet, MINE) as mine:
            own = fill(mine, {}, "own", folder)
            shared = fill(mine, NAMES | {"project": "both"}, "both", folder)
        loud = copy()
        with open_at(loud, THEIRS) as theirs:
            fill(theirs, SECRETS | NAMES | {"project": "both"}, "both", folder)
            beyond = hide_much(theirs, SECRETS, folder, "beyond")
        names = {"own": own, "shared": shared, "beyond": beyond}
        yield prepare((quiet, loud), MINE, None, names)


@contextmanager
def project_twins(backend: Backend, folder: Path) -> Iterator[Twins]:
    with backend.make_pair() as (quiet, copy):
        with open_at(quiet, MINE) as mine:
            own = fill(mine, {"project": "ours"}, "own", folder)
        loud = copy()
        with open_at(loud, MINE) as mine:
            beyond = hide_much(mine, SECRETS, folder, "beyond")
            other = fill(mine, {"project": "theirs"}, "other", folder)
            mine.links.add(own.id, beyond.id, "explains")
            mine.supersede(other.id, own.id)
            mine.lenses.set("theirs-lens", project="theirs")
            mine.lenses.remove(beyond.lens)  # one of no project is for all of them
            mine.lenses.remove(other.lens)
        names = {"own": own} | {
            whose: replace(names, lens="theirs-lens") for whose, names in (("beyond", beyond), ("other", other))
        }
        yield prepare((quiet, loud), MINE, "ours", names)


def prepare(
    targets: tuple[Path | str, Path | str], namespace: str, project: str | None, names: Mapping[str, Names]
) -> Twins:
    for target in targets:
        with open_at(target, namespace) as memory:
            write_late(memory, project)
        freeze(target, namespace)
    return Twins(targets, namespace, project, names, datetime.now(UTC).isoformat(timespec="milliseconds"))


WALLS = {"namespace": namespace_twins, "project": project_twins}


# Calls of the library

# They tell nothing of a namespace, never end, or count from now.
_LEFT_OUT = {"close", "changes", "transfer.backup", "transfer.discover", "documents.watch", "review.growth"}
_READS = """
    briefing context count facets get history list related search stats suggest timeline check documents.chunks
    documents.find documents.get documents.list documents.search facts.list files.list lenses.get lenses.list
    links.replaced review.compare review.duplicates review.graph review.list searches.list
    searches.list_feedback sessions.context_of sessions.get sessions.list sessions.turns transfer.export
""".split()


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return encode(call())
    except MemoristError as exc:
        return f"{type(exc).__name__}: {exc}"


def call_library(twins: Twins, *, whole: bool) -> None:
    with ExitStack() as stack:
        both = [stack.enter_context(open_at(target, twins.namespace)) for target in twins.targets]
        for name in (*_READS, *(name for name in CALLS if name not in _READS)) if whole else _READS:
            if name in _LEFT_OUT:
                continue
            for place, probe in enumerate(CALLS[name]):
                for whose, names in twins.choose(place + len(name), whole=whole):
                    args, kwargs = probe.arguments(names, twins.names["own"])
                    answers = []
                    for memory in both:
                        written = io.BytesIO()
                        given = [written if isinstance(one, io.BytesIO) else one for one in args]
                        answer = outcome(partial(attrgetter(name)(memory), *given, **kwargs))
                        answers.append(written.getvalue().decode() or answer)
                    twins.compare(f"{name} {place} of {whose}", answers, raw="grammar" in kwargs)


VIEWS: dict[str, Callable[[ProjectView, Names], Any]] = {
    "search": lambda view, n: view.search(n.text, limit=1000, facets=FACETS, explain=True, include_superseded=True),
    "search for a word": lambda view, n: view.search(n.word, mode="keyword", noise_floor=False),
    "search by meaning": lambda view, n: view.search(n.text, mode="semantic", noise_floor=False, limit=1000),
    "search in files": lambda view, n: view.search(f"harbour {n.file_word}", include_documents=True),
    "search for a typo": lambda view, n: view.search(typo(n.word)),
    "search for a beginning": lambda view, n: view.search(f"{n.word[:5]}*", mode="keyword"),
    "search by FTS5": lambda view, n: view.search(n.word, mode="keyword", grammar="fts5"),
    "search with a lens": lambda view, n: view.search("release", lens=n.lens),
    "search in a session": lambda view, n: view.search("release", session=n.session),
    "search and record": lambda view, n: view.search("release", record="log", record_session=n.session),
    "search in a project": lambda view, n: view.search("release", project=n.project),
    "search by a tag": lambda view, n: view.search("release", tags=n.tag),
    "search as it was": lambda view, n: view.search("release", as_of="2026-02-01", limit=1000),
    "get": lambda view, n: view.get([n.id, n.other, n.forgotten, n.superseded, n.id[-9:], n.chunk]),
    "get as it was": lambda view, n: view.get([n.id, n.other], as_of="tomorrow"),
    "list": lambda view, n: view.list(limit=1000),
    "list forgotten": lambda view, n: view.list(limit=1000, deleted=True),
    "list pages": lambda view, n: [view.list(limit=2), view.list(limit=2, cursor=n.cursor)],
    "list by a kind": lambda view, n: view.list(kind=n.kind),
    "list by metadata": lambda view, n: view.list(metadata={"number": {"$gt": 2}}),
    "count": lambda view, n: view.count(),
    "count by a tag": lambda view, n: view.count(tags=n.tag),
    "count in a session": lambda view, n: view.count(session=n.session),
    "facets": lambda view, n: view.facets(fields=FACETS),
    "facets of a word": lambda view, n: view.facets(n.word, fields=FACETS),
    "timeline": lambda view, n: view.timeline(limit=1000),
    "timeline around": lambda view, n: view.timeline(anchor=n.id, before=9, after=9),
    "timeline around a match": lambda view, n: view.timeline(query=n.text),
    "context": lambda view, n: view.context(n.text, min_relevance=0.0),
    "context in a session": lambda view, n: view.context(n.text, session=n.session),
    "add": lambda view, n: view.add(n.text),
    "add with its id": lambda view, n: view.add(f"new {n.word}", id=n.id),
    "add with its id again": lambda view, n: view.add(f"newer {n.word}", id=n.id, if_exists="error"),
    "add and merge": lambda view, n: view.add(f"{n.text} indeed", on_near_duplicate="merge"),
    "add to a session": lambda view, n: view.add("in a session", session=n.session),
    "add elsewhere": lambda view, n: view.add("elsewhere", project=n.project),
    "update": lambda view, n: view.update(n.other, title="changed"),
    "update to a text": lambda view, n: view.update("late-1", content=n.text),
    "supersede": lambda view, n: view.supersede(n.other, "late-2"),
    "supersede by": lambda view, n: view.supersede("late-3", n.id),
    "forget": lambda view, n: view.forget(n.other),
    "forget some": lambda view, n: view.forget_many(tags=n.tag),
    "erase": lambda view, n: view.forget(n.id, hard=True),
    "list at last": lambda view, n: view.list(limit=1000),
}
_FIRST_WRITE = list(VIEWS).index("add")


def call_views(twins: Twins, *, whole: bool) -> None:
    assert twins.project
    with ExitStack() as stack:
        views = [
            ProjectView(stack.enter_context(open_at(target, twins.namespace)), twins.project)
            for target in twins.targets
        ]
        for place, (what, call) in enumerate(list(VIEWS.items())[: None if whole else _FIRST_WRITE]):
            for whose, names in twins.choose(place, whole=whole):
                answers = [outcome(partial(call, view, names)) for view in views]
                twins.compare(f"view: {what} of {whose}", answers)


# Requests

Asked = tuple[str, str, Any]


def requests(n: Names) -> list[Asked]:
    """Requests with names, those that change something last."""

    def path(*parts: str) -> str:
        return "/" + "/".join(quote(part, safe=":") for part in parts)

    def get(*parts: str, **query: Any) -> Asked:
        return "GET", path(*parts) + (f"?{urlencode(query)}" if query else ""), None

    search = {"query": n.text, "limit": 1000, "facets": list(FACETS), "explain": True}
    reads = [
        ("POST", "/search", search), ("POST", "/search", {"query": n.word, "mode": "keyword"}),
        ("POST", "/search", {"query": typo(n.word)}), ("POST", "/search", {"query": "release", "lens": n.lens}),
        ("POST", "/search", {"query": "release", "session": n.session}),
        ("POST", "/search", {"query": "release", "project": n.project}),
        ("POST", "/compare", {"query": n.text, "profiles": ["balanced", "salience"]}),
        ("POST", "/documents:search", {"query": f"harbour {n.file_word}"}),
        ("POST", "/facets", {"query": n.word}), get("suggest", query=typo(n.word)),
        ("POST", "/context", {"message": n.text}), ("POST", "/briefing", {"recent": 100}),
        get("lenses"), get("lenses", n.lens), get("memories", limit=3), get("memories", limit=3, cursor=n.cursor),
        get("memories", limit=100, deleted="true"), get("memories", tags=n.tag), get("memories", session=n.session),
        ("POST", "/memories:get", {"ids": [n.id, n.other, n.forgotten, n.id[-9:]]}), ("POST", "/memories:count", {}),
        ("POST", "/memories:count", {"tags": n.tag}), get("memories", n.id), get("memories", n.chunk),
        get("memories", n.forgotten), get("memories", n.id, as_of="tomorrow"), get("memories", n.id, "history"),
        get("memories", n.id, "related"), get("memories", n.id, "replaced"), get("feedback"),
        get("feedback", memory=n.id), get("memories", n.id, "session"), get("memories", n.id, "facts"),
        get("timeline"), get("timeline", anchor=n.id), get("timeline", query=n.text), get("duplicates"),
        *(get("review", kind=kind) for kind in ("duplicates", "contradictions", "stale_facts", "secrets")),
        get("graph", memory=n.id), get("growth", since="2025-06-01"), get("eval-runs"), get("recalls"),
        get("recalls", memory=n.id), get("recalls", session=n.session), get("recalls", limit=1), get("sessions"),
        get("sessions", limit=1),
        get("sessions", n.session), get("sessions", n.session, "turns"), get("documents"), get("documents", limit=1),
        get("documents", n.document), get("documents", n.document, "chunks"), get("document", path=n.file),
        get("files", path="/"), get("files", path=n.note, project=n.project), get("export"), get("stats"),
        get("check"), get("models"), get("profiles"), get("settings"), get("access"), get("events"),
    ]  # fmt: skip
    memory = path("memories", n.id)
    writes = [
        ("POST", "/memories", {"content": n.text}), ("POST", "/memories", {"content": f"new {n.word}", "id": n.id}),
        ("POST", "/memories:batch", {"items": [n.text, {"content": f"new {n.word}", "id": n.other}]}),
        ("PUT", path("lenses", n.lens), {"filters": {"tags": [n.tag]}}), ("PATCH", memory, {"title": "changed"}),
        ("POST", f"{memory}/pin", None), ("DELETE", f"{memory}/pin", None),
        ("POST", f"{memory}/supersede", {"by": "late-1"}), ("DELETE", f"{memory}/supersede", None),
        ("POST", "/memories/late-2/supersede", {"by": n.id}), ("POST", f"{memory}/merge", {"others": ["late-3"]}),
        ("POST", f"{memory}/relations", {"target": "late-4", "kind": "supports"}),
        ("DELETE", f"{memory}/relations?target=late-4&kind=supports", None),
        ("POST", f"{memory}/reinforce", {}), ("POST", f"{memory}/deemphasize", {}),
        ("POST", f"{memory}/feedback", {"good": True, "query": "x"}), ("POST", f"{memory}/facts", {"text": "a fact"}),
        ("DELETE", path("facts", n.fact), None), ("POST", path("sessions"), {"id": n.session}),
        ("PATCH", path("sessions", n.session), {"summary": "x"}), ("POST", f"{path('sessions', n.session)}/end", {}),
        ("POST", f"{path('conversations', n.session)}/turns", {"role": "user", "text": n.text, "turn": f"turn-{n.id}"}),
        ("POST", "/files", {"path": n.note, "text": "x", "project": n.project}),
        ("POST", "/files:move", {"path": n.note, "to": "/moved.md", "project": n.project}),
        ("DELETE", f"/files?{urlencode({'path': '/', 'project': n.project})}", None),
        ("DELETE", f"/document?{urlencode({'path': n.file})}", None), ("DELETE", memory, None),
        ("POST", f"{memory}/restore", None), ("DELETE", f"{memory}?hard=true", None),
        ("POST", "/memories:forget", {"tags": n.tag}), ("DELETE", path("lenses", n.lens), None),
        ("DELETE", "/recalls", None), ("POST", "/check", None), ("POST", "/memories:purge", {}), get("stats"),
        get("memories", limit=100), get("recalls"), get("export"),
    ]  # fmt: skip
    return [*reads, ("WRITES", "", None), *writes]


def ask(server: WebServer, asked: Asked, token: str) -> Any:
    """Return the status, the headers and the body of an answer; of a stream of events, the first one."""
    method, path, body = asked
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "If-Match": "*"}
    data = None if body is None else json.dumps(body).encode()
    try:
        connection.request(
            method, f"/api/v1{path}", data, headers | ({"Content-Type": "application/json"} if data else {})
        )
        answer = connection.getresponse()
        kept = {
            name.lower(): value for name, value in answer.getheaders() if name.lower() not in ("date", "content-length")
        }
        text = "".join(answer.readline().decode() for _ in range(4)) if path == "/events" else answer.read().decode()
    finally:
        connection.close()
    try:
        content = [json.loads(line) for line in text.splitlines()] if text else []
    except ValueError:
        return f"{answer.status} {json.dumps(kept)} {text}"
    return {"status": answer.status, "headers": kept, "content": content}


def call_http(twins: Twins, *, whole: bool) -> None:
    token_auth = TokenAuth(TOKEN)
    token = token_auth.issue_token(project=twins.project, namespace=twins.namespace)
    # The order of a set, and with it the last bit of a sum, is another in every process, unless its seed is set.
    environ = {"MEMORIST_NAMESPACE": twins.namespace, "PYTHONHASHSEED": "0"}
    with ExitStack() as stack:
        servers = [stack.enter_context(web_server(target, environ=environ)) for target in twins.targets]
        by_name = {whose: requests(names) for whose, names in twins.names.items()}
        for place in range(len(by_name["own"])):
            if by_name["own"][place][0] == "WRITES":
                if whole:
                    continue
                return
            for whose, _ in twins.choose(place, whole=whole):
                asked = by_name[whose][place]
                method, path, _ = asked
                answers = [ask(server, asked, token) for server in servers]
                twins.compare(f"{method} {path} of {whose}", answers)


# Tools


def tools(n: Names) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("memory_search", {"query": n.text}), ("memory_search", {"query": n.word, "detail": "full"}),
        ("memory_search", {"query": typo(n.word)}), ("memory_search", {"query": "release", "session": n.session}),
        ("memory_search", {"query": "release", "tags": [n.tag], "include_superseded": True}),
        ("memory_search", {"query": "release", "kind": n.kind}), ("memory_search", {"query": f"{n.word[:5]}*"}),
        ("memory_search", {"query": f"harbour {n.file_word}", "include_documents": True}),
        ("memory_get", {"ids": [n.id, n.other]}), ("memory_get", {"ids": [n.id[-9:]]}),
        ("memory_get", {"ids": [n.chunk]}), ("memory_get", {"ids": [n.forgotten]}),
        ("memory_timeline", {}), ("memory_timeline", {"anchor": n.id}), ("memory_timeline", {"query": n.text}),
        ("memory_context", {"message": n.text}), ("memory_context", {"message": n.file_word}),
        ("memory_add", {"content": n.text}), ("memory_add", {"content": f"more {n.word}", "id": n.id}),
        ("memory_add", {"content": "in a session", "session": n.session}),
        ("memory_update", {"id": n.other, "title": "changed"}),
        ("memory_supersede", {"old_id": n.other, "new_id": "late-1"}),
        ("memory_supersede", {"old_id": "late-2", "new_id": n.id}), ("memory_forget", {"id": n.other}),
    ]  # fmt: skip


def use_tool(agent: Agent, tool: str, arguments: dict[str, Any]) -> Any:
    try:
        return json.loads(agent.ask(tool, **arguments).model_dump_json())
    except MCPError as exc:
        return f"{exc} {exc.error.code}"


def read_resource(agent: Agent, uri: str) -> str:
    try:
        return agent.read(uri)
    except MCPError as exc:
        return f"{exc} {exc.error.code}"


def call_mcp(twins: Twins, *, whole: bool) -> None:
    with ExitStack() as stack:
        agents = [
            stack.enter_context(
                serve_in_process(lambda target=target: open_at(target, twins.namespace), only_project=twins.project)
            )
            for target in twins.targets
        ]
        by_name = {whose: tools(names) for whose, names in twins.names.items()}
        for place, (tool, _) in enumerate(by_name["own"]):
            if tool == "memory_add" and not whole:
                break
            for whose, _ in twins.choose(place, whole=whole):
                arguments = by_name[whose][place][1]
                answers = [use_tool(agent, tool, arguments) for agent in agents]
                twins.compare(f"{tool} {arguments} of {whose}", answers)
        for names in twins.names.values():
            for uri in ("memory://stats", f"memory://{names.id}", "memory://timeline/2026-01-01"):
                twins.compare(uri, [read_resource(agent, uri) for agent in agents])


SURFACES = {
    "library": lambda twins, whole: (call_views if twins.project else call_library)(twins, whole=whole),
    "http": lambda twins, whole: call_http(twins, whole=whole),
    "mcp": lambda twins, whole: call_mcp(twins, whole=whole),
}


@pytest.mark.parametrize("wall", WALLS)
def test_what_is_hidden_changes_no_answer(backend: Backend, wall: str, tmp_path: Path) -> None:
    """What reads, by every surface, one after the other."""
    with WALLS[wall](backend, tmp_path) as twins:
        for call in SURFACES.values():
            call(twins, False)
    print(f"\n{wall}: {twins.compared} answers compared, {len(twins.differences)} differ")
    assert twins.differences == []


@pytest.mark.slow
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wall", WALLS)
def test_what_is_hidden_changes_no_answer_to_reads_and_writes(
    backend: Backend, wall: str, surface: str, tmp_path: Path
) -> None:
    with WALLS[wall](backend, tmp_path) as twins:
        SURFACES[surface](twins, True)
    print(f"\n{wall} by {surface}: {twins.compared} answers compared, {len(twins.differences)} differ")
    assert twins.differences == []
