"""
Embedding models behind HTTP: any OpenAI-compatible server, and Ollama.

Nothing is sent before the first text is embedded, so a missing key or server is reported where the caller can
still fall back to keyword search. Failures are raised outside `except` blocks, so that not even their context refers
to the driver's exception, which may quote a request with its key.
"""

import functools
import http.client
import json
import os
import random
import re
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from memorist.embed.base import Vectors
from memorist.errors import ConfigError, EmbedderError, EmbedderUnavailable
from memorist.forks import renew_after_fork
from memorist.http import OPENAI_URL, Endpoint, ollama_url, refusal, retry_after

Sleep = Callable[[float], None]

# Vector sizes of well-known models, so that opening a store needs no call; others are learnt from an answer.
# Ollama's untagged qwen3-embedding is the 8b model.
_SIZES = {
    384: "all-minilm all-minilm-22m all-minilm-33m all-minilm-l6-v2 bge-small-en-v1.5",
    768: "nomic-embed-text nomic-embed-text-v1.5 embeddinggemma bge-base-en-v1.5",
    1024: "mxbai-embed-large bge-m3 bge-large-en-v1.5 snowflake-arctic-embed2 qwen3-embedding-0.6b",
    1536: "text-embedding-3-small text-embedding-ada-002",
    2560: "qwen3-embedding-4b",
    3072: "text-embedding-3-large",
    4096: "qwen3-embedding qwen3-embedding-8b",
}
_DIMENSIONS = {name: size for size, names in _SIZES.items() for name in names.split()}

# What each family was trained to see before a document and before a question (from its model card); the first
# pattern found in the name counts, because servers decorate names: "text-embedding-nomic-embed-text-v1.5".
_SENTENCE = "Represent this sentence for searching relevant passages: "
_PREFIXES: tuple[tuple[str, str, str], ...] = (
    (r"nomic-embed-text", "search_document: ", "search_query: "),
    (r"qwen3-embedding", "", "Instruct: Given a question, retrieve memories that answer it\nQuery:"),
    (r"embeddinggemma", "title: none | text: ", "task: search result | query: "),
    (r"snowflake-arctic-embed(?:2|.*-v2)", "", "query: "),
    (r"snowflake-arctic-embed|mxbai-embed-large|bge-(?:small|base|large)(?!-zh)", "", _SENTENCE),
    (r"\be5-(?:small|base|large)(?!.*instruct)", "passage: ", "query: "),
)

# How servers say that a text, or the texts of one request together, are more than the model takes.
_TOO_LONG = re.compile(r"context (?:length|size)|too (?:long|large)|less than \d+ tokens|tokens per request", re.I)
_SHORTEST_CUT = 200  # a model that refuses even this many characters has another problem

# The total time a call may go on starting new attempts. A question has someone waiting for keyword results.
_DOCUMENT_PATIENCE, _QUESTION_PATIENCE = 120.0, 2.0
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 20.0


@dataclass(frozen=True, slots=True)
class _Response:
    """What one attempt came to: a response, or with status 0 the reason why there is none."""

    status: int
    body: bytes
    retry_after: float | None = None

    @property
    def passing(self) -> bool:
        """Whether the same request may well succeed a little later."""
        busy = self.status >= 500 or self.status in (0, 408, 409, 429)
        return busy and not self.too_long and b"insufficient_quota" not in self.body

    @property
    def too_long(self) -> bool:
        return self.status >= 400 and _TOO_LONG.search(self.text) is not None

    @property
    def text(self) -> str:
        return refusal(self.body)


class _Server:
    """One base URL: connections kept alive, time-outs, retries."""

    def __init__(self, address: Endpoint, timeout: float, retries: int, sleep: Sleep) -> None:
        self.address = address
        self._timeout, self._retries, self._sleep = timeout, max(0, retries), sleep
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        renew_after_fork(self)
        weakref.finalize(self, _close_all, self._idle)

    def after_fork(self) -> None:
        """In a child: the parent goes on talking through the connections it opened."""
        self._lock = threading.Lock()
        self._idle.clear()

    def post(self, path: str, payload: Mapping[str, object], patience: float) -> _Response:
        """The final answer to a request: passing failures are tried again while patience lasts."""
        body = json.dumps(payload, ensure_ascii=False).encode()
        deadline = time.monotonic() + patience
        for attempt in range(self._retries + 1):
            answer = self._attempt(path, body)
            if not answer.passing or attempt == self._retries:
                break
            delay = answer.retry_after
            if delay is None:  # half of each delay is random, so that many clients do not come back at once
                delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2**attempt) * random.uniform(0.5, 1.0)
            if time.monotonic() + delay > deadline:
                break
            self._sleep(delay)
        return answer

    def close(self) -> None:
        with self._lock:
            _close_all(self._idle)

    def _attempt(self, path: str, body: bytes) -> _Response:
        with self._lock:
            connection = self._idle.pop() if self._idle else self.address.connection(self._timeout)
        reused, failure, answer = connection.sock is not None, "", None
        try:
            connection.request("POST", self.address.target(path), body, self.address.headers)
            with connection.getresponse() as response:
                delay = retry_after(response.getheader("Retry-After"))
                answer = _Response(response.status, response.read(), delay)
        except TimeoutError:
            failure = f"no answer within {self._timeout:g} s"
        except (OSError, http.client.HTTPException, UnicodeError) as exc:
            if not reused:  # only the system's words are taken over: other messages may quote the request
                failure = getattr(exc, "strerror", None) or type(exc).__name__
        finally:  # only after a whole answer can the connection serve again
            if answer is None:
                connection.close()
            else:
                with self._lock:
                    self._idle.append(connection)
        if answer is None and not failure:  # the server had closed a kept connection; each try uses one up
            return self._attempt(path, body)
        return answer or _Response(0, failure.encode())


