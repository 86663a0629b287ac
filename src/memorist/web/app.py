"""
The application: every request is checked, turned into one call of the engine in a thread, and answered as JSON.

A browser can be made to send requests by any page. Such a request has another Host or Origin, or lacks the Origin that
every browser sends with a write, and the cookie is not sent with it: so it is refused before anything is done.
"""

import asyncio
import json
import logging
import os
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memorist import __version__
from memorist.config import SECRETS, LoadedSettings, conceal_password
from memorist.contract import EVENTS, LINES, MULTIPART, Operation
from memorist.engine.memory import Memorist
from memorist.engine.project_view import ProjectView, within_namespace
from memorist.present.codec import encode_json
from memorist.records import Memory
from memorist.schemas import Schema
from memorist.time_limit import cancel_with
from memorist.views import Comparison
from memorist.web.access import COOKIE, COOKIE_SECONDS, Grant, HostNames, OneTimeKeys, TokenAuth
from memorist.web.events import Feeds, Subscription
from memorist.web.idempotency import IdempotencyKeys
from memorist.web.memories import OpenMemories
from memorist.web.openapi import build_document
from memorist.web.operations import OPERATIONS, Access, ServerCalls, ServerContext, SettingsAnswer
from memorist.web.problems import (
    BASE,
    MACHINE_ERRORS,
    PROBLEM_JSON,
    Refusal,
    describe_problem,
    leave_place_out,
)
from memorist.web.requests import read_body, read_query
from memorist.web.streams import Exports, ReaderStalled, import_upload, receive_upload

STATIC = Path(__file__).parent / "static"
_THREADS = min(16, 4 + (os.cpu_count() or 1))  # calls of the engine at once; each has a page cache of its own
_IMPORTS = 2  # at once, shared out to the workers: each may hold a whole document; others wait, and keep no thread
_MAX_WAITING = 500  # requests that wait for one of them
_SECONDS, _SLOW_SECONDS = 60.0, 900.0
_GUESS_SECONDS = 0.5  # that a wrong token has to wait for its refusal
_MAX_LOGIN_BYTES = 8192
_MAX_GUESSES = 20  # that wait at once, shared out to the workers
_NAMESPACE = "memorist-namespace"
_SAFE = ("GET", "HEAD")
_RECORDABLE = ("search", "review.compare")  # operations that may record themselves
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

_log = logging.getLogger(__name__)

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


class WebOptions(Struct, frozen=True, dict=True):
    """The memories that are served, to whom, and under which names."""

    memories: OpenMemories
    token_auth: TokenAuth
    one_time_keys: OneTimeKeys
    idempotency_keys: IdempotencyKeys
    hosts: HostNames
    loaded: LoadedSettings
    eval_cache: Path
    read_only: bool = False
    workers: int = 1
    static: Path = STATIC

    def share(self, limit: int) -> int:
        """Return this worker's part of a limit for all of them."""
        return max(1, limit // self.workers)


class _ServerState(Struct, dict=True):
    """The state that the requests of one server share."""

    options: WebOptions
    importing: anyio.CapacityLimiter
    feeds: Feeds = field(default_factory=Feeds)
    exports: Exports = field(default_factory=Exports)
    waiting: int = 0
    guesses: int = 0
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_THREADS))


def build_app(options: WebOptions) -> "Application":
    """Return the application."""
    state = _ServerState(options, anyio.CapacityLimiter(options.share(_IMPORTS)))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        options.memories.warm_up()
        try:
            yield
        finally:
            with anyio.move_on_after(5, shield=True):
                await anyio.to_thread.run_sync(options.memories.close, abandon_on_cancel=True)

    routes = [
        Route(operation.path, _endpoint(state, operation), methods=[operation.method]) for operation in OPERATIONS
    ]
    api = [*routes, Route("/openapi.json", _send_document), Route("/{path:path}", _no_such_path)]
    app = Starlette(
        routes=[
            Mount(BASE, routes=_join_methods(api)),
            *_join_methods(
                [
                    Route("/login", partial(_login, state), methods=["GET", "POST"]),
                    Route("/logout", partial(_logout, state), methods=["POST"]),
                ]
            ),
            Mount("/", _PageFiles(directory=options.static, html=True, check_dir=False)),
        ],
        exception_handlers={HTTPException: _answer_http_error},
        lifespan=lifespan,
    )
    return Application(app, options.hosts, state.feeds)


