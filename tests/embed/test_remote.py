"""Remote embedders against a real HTTP server on the loopback interface, which speaks both wire formats."""

import email.utils
import gc
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import memorist
from memorist.embed.base import Embedder, embed_documents, embed_query
from memorist.embed.remote import OllamaEmbedder, OpenAIEmbedder
from memorist.errors import ConfigError, EmbedderError, EmbedderUnavailable
from timeouts import MAX_WAIT_SECONDS

KEY = "sk-test-0123456789abcdefSECRET"
Remote = OpenAIEmbedder | OllamaEmbedder
Reply = tuple[int, dict[str, str], bytes]


class FakeServer(ThreadingHTTPServer):
    """Answers as OpenAI or Ollama would, unless the script holds a reply for the next request."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.script: list[Reply | Callable[[], None]] = []
        self.always: Reply | None = None
        self.size = 4
        self.longest: int | None = None
        self.connections = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def inputs(self) -> list[list[str]]:
        return [request["body"]["input"] for request in self.requests]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what some tests are about; it need not be printed."""

    def vector(self, text: str) -> list[float]:
        return [float(len(text)), *[1.0] * (self.size - 1)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = MAX_WAIT_SECONDS
    disable_nagle_algorithm = True  # headers and body are written apart
    server: FakeServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def log_message(self, *args: Any) -> None:
        """Not to the output of the tests."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
        step = self.server.script.pop(0) if self.server.script else self.server.always
        if callable(step):
            step = step()
        status, headers, answer = step or self.embeddings(body["input"])
        self.send_response(status)
        for name, value in {"Content-Length": str(len(answer)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def embeddings(self, texts: list[str]) -> Reply:
        if self.server.longest is not None and max(map(len, texts)) > self.server.longest:
            return failing(400, "the input length exceeds the context length")
        vectors = [self.server.vector(text) for text in texts]
        if self.path.endswith("/api/embed"):
            return ok({"model": "m", "embeddings": vectors, "total_duration": 1})
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
        return ok({"object": "list", "data": data[::-1], "model": "m", "usage": {"prompt_tokens": 1}})


def ok(answer: object) -> Reply:
    return 200, {}, json.dumps(answer).encode()


def failing(status: int, message: str = "no", **headers: str) -> Reply:
    return (
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        json.dumps({"error": {"message": message}}).encode(),
    )


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    fake.shutdown()
    thread.join()
    fake.server_close()


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def openai(server: FakeServer, slept: list[float]) -> Iterator[Callable[..., OpenAIEmbedder]]:
    yield from _maker(OpenAIEmbedder, f"{server.url}/v1", slept)


@pytest.fixture
def ollama(server: FakeServer, slept: list[float]) -> Iterator[Callable[..., OllamaEmbedder]]:
    yield from _maker(OllamaEmbedder, server.url, slept)


def _maker(kind: Any, url: str, slept: list[float]) -> Iterator[Callable[..., Any]]:
    made: list[Remote] = []

    def make(model: str = "some-model", **options: Any) -> Remote:
        options = {"base_url": url, "environ": {}, "sleep": slept.append, **options}
        made.append(kind(model, **options))
        return made[-1]

    yield make
    for embedder in made:
        embedder.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


# What is sent, and what comes back


def test_openai_vectors_follow_the_texts_though_the_server_answers_out_of_order(openai, server):
    vectors = openai(api_key=KEY).embed(["a", "bbb", "cc"])

    assert vectors[:, 0].tolist() == [1, 3, 2]
    assert vectors.dtype == np.float32
    request = server.requests[0]
    assert request["path"] == "/v1/embeddings"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["body"] == {"model": "some-model", "input": ["a", "bbb", "cc"], "encoding_format": "float"}


def test_ollama_is_asked_in_its_own_format(ollama, server):
    vectors = ollama().embed(["a", "bbb"])

    assert vectors[:, 0].tolist() == [1, 3]
    assert server.requests[0]["path"] == "/api/embed"
    assert server.requests[0]["body"] == {"model": "some-model", "input": ["a", "bbb"], "truncate": True}
    assert "Authorization" not in server.requests[0]["headers"]


def test_both_are_embedders_that_the_engine_can_call(openai, ollama):
    for embedder in (openai(), ollama()):
        assert isinstance(embedder, Embedder)
        assert embed_documents(embedder, ["a", "b"]).shape == (2, 4)
        assert np.linalg.norm(embed_query(embedder, "a")) == pytest.approx(1)


def test_the_model_id_names_provider_and_model_but_not_the_server(openai, ollama):
    assert openai("m").model_id == "openai:m"
    assert ollama("qwen3-embedding:0.6b").model_id == "ollama:qwen3-embedding:0.6b"


def test_wanted_dimensions_are_sent_and_expected(openai, server):
    server.size = 8
    embedder = openai("text-embedding-3-small", dimensions=8)

    assert embedder.dimensions == 8
    embedder.embed(["a"])
    assert server.requests[0]["body"]["dimensions"] == 8


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("text-embedding-3-large", 3072),
        ("nomic-embed-text:latest", 768),
        ("Qwen/Qwen3-Embedding-0.6B", 1024),
        ("qwen3-embedding:4b", 2560),
        ("all-minilm", 384),
    ],
)
def test_dimensions_of_well_known_models_need_no_call(openai, server, model, size):
    assert openai(model).dimensions == size
    assert server.requests == []


def test_unknown_dimensions_are_learnt_by_one_call(ollama, server):
    embedder = ollama("unheard-of")

    assert [embedder.dimensions, embedder.dimensions] == [4, 4]
    assert len(server.requests) == 1


def test_dimensions_learnt_from_documents_need_no_further_call(ollama, server):
    embedder = ollama("unheard-of")
    embedder.embed(["a"])

    assert embedder.dimensions == 4
    assert len(server.requests) == 1


def test_texts_that_json_cannot_carry_are_mended(openai, server):
    openai().embed(["a\ud83db", "\ud83d\ude00", "", "日本\x00"])

    assert server.inputs == [["a\ufffdb", "😀", " ", "日本\x00"]]


def test_no_texts_are_no_vectors_and_no_call(openai, server):
    assert openai().embed([]).shape[0] == 0
    assert server.requests == []


# Batches


def test_texts_are_sent_in_batches_and_kept_in_order(openai, server):
    vectors = openai(batch=3).embed(["x" * n for n in range(1, 9)])

    assert [len(texts) for texts in server.inputs] == [3, 3, 2]
    assert vectors[:, 0].tolist() == list(range(1, 9))


def test_a_batch_is_also_limited_by_its_characters(ollama, server):
    ollama().embed(["x" * 7_000] * 9)

    assert [len(texts) for texts in server.inputs] == [4, 4, 1]


def test_a_text_beyond_the_limit_is_cut(ollama, openai, server):
    ollama().embed(["x" * 1_000_000])
    openai().embed(["x" * 1_000_000])

    assert [len(texts[0]) for texts in server.inputs] == [8_000, 24_000]


def test_a_text_too_long_for_the_model_is_halved_and_its_neighbours_are_not(ollama, server):
    server.longest = 1000

    vectors = ollama().embed(["x" * 900, "y" * 3000, "z" * 10])

    assert vectors[:, 0].tolist() == [900, 750, 10]


def test_a_model_that_takes_no_text_at_all_is_an_error(ollama, server, slept):
    server.longest = 0

    with pytest.raises(EmbedderError, match="context length"):
        ollama().embed(["x" * 3000, "y"])
    assert slept == []


# Questions


@pytest.mark.parametrize(
    ("model", "document", "question"),
    [
        ("nomic-embed-text:v1.5", "search_document: ", "search_query: "),
        ("text-embedding-nomic-embed-text-v1.5", "search_document: ", "search_query: "),
        ("qwen3-embedding:0.6b", "", "Instruct: Given a question, retrieve memories that answer it\nQuery:"),
        ("mxbai-embed-large", "", "Represent this sentence for searching relevant passages: "),
        ("BAAI/bge-small-en-v1.5", "", "Represent this sentence for searching relevant passages: "),
        ("snowflake-arctic-embed:33m", "", "Represent this sentence for searching relevant passages: "),
        ("snowflake-arctic-embed2", "", "query: "),
        ("embeddinggemma:300m", "title: none | text: ", "task: search result | query: "),
        ("intfloat/multilingual-e5-large", "passage: ", "query: "),
        ("multilingual-e5-large-instruct", "", ""),
        ("bge-m3", "", ""),
        ("bge-large-zh-v1.5", "", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_each_family_sees_the_prefixes_it_was_trained_with(ollama, server, model, document, question):
    embedder = ollama(model, dimensions=4)
    embedder.embed(["deploy"])
    embedder.embed_query("deploy")

    assert server.inputs == [[document + "deploy"], [question + "deploy"]]
    assert (embedder.document_prefix, embedder.query_prefix) == (document, question)


def test_a_repeated_question_is_answered_from_memory(openai, server):
    embedder = openai()
    first, again = embedder.embed_query("where"), embedder.embed_query("where")

    assert first.tolist() == again.tolist()
    assert server.inputs == [["where"]]
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 9


def test_a_failed_question_is_not_remembered(openai, server):
    embedder = openai(retries=0)
    server.script = [failing(500)]

    with pytest.raises(EmbedderUnavailable):
        embedder.embed_query("where")
    assert embedder.embed_query("where").shape == (4,)


def test_a_question_does_not_wait_as_long_as_documents_do(openai, server, slept):
    server.script = [failing(429, Retry_After="3")]
    with pytest.raises(EmbedderUnavailable):
        openai().embed_query("where")
    assert slept == []

    server.script = [failing(429, Retry_After="3")]
    openai().embed(["a"])
    assert slept == [3]


def test_many_threads_may_share_an_embedder(openai):
    embedder = openai()
    with ThreadPoolExecutor(8) as pool:
        lengths = [vector[0] for vector in pool.map(embedder.embed_query, ["x" * (n % 20 + 1) for n in range(200)])]

    assert lengths == [n % 20 + 1 for n in range(200)]


# Connections


def test_a_connection_is_used_again(openai, server):
    embedder = openai()
    for text in ("a", "b", "c"):
        embedder.embed([text])

    assert server.connections == 1


def test_a_kept_connection_that_the_server_closed_is_replaced_without_a_wait(openai, server, slept):
    server.script = [ok({"data": [{"embedding": [1, 2, 3, 4]}]}), lambda: (_ for _ in ()).throw(ConnectionError)]
    embedder = openai()
    embedder.embed(["a"])
    embedder.embed(["b"])

    assert server.connections == 2
    assert slept == []


def test_an_embedder_that_is_dropped_leaves_no_open_socket(server):
    OpenAIEmbedder("m", base_url=server.url, environ={}).embed(["a"])
    gc.collect()  # an unclosed socket would warn here, and a warning is an error

    assert server.connections == 1


# Retries


def test_a_rate_limit_is_waited_out_as_long_as_the_server_asks(openai, server, slept):
    server.script = [failing(429, Retry_After="7"), failing(503, Retry_After="0.5")]

    assert openai().embed(["a"]).shape == (1, 4)
    assert slept == [7, 0.5]


def test_the_wait_may_be_given_as_a_date(openai, server, slept):
    server.script = [
        failing(429, Retry_After=email.utils.formatdate(time.time() + 30, usegmt=True)),
        failing(429, Retry_After="Wed, 21 Oct 2015 07:28:00 -0000"),
    ]
    openai().embed(["a"])

    assert slept == [pytest.approx(30, abs=2), 0]


def test_a_wait_that_makes_no_sense_is_replaced_by_our_own(openai, server, slept):
    server.script = [failing(429, Retry_After="soon"), failing(429, Retry_After="-1")]
    openai().embed(["a"])

    assert 0.25 <= slept[0] <= 0.5 <= slept[1] <= 1


def test_a_wait_beyond_all_patience_is_not_begun(openai, server, slept):
    server.script = [failing(429, "slow down", Retry_After="86400")]

    with pytest.raises(EmbedderUnavailable, match=r"429.*slow down"):
        openai().embed(["a"])
    assert slept == []


def test_a_server_that_keeps_failing_is_given_up_after_growing_waits(openai, server, slept):
    server.always = failing(500, "the model crashed")

    with pytest.raises(EmbedderUnavailable, match=r"127\.0\.0\.1.*500.*the model crashed.*try again later"):
        openai(retries=4).embed(["a"])
    assert len(server.requests) == 5
    assert [base / 2 <= wait <= base for wait, base in zip(slept, (0.5, 1, 2, 4), strict=True)] == [True] * 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 301])
def test_an_error_of_ours_is_not_tried_again(openai, server, slept, status):
    server.always = failing(status)

    with pytest.raises(EmbedderError):
        openai().embed(["a"])
    assert len(server.requests) == 1
    assert slept == []


def test_a_spent_quota_is_not_waited_for(openai, server, slept):
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    server.always = (429, {}, json.dumps(body).encode())

    with pytest.raises(EmbedderError, match="exceeded your quota"):
        openai().embed(["a"])
    assert slept == []


# Failures


def test_a_server_that_does_not_answer_in_time_is_unavailable(ollama, server, slept):
    release = threading.Event()
    server.script = [lambda: release.wait(MAX_WAIT_SECONDS) and None] * 2
    try:
        with pytest.raises(EmbedderUnavailable, match=r"http://127\.0\.0\.1:\d+ \(no answer within 0\.2 s\)"):
            ollama(timeout=0.2, retries=1).embed(["a"])
    finally:
        release.set()
    assert len(slept) == 1


def test_a_server_that_is_not_there_is_unavailable_and_the_message_says_what_to_do(slept):
    url = f"http://user:{KEY}@127.0.0.1:{free_port()}"
    with pytest.raises(EmbedderUnavailable, match="start it with `ollama serve`") as failure:
        OllamaEmbedder("m", base_url=url, environ={}, retries=2, sleep=slept.append).embed(["a"])

    assert "//127.0.0.1:" in str(failure.value)
    assert_silent(failure.value)
    assert len(slept) == 2


def test_a_host_that_cannot_exist_is_unavailable(slept):
    for host in ("a..b", "x" * 70 + ".invalid"):
        with pytest.raises(EmbedderUnavailable, match="cannot reach"):
            OpenAIEmbedder("m", base_url=f"http://{host}/v1", environ={}, sleep=slept.append).embed(["a"])


def test_a_refused_key_is_named_by_its_setting_and_never_shown(openai, server):
    server.always = failing(401, f"Incorrect API key provided: {KEY}")

    with pytest.raises(EmbedderUnavailable, match="refused the key: set OPENAI_API_KEY") as failure:
        openai(api_key=KEY).embed(["a"])
    assert_silent(failure.value)


@pytest.mark.parametrize("padding", [0, 185])
def test_a_key_in_a_quoted_error_is_masked_even_where_the_quote_is_cut(openai, server, padding):
    server.always = failing(400, "x" * padding + f" key {KEY} is not for this model " + "y" * 1000)

    with pytest.raises(EmbedderError, match="answered 400") as failure:
        openai(api_key=KEY).embed(["a"])
    assert len(str(failure.value)) < 300
    assert_silent(failure.value)


def test_a_password_in_the_url_is_sent_but_never_shown(openai, server):
    server.script = [failing(400, f"bad {KEY}")]
    embedder = openai(base_url=server.url.replace("//", f"//user:{KEY}@"))

    with pytest.raises(EmbedderError) as failure:
        embedder.embed(["a"])
    assert_silent(failure.value)
    assert server.requests[0]["headers"]["Authorization"].startswith("Basic ")


def test_no_key_shows_in_the_object_itself(openai):
    assert KEY not in repr(openai(api_key=KEY))


@pytest.mark.parametrize("key", [f"{KEY}\nX-Evil: 1", f"{KEY}é"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(openai, key):
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as failure:
        openai(api_key=key)
    assert_silent(failure.value)


def assert_silent(error: BaseException) -> None:
    told = [str(error), repr(error), "".join(traceback.format_exception(error))]
    assert not any(KEY[:12] in text or KEY[-12:] in text for text in told)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_model_ollama_lacks_is_unavailable_until_pulled(ollama, server):
    server.always = (404, {}, b'{"error":"model \\"nomic-embed-text\\" not found, try pulling it first"}')

    with pytest.raises(EmbedderUnavailable, match="run `ollama pull nomic-embed-text`"):
        ollama("nomic-embed-text").embed(["a"])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"data": [', "did not answer with embeddings"),
        (b"<html>hello</html>", "did not answer with embeddings"),
        (b"[" * 100_000, "did not answer with embeddings"),
        (b"\xff\xfe", "did not answer with embeddings"),
        (b"{}", "did not answer with embeddings"),
        (b'{"data": null}', "did not answer with embeddings"),
        (b'{"data": ["a", "b"]}', "did not answer with embeddings"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]}', "did not answer"),
        (b'{"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": "AAAA"}]}', "did not answer"),
        (b'{"data": [{"index": 0, "embedding": [1]}]}', "1 vectors for 2 texts"),
        (b'{"data": []}', "0 vectors for 2 texts"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}', r"size \[1, 2\]"),
        (b'{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}', r"size \[0\]"),
        (b'{"data": [{"index": 0, "embedding": [[1]]}, {"index": 1, "embedding": [[1]]}]}', "size"),
    ],
)
def test_an_answer_that_is_not_one_vector_a_text_is_an_error(openai, server, body, complaint):
    server.always = (200, {}, body)

    with pytest.raises(EmbedderError, match=complaint) as failure:
        openai().embed(["a", "b"])
    assert not isinstance(failure.value, EmbedderUnavailable)


def test_a_size_that_differs_from_the_model_or_an_earlier_answer_is_an_error(openai, server):
    with pytest.raises(EmbedderError, match=r"size \[4\], expected 1536"):
        openai("text-embedding-3-small").embed(["a"])

    embedder = openai("unheard-of")
    embedder.embed(["a"])
    server.size = 5
    with pytest.raises(EmbedderError, match=r"size \[5\], expected 4"):
        embedder.embed(["a"])


# Settings


def test_openai_without_a_key_is_unavailable_before_any_connection(monkeypatch):
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("a connection was opened"))
    for base_url in (None, "https://api.openai.com/v1/", "https://eu.api.openai.com/v1"):
        embedder = OpenAIEmbedder("text-embedding-3-small", base_url=base_url, environ={})

        assert embedder.dimensions == 1536
        with pytest.raises(EmbedderUnavailable, match="set OPENAI_API_KEY"):
            embedder.embed(["a"])


def test_a_server_of_ones_own_needs_no_key(openai, server):
    openai().embed(["a"])

    assert "Authorization" not in server.requests[0]["headers"]


def test_openai_reads_its_server_and_key_from_the_environment(openai, server):
    openai(base_url=None, environ={"OPENAI_BASE_URL": f" {server.url}/x/ ", "OPENAI_API_KEY": f"{KEY}\n"}).embed(["a"])

    assert server.requests[0]["path"] == "/x/embeddings"
    assert server.requests[0]["headers"]["Authorization"] == f"Bearer {KEY}"


def test_ollama_reads_a_host_without_scheme_from_the_environment(ollama, server):
    ollama(base_url=None, environ={"OLLAMA_HOST": server.url.removeprefix("http://"), "OPENAI_API_KEY": KEY}).embed(
        ["a"]
    )

    assert server.requests[0]["path"] == "/api/embed"
    assert "Authorization" not in server.requests[0]["headers"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("box", "http://box:11434"),
        ("box:1234", "http://box:1234"),
        ("box:", "http://box:11434"),
        ("box/ollama", "http://box:11434/ollama"),
        ("http://box", "http://box"),
        ("http://0.0.0.0:11434/", "http://127.0.0.1:11434"),
        ("https://box/ollama/", "https://box/ollama"),
        ("https://me:word@box:444", "https://box:444"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("[::]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
    ],
)
def test_every_form_of_ollama_host_leads_to_a_server(monkeypatch, host, url):
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    embedder = OllamaEmbedder("m", environ={"OLLAMA_HOST": host}, retries=0)

    with pytest.raises(EmbedderUnavailable) as failure:
        embedder.embed(["a"])
    assert f" {url} (" in str(failure.value)


@pytest.mark.parametrize("url", ["ftp://box/v1", "box/v1", "http://", "http://box:99999", "http://a b/", "http://[x"])
def test_a_base_url_that_is_none_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL") as failure:
        OpenAIEmbedder("m", base_url=url, environ={})
    assert failure.value.__context__ is None


def test_a_model_must_be_named():
    with pytest.raises(ConfigError, match="openai:MODEL"):
        OpenAIEmbedder("", environ={})


REFUSALS: dict[str, Reply] = {
    "a wrong key": (401, {}, b'{"error": {"message": "no such key"}}'),
    "too many requests": (429, {}, b'{"error": {"message": "slow down"}}'),
    "too many requests, with a time to wait": (429, {"Retry-After": "7"}, b'{"error": {"message": "slow down"}}'),
    "overloaded": (503, {}, b"overloaded"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.parametrize("model", ["text-embedding-3-small", "one-of-unknown-size"])
def test_add_and_search_do_not_wait_for_a_server_that_refuses(
    server: FakeServer, openai: Callable[..., OpenAIEmbedder], slept: list[float], refusal: Reply, model: str
) -> None:
    server.always = refusal
    with memorist.open(":memory:", embedder=openai(model)) as memory:
        added = memory.add("The port is 8080")
        updated = memory.update(added.id, content="The port is 9090")
        waited = [sum(slept), len(server.requests)]
        found = memory.search("port")

        assert "found by keyword only" in str(added.degraded)
        assert "found by keyword only" in str(updated.degraded)
        assert [hit.memory.id for hit in found] == [added.id]
        assert "keyword search only" in str(found.degraded)
        assert waited[0] <= 2 * 0.5  # seconds, of two calls
        assert sum(slept) <= 3 * 0.5
        assert len(server.requests) <= 3 * 2

        slept.clear()
        with pytest.raises(EmbedderError):
            memory.reembed()
        assert (max(slept, default=0) > 1) is (refusal[0] in (429, 503) and model == "text-embedding-3-small")


def test_a_memory_that_waited_has_its_vector_once_the_server_answers(
    server: FakeServer, openai: Callable[..., OpenAIEmbedder]
) -> None:
    server.always = REFUSALS["overloaded"]
    with memorist.open(":memory:", embedder=openai()) as memory:
        memory.add("The port is 8080")
        server.always = None

        assert memory.add("Something else").degraded is None
        assert memory.search("port").degraded is None