class _RemoteEmbedder(ABC):
    """
    What both providers share: preparing texts, batches, reading vectors, and saying what went wrong.

    `timeout` is in seconds for one attempt, `retries` the most attempts after the first, and `batch` the most texts
    in one request; `dimensions` asks the server for shorter vectors, where the model can make them.
    """

    _provider: ClassVar[str]
    _path: ClassVar[str]
    _options: ClassVar[dict[str, object]]
    _url_setting: ClassVar[str]
    _key_setting: ClassVar[str]
    _unreachable_hint: ClassVar[str]
    _missing_hint: ClassVar[str]
    _timeout: ClassVar[float]
    _batch: ClassVar[int]
    _batch_chars: ClassVar[int]
    _max_chars: ClassVar[int]

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        timeout: float | None = None,
        retries: int = 4,
        batch: int | None = None,
        environ: Mapping[str, str] = os.environ,
        sleep: Sleep = time.sleep,
    ) -> None:
        if not model:
            raise ConfigError(f"no model is named: write {self._provider}:MODEL")
        address = Endpoint(
            self._url((base_url or environ.get(self._url_setting, "")).strip()),
            api_key or environ.get(self._key_setting, ""),
            url_setting=self._url_setting,
            key_setting=self._key_setting,
        )
        self._server = _Server(address, timeout or self._timeout, retries, sleep)
        self._model, self._asked, self._texts = model, dimensions, batch or self._batch
        family = model.lower().rpartition("/")[2].removesuffix(":latest").replace(":", "-")
        self._dimensions = dimensions or _DIMENSIONS.get(family)
        self.document_prefix, self.query_prefix = next(
            ((before, asked) for pattern, before, asked in _PREFIXES if re.search(pattern, family)), ("", "")
        )
        self._question = functools.lru_cache(256)(self._embed_question)

    @property
    def model_id(self) -> str:
        return f"{self._provider}:{self._model}"

    @property
    def dimensions(self) -> int:
        """The length of a vector; of a model that is not well known, learnt by embedding one word."""
        if self._dimensions is None:  # reading the answer also remembers its size
            return int(self._send(["dimensions"], _DOCUMENT_PATIENCE).shape[1])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a document, in order."""
        ready = [self._prepared(text, self.document_prefix) for text in texts]
        parts = [self._send(batch, _DOCUMENT_PATIENCE) for batch in _batches(ready, self._texts, self._batch_chars)]
        return np.concatenate(parts) if parts else np.empty((0, self._dimensions or 0), np.float32)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, remembered while it is among the last few hundred."""
        return self._question(text)

    def close(self) -> None:
        """Close the kept connections; a later call opens new ones."""
        self._server.close()

    def _embed_question(self, text: str) -> Vectors:
        vector: Vectors = self._send([self._prepared(text, self.query_prefix)], _QUESTION_PATIENCE)[0]
        vector.setflags(write=False)  # every caller is handed the same array
        return vector

    def _prepared(self, text: str, prefix: str) -> str:
        # Through UTF-16, halves of a surrogate pair are joined and a lone one becomes U+FFFD: JSON can carry neither.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return prefix + text[: self._max_chars] or " "  # servers refuse an empty text

    def _send(self, texts: list[str], patience: float) -> Vectors:
        """Embed the texts of one request; where they are too long for the model, in parts, then shortened."""
        payload = {"model": self._model, "input": texts, **self._options}
        if self._asked is not None:
            payload["dimensions"] = self._asked
        answer = self._server.post(self._path, payload, patience)
        if answer.status == 200:
            return self._vectors(answer.body, len(texts))
        if answer.too_long:
            if len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate([self._send(texts[:half], patience), self._send(texts[half:], patience)])
            if len(texts[0]) > _SHORTEST_CUT:
                return self._send([texts[0][: len(texts[0]) // 2]], patience)
        raise self._failure(answer)

    def _vectors(self, body: bytes, count: int) -> Vectors:
        rows: list[Any] | None
        try:
            rows = self._rows(json.loads(body))
            sizes = {len(row) for row in rows}
            vectors = np.asarray(rows if len(sizes) == 1 else [], np.float32)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            rows = None  # raised below, with nothing to chain that may quote the answer
        if rows is None:
            raise EmbedderError(
                f"{self._server.address.shown} did not answer with embeddings; is {self._url_setting} right?"
            )
        if len(rows) != count:
            raise EmbedderError(f"{self.model_id} returned {len(rows)} vectors for {count} texts")
        expected = self._dimensions or max(sizes)
        if not expected or vectors.shape != (count, expected):
            raise EmbedderError(f"{self.model_id} returned vectors of size {sorted(sizes)}, expected {expected}")
        self._dimensions = expected
        return vectors

    def _failure(self, answer: _Response) -> EmbedderError:
        where, status, said = self._server.address.shown, answer.status, self._server.address.quote(answer.text)
        if status == 0:
            return EmbedderUnavailable(f"cannot reach {self.model_id} at {where} ({said}): {self._unreachable_hint}")
        if status in (401, 403):  # the answer is not quoted: servers repeat parts of a key they refuse
            return EmbedderUnavailable(f"{where} refused the key: set {self._key_setting} to one it accepts")
        if status == 404:
            hint = self._missing_hint.format(model=self._model)
            return EmbedderUnavailable(f"{where} has no model {self._model} ({said}): {hint}")
        if answer.passing:
            return EmbedderUnavailable(f"{where} answered {status} ({said}): try again later")
        return EmbedderError(f"{where} answered {status} for the model {self._model}: {said}")

    @abstractmethod
    def _url(self, given: str) -> str:
        """The base URL that a setting means, which may be empty."""

    @abstractmethod
    def _rows(self, answer: Any) -> list[Any]:
        """The vectors in a decoded answer, in the order of the texts."""


class OpenAIEmbedder(_RemoteEmbedder):
    """Models of OpenAI (which needs a key), or of any server that speaks its API: LM Studio, vLLM, llama.cpp."""

    _provider, _path, _url_setting, _key_setting = "openai", "/embeddings", "OPENAI_BASE_URL", "OPENAI_API_KEY"
    _options: ClassVar[dict[str, object]] = {"encoding_format": "float"}
    _unreachable_hint = "check the network, and OPENAI_BASE_URL if you set it"
    _missing_hint = "check the name of the model, and OPENAI_BASE_URL if you set it"
    # OpenAI takes 8,192 tokens a text, 2,048 texts and 300,000 tokens a request. English has 3 to 4 characters a
    # token, other scripts down to 1 and less; what is still too much is halved when the server says so.
    _timeout, _batch, _batch_chars, _max_chars = 30.0, 256, 150_000, 24_000

    def _url(self, given: str) -> str:
        return given or OPENAI_URL

    def _send(self, texts: list[str], patience: float) -> Vectors:
        address = self._server.address
        if not address.key and f".{address.host}".endswith(".api.openai.com"):
            raise EmbedderUnavailable(f"{self.model_id} needs a key: set OPENAI_API_KEY")
        return super()._send(texts, patience)

    def _rows(self, answer: Any) -> list[Any]:
        rows = {item.get("index", position): item["embedding"] for position, item in enumerate(answer["data"])}
        return [rows[position] for position in range(len(answer["data"]))]


class OllamaEmbedder(_RemoteEmbedder):
    """Models that Ollama serves, at `base_url` or OLLAMA_HOST (which may lack scheme and port), else this machine."""

    _provider, _path, _url_setting, _key_setting = "ollama", "/api/embed", "OLLAMA_HOST", "OLLAMA_API_KEY"
    _options: ClassVar[dict[str, object]] = {"truncate": True}
    _unreachable_hint = "start it with `ollama serve`, or set OLLAMA_HOST"
    _missing_hint = "run `ollama pull {model}`"
    # A batch is small because a large model on a CPU takes seconds a text, and all of it must fit the time-out.
    _timeout, _batch, _batch_chars, _max_chars = 60.0, 16, 32_000, 8_000

    def _url(self, given: str) -> str:
        return ollama_url(given)

    def _rows(self, answer: Any) -> list[Any]:
        return list(answer["embeddings"])


def _batches(texts: Sequence[str], count: int, chars: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= count or size + len(text) > chars):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()