def _join_methods(routes: list[Route]) -> list[Route]:
    """Return routes with one route for each path, so that a method which a path lacks is answered by what it has."""
    by_path: dict[str, dict[str, Any]] = {}
    for route in routes:
        by_path.setdefault(route.path, {}).update(dict.fromkeys(route.methods or (), route.endpoint))
    return [Route(path, partial(_dispatch, endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()]


async def _dispatch(endpoints: Mapping[str, Endpoint], request: Request) -> Response:
    """Answer a request by its method; whatever goes wrong, here it becomes a problem."""
    try:
        return await endpoints[request.method](request)
    except Exception as error:
        return _problem_response(error)


class Application:
    """The application, which refuses foreign names and origins, and adds headers that keep browsers careful."""

    def __init__(self, app: ASGIApp, hosts: HostNames, feeds: Feeds) -> None:
        self._app, self._hosts, self._feeds = app, hosts, feeds

    def close_feeds(self) -> None:
        """End every stream of events."""
        self._feeds.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_SECURITY_HEADERS]
            await send(message)

        try:
            self._check(scope)
        except Refusal as refusal:
            await _problem_response(refusal)(scope, receive, send_with_headers)
            return
        # Decoded, an encoded slash of an id would divide the path.
        await self._app({**scope, "path": scope["raw_path"].decode("latin-1")}, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._hosts.knows_host(hosts[0]):
            raise Refusal(403, "foreign-host", "this server is not called by that name; see --allow-host")
        for name, value in headers:
            if name == b"origin" and not self._hosts.is_own_origin(value, hosts[0]):
                raise Refusal(403, "foreign-origin", "requests of pages from elsewhere are refused")


# Who asks


async def _authorise(state: _ServerState, request: Request, operation: Operation) -> Grant:
    """Return what the caller may do, or refuse the request."""
    grant = _find_grant(state.options.token_auth, request)
    if grant is None:
        if "authorization" in request.headers or COOKIE in request.cookies:
            await _slow_down_guesses(state)
        raise Refusal(
            401,
            "unauthorised",
            "a token is needed: `Authorization: Bearer TOKEN`, or open the page with `memorist ui`",
            {"WWW-Authenticate": "Bearer", "Connection": "close"},
        )
    if grant.by_cookie:
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refusal(403, "foreign-origin", "requests of pages from elsewhere are refused")
        if request.method not in _SAFE and "origin" not in request.headers:
            raise Refusal(403, "no-origin", "a browser sends an Origin with every write; this request has none")
    if operation.writes and (grant.read_only or state.options.read_only):
        raise Refusal(403, "read-only", f"{operation.name} changes something, and this access is read-only")
    if grant.project is not None and not operation.one_project:
        raise Refusal(
            403, "one-project", f"{operation.name} is not offered to a token of one project ({grant.project!r})"
        )
    if operation.machine and not grant.any_namespace:
        own = _own_namespace(state, grant)
        raise Refusal(403, "one-namespace", f"{operation.name} is not offered to a token of one namespace ({own!r})")
    return grant


def _find_grant(token_auth: TokenAuth, request: Request) -> Grant | None:
    headers = request.headers.getlist("authorization")
    if headers:
        scheme, _, token = headers[0].partition(" ")
        return token_auth.check_token(token.strip()) if len(headers) == 1 and scheme.lower() == "bearer" else None
    cookie = request.cookies.get(COOKIE)
    return token_auth.check_cookie(cookie) if cookie else None


async def _slow_down_guesses(state: _ServerState) -> None:
    """Let a wrong token wait; of those that cannot wait, none is told more than to come later."""
    if state.guesses >= state.options.share(_MAX_GUESSES):
        raise Refusal(429, "too-many-guesses", "too many wrong tokens", {"Retry-After": "1", "Connection": "close"})
    state.guesses += 1
    try:
        await anyio.sleep(_GUESS_SECONDS)
    finally:
        state.guesses -= 1


class _LoginForm(Struct, frozen=True):
    """The body of a login."""

    name: str = "login"
    body: Mapping[str, Schema] = field(default_factory=lambda: {"token": {"type": "string"}})
    required: tuple[str, ...] = ("token",)


async def _login(state: _ServerState, request: Request) -> Response:
    """Exchange a one-time key in the URL, or a token, for the cookie of the page."""
    if request.method == "POST":
        is_valid = await _has_token_in_body(state, request)
    else:
        is_valid = request.method == "GET" and state.options.one_time_keys.use(request.query_params.get("key", ""))
    if not is_valid:
        await _slow_down_guesses(state)
        message = "This link has been used already, or is too old. Run `memorist ui` for a new one.\n"
        return PlainTextResponse(message, 401, {"Cache-Control": "no-store"})
    answer: Response = RedirectResponse("/", 303) if request.method == "GET" else Response(status_code=204)
    answer.headers["Cache-Control"] = "no-store"
    answer.set_cookie(
        COOKIE, state.options.token_auth.issue_cookie(), max_age=COOKIE_SECONDS, path="/", httponly=True,
        samesite="strict", secure=request.url.scheme == "https",
    )  # fmt: skip
    return answer


async def _has_token_in_body(state: _ServerState, request: Request) -> bool:
    """Return whether a person has typed the token, all of it: one for less opens no page."""
    _, fields = await read_body(_LoginForm(), request, _MAX_LOGIN_BYTES)  # anybody may send one
    return state.options.token_auth.check_token(fields["token"]) == Grant(any_namespace=True)


async def _logout(state: _ServerState, request: Request) -> Response:
    """End the cookie, also for whoever has a copy of it."""
    if cookie := request.cookies.get(COOKIE):
        await anyio.to_thread.run_sync(state.options.token_auth.revoke_cookie, cookie)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


# Operations


def _endpoint(state: _ServerState, operation: Operation) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        grant = await _authorise(state, request, operation)
        try:
            return await answer(request, grant)
        except MACHINE_ERRORS as error:
            if grant.any_namespace:
                raise
            _log.warning("a request failed: %s", error)
            raise leave_place_out(error) from error

    async def answer(request: Request, grant: Grant) -> Response:
        namespace = _choose_namespace(state, request, grant)
        if operation.gives == EVENTS:
            return await _follow(state, request, namespace)
        arguments = read_query(operation, request)
        if operation.gives == LINES:
            return await _export(state, namespace, **{"vectors": False} | arguments)
        if operation.takes == MULTIPART:
            return await _import(state, request, operation, namespace, grant)
        raw, body = await read_body(operation, request)
        if (grant.read_only or state.options.read_only) and operation.name in _RECORDABLE:
            body = _leave_unrecorded(body)
        said = operation.read_arguments({**arguments, **body})
        call = partial(_call, state, operation, grant, namespace, request, said)
        seconds = _SLOW_SECONDS if operation.slow else _SECONDS
        work = partial(_in_thread, state, call, seconds)
        return await _once(state, request, (namespace, grant), raw, work) if operation.writes else await work()

    return endpoint


def _choose_namespace(state: _ServerState, request: Request, grant: Grant) -> str:
    wanted = request.headers.get(_NAMESPACE)
    own = _own_namespace(state, grant)
    if wanted is None or wanted == own:
        return own
    if not grant.any_namespace:
        raise Refusal(403, "one-namespace", f"this token is for the namespace {own!r} alone")
    return wanted


def _own_namespace(state: _ServerState, grant: Grant) -> str:
    return grant.namespace or state.options.memories.namespace


async def _once(
    state: _ServerState,
    request: Request,
    caller: tuple[str, Grant],
    raw: bytes,
    answer: Callable[[], Awaitable[Response]],
) -> Response:
    """Answer a request with an Idempotency-Key once; a request that failed can be tried again."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return await answer()
    name = "\0".join(map(str, caller))
    target = f"{request.method} {request.url.path}?{request.url.query}".encode()
    condition = request.headers.get("if-match", "").encode()
    with state.options.idempotency_keys.claim(name, key, target, condition, raw) as claim:
        if claim.answer is None:
            claim.answer = await answer()
        return claim.answer


def _call(
    state: _ServerState,
    operation: Operation,
    grant: Grant,
    namespace: str,
    request: Request,
    arguments: dict[str, Any],
) -> Response:
    """Call the engine, and return its answer as JSON. Runs in a thread."""
    if operation.conditional:
        arguments = {**arguments, "if_version": _read_condition(operation, request)}
    with state.options.memories.use(namespace) as memory:
        room = _find_room(state, operation, grant, namespace, memory)
        answer = operation.run(room, arguments)
    if not grant.any_namespace:
        answer = _leave_reason_out(answer)
    headers = {"Cache-Control": "no-store"}
    headers |= {"ETag": f'"{answer.version}"'} if isinstance(answer, Memory) else {}
    if operation.returns is type(None):
        answer = arguments[operation.path_parameters[0]]  # of what is gone
    content = answer if operation.member is None else {operation.member: answer}
    return _json_response(content, operation.status, headers)


def _find_room(state: _ServerState, operation: Operation, grant: Grant, namespace: str, memory: Memorist) -> Any:
    """Return the object whose method answers: the memory as far as the token reaches, or one of its rooms."""
    if operation.room == ServerCalls._name:
        read_only = grant.read_only or state.options.read_only
        access = Access(__version__, namespace, grant.project, read_only)
        settings = _describe_settings(state.options.loaded)
        return ServerCalls(memory, ServerContext(access, settings, state.options.eval_cache))
    if grant.project is not None:
        return ProjectView(memory, grant.project)
    reached = memory if grant.any_namespace else within_namespace(memory)
    return getattr(reached, operation.room) if operation.room else reached


def _leave_reason_out(answer: Any) -> Any:
    """Return an answer without the reason for which it is degraded, which may name a server of models."""
    if isinstance(answer, Comparison):
        return replace(answer, answers=tuple(map(_leave_reason_out, answer.answers)))
    degraded = getattr(answer, "degraded", None)
    return replace(answer, degraded=degraded.partition(":")[0]) if degraded else answer


def _leave_unrecorded(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a search that records nothing, whatever its profile or lens says."""
    options = dict(body.get("options") or {})
    if body.get("record", options.get("record", "off")) != "off" or "record_session" in {*body, *options}:
        raise Refusal(403, "read-only", "a search that is recorded changes something, and this access is read-only")
    options.pop("record", None)
    return {**body, "options": options, "record": "off"}


def _describe_settings(loaded: LoadedSettings) -> SettingsAnswer:
    settings = loaded.settings
    shown = {name: getattr(settings, name) for name in settings.__struct_fields__ if name not in SECRETS}
    if shown.get("database"):
        shown["database"] = conceal_password(shown["database"])
    return SettingsAnswer(shown, loaded.origins)


def _read_condition(operation: Operation, request: Request) -> list[str] | None:
    """Return the versions that If-Match names; None allows any."""
    wanted = request.headers.get("if-match")
    if wanted is None and operation.must_match:
        raise Refusal(428, "no-if-match", "send the ETag of the memory as If-Match, or * to change it in any case")
    if wanted is None or wanted.strip() == "*":
        return None
    return [tag.strip().strip('"') for tag in wanted.split(",")]


async def _in_thread(state: _ServerState, work: Callable[[], T], seconds: float) -> T:
    """Run a call of the engine in a thread, within a time; a call whose client has gone is told to stop."""
    if state.waiting >= _MAX_WAITING:
        raise Refusal(503, "busy", "too many requests are waiting", {"Retry-After": "1"})
    cancelled = threading.Event()
    state.waiting += 1
    try:
        with anyio.fail_after(seconds), cancel_with(cancelled):  # the thread gets a copy of this context
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=state.limiter)
    except TimeoutError:
        raise Refusal(504, "too-long", f"the answer took longer than {seconds:g} s") from None
    finally:
        cancelled.set()
        state.waiting -= 1


async def _import(
    state: _ServerState, request: Request, operation: Operation, namespace: str, grant: Grant
) -> Response:
    upload = await receive_upload(operation, request)

    def work() -> Response:
        with state.options.memories.use(namespace) as memory:
            report = import_upload(memory, upload)
        return _json_response(report, operation.status, {"Cache-Control": "no-store"})

    try:
        # Not given up half-way: what is imported is kept, and the folder is removed at its end.
        answer = partial(anyio.to_thread.run_sync, work, limiter=state.importing)
        return await _once(state, request, (namespace, grant), upload.fingerprint, answer)
    finally:
        shutil.rmtree(upload.file.parent, ignore_errors=True)


async def _export(state: _ServerState, namespace: str, vectors: bool) -> Response:
    use = partial(state.options.memories.use, namespace)

    def open_memory() -> None:
        with use():
            pass

    await _in_thread(state, open_memory, _SECONDS)  # what goes wrong here can still be answered as a problem
    headers = {"Cache-Control": "no-store", "Content-Disposition": 'attachment; filename="memorist.jsonl"'}
    export = state.exports.begin(use, vectors)
    return _Stream(export.lines(), LINES, headers, export.leave)


async def _follow(state: _ServerState, request: Request, namespace: str) -> Response:
    position = request.headers.get("last-event-id") or None
    joined: list[Subscription] = []

    def join() -> None:
        joined.append(state.feeds.join(state.options.memories, namespace, position, loop, state.options.token_auth))

    loop = asyncio.get_running_loop()
    try:
        # Not abandoned: a client that has gone by then would keep its place among the listeners.
        await anyio.to_thread.run_sync(join, limiter=state.limiter)
    except BaseException:
        for subscription in joined:
            subscription.leave()
        raise
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return _Stream(joined[0].events(), EVENTS, headers, joined[0].leave)


class _Stream(StreamingResponse):
    """An answer in a stream, whose source is left at its end, even where nothing of it could be sent."""

    def __init__(
        self, pieces: AsyncIterator[Any], media_type: str, headers: Mapping[str, str], leave: Callable[[], None]
    ) -> None:
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except ReaderStalled:
            _log.warning("an export was cut off: its reader was too slow")
        finally:
            self._leave()


# Answers


def _json_response(content: Any, status: int, headers: Mapping[str, str]) -> Response:
    return Response(encode_json(content), status, dict(headers), "application/json")


async def _send_document(request: Request) -> Response:
    return JSONResponse(build_document(), headers={"Cache-Control": "no-cache"})


async def _no_such_path(request: Request) -> Response:
    raise Refusal(404, "no-such-path", f"there is nothing at this path; {BASE}/openapi.json lists what there is")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    status, headers = getattr(error, "status_code", 500), getattr(error, "headers", None) or {}
    if status == 405:
        return _problem_response(Refusal(405, "method-not-allowed", "this path has other methods", headers))
    return _problem_response(Refusal(status, "http-error", str(getattr(error, "detail", error)), headers))


def _problem_response(error: Exception) -> Response:
    status, body, headers = describe_problem(error)
    if body["type"].endswith(":unexpected"):
        _log.error("a request failed", exc_info=error)
    return Response(
        json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
        status,
        {"Cache-Control": "no-store", **headers},
        PROBLEM_JSON,
    )


class _PageFiles(StaticFiles):
    """The files of the page; paths that are no files are views of it, which its script shows."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            answer = await super().get_response(path, scope)
        except HTTPException as exc:
            if exc.status_code != 404 or "." in path.rpartition("/")[2]:
                raise
            answer = await super().get_response("index.html", scope)
        answer.headers["Cache-Control"] = "no-cache"
        return answer
