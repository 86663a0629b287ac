"""
A server on the loopback interface that speaks the streams of Anthropic, OpenAI and Ollama, as each of them writes them.

It answers by a script, a step a request; without one it repeats what it was asked.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from timeouts import MAX_WAIT_SECONDS

KEY = "sk-test-0123456789abcdefSECRET"
MODELS = ("anthropic:claude-test", "openai:gpt-test", "ollama:qwen-test")
SECOND = dict(zip(MODELS, (4, 3, 1), strict=True))  # which part of a stream has the second piece of its text


@dataclass(frozen=True, slots=True)
class Says:
    """An answer of the model: text in pieces, then calls of tools, and why it stops there."""

    pieces: tuple[str, ...] = ()
    calls: tuple[tuple[str, Any], ...] = ()
    stop: str | None = None


def says(*pieces: str, stop: str | None = None) -> Says:
    return Says(pieces, stop=stop)


def calls(name: str, arguments: Any, *pieces: str) -> Says:
    return Says(pieces, ((name, arguments),))


@dataclass(frozen=True, slots=True)
class Refuses:
    """An answer without a stream."""

    status: int
    message: str = "no"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Breaks:
    """A stream of the right form that ends after so many of its parts: with something else, or within a chunk."""

    answer: Says
    after: int
    then: bytes | None = None  # None: the connection is cut


@dataclass(frozen=True, slots=True)
class Body:
    """Any other answer with status 200."""

    body: bytes
    kind: str = "text/html"


@dataclass(frozen=True, slots=True)
class Pauses:
    """A stream that waits after so many of its parts until it is told to go on."""

    answer: Says
    after: int
    go_on: threading.Event = field(default_factory=threading.Event)
    reached: threading.Event = field(default_factory=threading.Event)


Step = Says | Refuses | Breaks | Body | Pauses


class ModelServer(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Step] = []
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.closing = threading.Event()
        self.deserted = 0  # answers that nobody waited for

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what some tests are about; it need not be printed."""
        self.deserted += 1

    @property
    def environment(self) -> dict[str, str]:
        """Where the providers find it."""
        return {
            "ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": KEY, "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": KEY, "OLLAMA_HOST": self.url, "OLLAMA_API_KEY": KEY,
        }  # fmt: skip

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request["body"] for request in self.requests]

    def system(self, at: int = -1) -> str:
        """The system prompt of a request."""
        body = self.bodies[at]
        system: str = body["system"] if "system" in body else body["messages"][0]["content"]
        return system

    def told(self, at: int = -1) -> list[tuple[str, str]]:
        """What a request says was said: role and text, without calls and their results."""
        said = []
        for message in self.bodies[at]["messages"]:
            content = message["content"]
            if isinstance(content, list):
                content = "".join(block["text"] for block in content if block["type"] == "text")
            if content and message["role"] in ("user", "assistant") and not message.get("tool_calls"):
                said.append((message["role"], content))
        return said

    def results(self, at: int = -1) -> list[Any]:
        """What a request says that tools gave back."""
        found = []
        for message in self.bodies[at]["messages"]:
            if message["role"] == "tool":
                found.append(message["content"])
            elif isinstance(message["content"], list):
                found += [block["content"] for block in message["content"] if block["type"] == "tool_result"]
        return [json.loads(text) for text in found]


