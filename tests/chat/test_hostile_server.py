"""A server of models that answers as none should: without an end, with calls without number, with absurd counts."""

import itertools
import json
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pytest

from memorist import Memorist
from memorist.chat.conversation import MAX_ROUNDS, Conversation, ConversationRecorder
from memorist.chat.providers import Message, Provider, Usage, create_provider
from memorist.chat.tools import Tools
from memorist.embed.remote import OpenAIEmbedder
from memorist.errors import ChatError, EmbedderError, EmbedderUnavailable

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
STREAM = HEAD + b"Connection: close\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
GOING_ON = itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)  # and the headers of the answer never come


@contextmanager
def answering(pieces: Iterable[bytes], sizes: list[int] | None = None) -> Iterator[str]:
    """
    Yield the address of a server that answers every request with these bytes, until nobody reads them any more.

    The sizes of the requests are added to a list.
    """
    requests = [] if sizes is None else sizes
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        requests.append(read_request(connection))
                        for piece in pieces:
                            connection.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def read_request(connection: socket.socket) -> int:
    """Read a whole request, and return the size of its body."""
    with connection.makefile("rb") as file:
        length = 0
        while (line := file.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return len(file.read(length))


def provider(url: str, timeout: float = 30.0) -> Provider:
    return create_provider("openai:m", timeout=timeout, environ={"OPENAI_BASE_URL": url}, sleep=lambda seconds: None)


def event(choice: object = None, **fields: object) -> bytes:
    return f"data: {json.dumps({'choices': [choice] if choice else [], **fields})}\n\n".encode()


def ask(url: str, timeout: float = 30.0) -> None:
    provider(url, timeout).answer("", [Message("user", "Hello")], [], lambda piece: None)


def test_headers_without_an_end_are_waited_for_no_longer_than_an_answer() -> None:
    with answering(GOING_ON) as url, pytest.raises(ChatError, match="no answer within"):
        ask(url, timeout=0.2)


def test_a_vector_without_an_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorist.model_client._MAX_ANSWER_BYTES", 1_000_000)
    body = itertools.chain([STREAM], itertools.repeat(b" " * 65536))
    with answering(body) as url, pytest.raises(EmbedderError, match="has no end"):
        OpenAIEmbedder("m", base_url=url, retries=0).embed(["one"])


def test_a_vector_that_never_comes_is_not_waited_for() -> None:
    with answering(GOING_ON) as url, pytest.raises(EmbedderUnavailable, match="no answer within"):
        OpenAIEmbedder("m", base_url=url, retries=0, timeout=0.2).embed(["one"])


def test_a_line_in_tiny_pieces_is_not_copied_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is, this takes as long as copying 80 GB."""
    monkeypatch.setattr("memorist.model_client._MAX_STREAM_BYTES", 400_000)
    pieces = itertools.chain([CHUNKED], itertools.repeat(b"1\r\na\r\n" * 1000))
    with answering(pieces) as url, pytest.raises(ChatError, match="has no end"):
        ask(url)


def test_calls_without_number_are_not_all_answered(memory: Memorist) -> None:
    calls = [
        {"index": number, "id": f"c{number}", "function": {"name": "memory_search", "arguments": "{}"}}
        for number in range(5000)
    ]
    answer = STREAM + event({"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}) + b"data: [DONE]\n\n"
    sent: list[int] = []
    recorder = ConversationRecorder(None, project=None, redact=False, warn=print)
    tools = Tools(memory, session="s", warn=print)
    with answering([answer], sent) as url, pytest.raises(ChatError, match="empty answer"):
        Conversation(provider(url), tools, recorder, lambda message: "", print).ask("Hello", lambda piece: None)

    assert len(sent) == MAX_ROUNDS + 1
    assert max(sent) < 100_000


@pytest.mark.parametrize("count", [-1, 10**400, 2**64, True])
def test_a_count_of_tokens_that_cannot_be_one_does_not_count(count: int) -> None:
    said = event({"delta": {"content": "x"}, "finish_reason": "stop"})
    usage = event(usage={"prompt_tokens": 7, "completion_tokens": count})
    with answering([STREAM + said + usage + b"data: [DONE]\n\n"]) as url:
        reply = provider(url).answer("", [Message("user", "Hello")], [], lambda piece: None)

    assert reply.usage == Usage(7, 0)