@contextmanager
def model_server() -> Iterator[ModelServer]:
    server = ModelServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = MAX_WAIT_SECONDS
    disable_nagle_algorithm = True
    server: ModelServer

    def log_message(self, *args: Any) -> None:
        """Not to the output of the tests."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
        step = self.server.script.pop(0) if self.server.script else says("You said: ", _last(body))
        match step:
            case Refuses(status, message, headers):
                self._whole(status, json.dumps(_error(self.path, message)).encode(), "application/json", headers)
            case Body(answer, kind):
                self._whole(200, answer, kind, {})
            case Says():
                self._stream(step, body["model"])
            case Breaks(answer, after, then):
                self._stream(answer, body["model"], after, then, cut=True)
            case Pauses():
                self._stream(step.answer, body["model"], step.after, pause=step)

    def _whole(self, status: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(
        self,
        answer: Says,
        model: str,
        after: int = -1,
        then: bytes | None = None,
        *,
        cut: bool = False,
        pause: Pauses | None = None,
    ) -> None:
        kind, write = _STREAMS[self.path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for place, part in enumerate(write(answer, model)):
            if place == after and pause:
                pause.reached.set()
                while not (pause.go_on.wait(0.01) or self.server.closing.is_set()):
                    pass
            elif place == after and cut:
                self._break(then)
                return
            self._chunk(part)
        self._chunk(b"")

    def _break(self, then: bytes | None) -> None:
        if then is None:
            self.wfile.write(b"40\r\nonly the beginning of a chunk")
        else:
            self._chunk(then)
            self._chunk(b"")
        self.close_connection = True

    def _chunk(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.wfile.flush()


def _last(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[-1].get("text", ""))


def _error(path: str, message: str) -> dict[str, Any]:
    if path == "/api/chat":
        return {"error": message}
    if path == "/v1/messages":
        return {"type": "error", "error": {"type": "some_error", "message": message}, "request_id": "req_1"}
    return {"error": {"message": message, "type": "some_error", "param": None, "code": None}}


def _anthropic(answer: Says, model: str) -> Iterator[bytes]:
    def event(kind: str, **data: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()

    usage = {"input_tokens": 20, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 1}
    yield event(
        "message_start",
        message={
            "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": model, "stop_reason": None,
            "stop_sequence": None, "usage": usage,
        },
    )  # fmt: skip
    place = 0
    if answer.pieces:
        yield event("content_block_start", index=place, content_block={"type": "text", "text": ""})
        yield event("ping")
        for piece in answer.pieces:
            yield event("content_block_delta", index=place, delta={"type": "text_delta", "text": piece})
        yield event("content_block_stop", index=place)
        place += 1
    for number, (name, arguments) in enumerate(answer.calls):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        yield event("content_block_start", index=place, content_block=block)
        for piece in ("", *_halves(arguments)):
            yield event("content_block_delta", index=place, delta={"type": "input_json_delta", "partial_json": piece})
        yield event("content_block_stop", index=place)
        place += 1
    stop = {"length": "max_tokens", None: "tool_use" if answer.calls else "end_turn"}[answer.stop]
    yield event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 10})
    yield event("message_stop")


def _openai(answer: Says, model: str) -> Iterator[bytes]:
    def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
        data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices}
        return f"data: {json.dumps(data | more)}\n\n".encode()

    def delta(finish_reason: str | None = None, **delta: Any) -> bytes:
        return chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}], usage=None)

    yield b": a comment, as gateways send them to keep a connection\n\n"
    yield delta(role="assistant", content="" if answer.pieces else None, refusal=None)
    for piece in answer.pieces:
        yield delta(content=piece)
    for index, (name, arguments) in enumerate(answer.calls):
        function = {"name": name, "arguments": ""}
        yield delta(tool_calls=[{"index": index, "id": f"call_{index}", "type": "function", "function": function}])
        for piece in _halves(arguments):
            yield delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    yield delta(answer.stop or ("tool_calls" if answer.calls else "stop"))
    yield chunk([], usage={"prompt_tokens": 25, "completion_tokens": 10, "total_tokens": 35})
    yield b"data: [DONE]\n\n"


def _ollama(answer: Says, model: str) -> Iterator[bytes]:
    def line(content: str = "", done: bool = False, **more: Any) -> bytes:
        message = {"role": "assistant", "content": content} | more.pop("message", {})
        data = {"model": model, "created_at": "2026-01-01T00:00:00.000000Z", "message": message, "done": done}
        return (json.dumps(data | more) + "\n").encode()

    for piece in answer.pieces:
        yield line(piece)
    for index, (name, arguments) in enumerate(answer.calls):
        yield line(message={"tool_calls": [{"function": {"index": index, "name": name, "arguments": arguments}}]})
    yield line(
        done=True, done_reason=answer.stop or "stop", total_duration=5, load_duration=1, prompt_eval_count=25,
        prompt_eval_duration=1, eval_count=10, eval_duration=1,
    )  # fmt: skip


def _halves(arguments: Any) -> tuple[str, str]:
    """Arguments as they are streamed: cut anywhere."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return text[: len(text) // 2], text[len(text) // 2 :]


_STREAMS: dict[str, tuple[str, Callable[[Says, str], Iterator[bytes]]]] = {
    "/v1/messages": ("text/event-stream; charset=utf-8", _anthropic),
    "/v1/chat/completions": ("text/event-stream; charset=utf-8", _openai),
    "/api/chat": ("application/x-ndjson", _ollama),
}
