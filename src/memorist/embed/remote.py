"""Embedding models behind HTTP: any OpenAI-compatible server, and Ollama.

Nothing is sent before the first text is embedded, so a missing key or server is reported where the caller can
still fall back to keyword search.
"""

import functools
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from memorist.embed.base import Vectors
from memorist.errors import ConfigError, EmbedderError, EmbedderUnavailable
from memorist.model_client import Failure, JsonObject, ModelClient, RetryPolicy, Service, Sleep

# Vector sizes of well-known models, so that opening a store needs no call; others are learnt from an answer.
# Ollama's untagged qwen3-embedding is the 8b model.
_MODELS_BY_DIMENSIONS = {
    384: "all-minilm all-minilm-22m all-minilm-33m all-minilm-l6-v2 bge-small-en-v1.5",
    768: "nomic-embed-text nomic-embed-text-v1.5 embeddinggemma bge-base-en-v1.5",
    1024: "mxbai-embed-large bge-m3 bge-large-en-v1.5 snowflake-arctic-embed2 qwen3-embedding-0.6b",
    1536: "text-embedding-3-small text-embedding-ada-002",
    2560: "qwen3-embedding-4b",
    3072: "text-embedding-3-large",
    4096: "qwen3-embedding qwen3-embedding-8b",
}
_DIMENSIONS = {name: size for size, names in _MODELS_BY_DIMENSIONS.items() for name in names.split()}

# Prefixes that each family was trained with before a document and before a question (from its model card); the first
# pattern found in the name counts, because servers decorate names: "text-embedding-nomic-embed-text-v1.5".
_BGE_PREFIX = "Represent this sentence for searching relevant passages: "
_PREFIXES: tuple[tuple[str, str, str], ...] = (
    (r"nomic-embed-text", "search_document: ", "search_query: "),
    (r"qwen3-embedding", "", "Instruct: Given a question, retrieve memories that answer it\nQuery:"),
    (r"embeddinggemma", "title: none | text: ", "task: search result | query: "),
    (r"snowflake-arctic-embed(?:2|.*-v2)", "", "query: "),
    (r"snowflake-arctic-embed|mxbai-embed-large|bge-(?:small|base|large)(?!-zh)", "", _BGE_PREFIX),
    (r"\be5-(?:small|base|large)(?!.*instruct)", "passage: ", "query: "),
)

_MIN_CUT_CHARACTERS = 200  # a model that refuses even so short a text has another problem
# Seconds in which a server that refuses is asked again: for long work, and where somebody waits for the answer.
_LONG_PATIENCE, _SHORT_PATIENCE = 120.0, 0.5


class _RemoteEmbedder(ABC):
    """
    An embedding model behind HTTP: prepares texts, sends them in batches, and reads vectors.

    `timeout` is in seconds for one attempt, `retries` the most attempts after the first, and `batch` the most texts
    in one request; `dimensions` asks the server for shorter vectors, where the model can make them.
    """

    _service: ClassVar[Service]
    example: ClassVar[str]  # a model, for whoever names none
    _path: ClassVar[str]
    _options: ClassVar[JsonObject]
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
            raise ConfigError(f"no model is named: write {self._service.name}:MODEL")
        self._client = ModelClient(
            self._service,
            model,
            environ=environ,
            timeout=timeout or self._timeout,
            error=_make_error,
            sleep=sleep,
            base_url=base_url,
            api_key=api_key,
        )
        self._retries, self._batch_size = max(0, retries), batch or self._batch
        self._payload: JsonObject = {"model": model, **self._options}
        if dimensions is not None:
            self._payload["dimensions"] = dimensions
        family = model.lower().rpartition("/")[2].removesuffix(":latest").replace(":", "-")
        self._dimensions = dimensions or _DIMENSIONS.get(family)
        self.document_prefix, self.query_prefix = next(
            ((document, query) for pattern, document, query in _PREFIXES if re.search(pattern, family)), ("", "")
        )
        self._cached_query = functools.lru_cache(256)(self._embed_query)

    @property
    def model_id(self) -> str:
        return self._client.name

    @property
    def dimensions(self) -> int:
        """The length of a vector; of a model that is not well known, learnt by embedding one word."""
        if self._dimensions is None:  # reading the answer also sets the size
            return int(self._send(["dimensions"], _SHORT_PATIENCE).shape[1])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector a document, in order; wait for a server that is busy or away."""
        return self._embed(texts, _LONG_PATIENCE)

    def embed_promptly(self, texts: Sequence[str]) -> Vectors:
        """Return one vector a document, but do not wait for a server that refuses: the texts can be embedded later."""
        return self._embed(texts, _SHORT_PATIENCE)

    def _embed(self, texts: Sequence[str], patience: float) -> Vectors:
        ready = [self._prepare(text, self.document_prefix) for text in texts]
        batches = _split_batches(ready, self._batch_size, self._batch_chars)
        vectors = [self._send(batch, patience) for batch in batches]
        return np.concatenate(vectors) if vectors else np.empty((0, self._dimensions or 0), np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a question, from a cache for the last few hundred."""
        return self._cached_query(text)

    def close(self) -> None:
        """Close the kept connections; a later call opens new ones."""
        self._client.close()

    def _embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._send([self._prepare(text, self.query_prefix)], _SHORT_PATIENCE)[0]
        vector.setflags(write=False)  # all callers get the same array
        return vector

    def _prepare(self, text: str, prefix: str) -> str:
        # Through UTF-16, halves of a surrogate pair are joined and a lone one becomes U+FFFD: JSON can carry neither.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return prefix + text[: self._max_chars] or " "  # servers refuse an empty text

    def _send(self, texts: list[str], patience: float) -> Vectors:
        """Embed the texts of one request; where they are too long for the model, in halves, then shortened."""
        if message := self._client.missing_key:
            raise EmbedderUnavailable(message)
        try:
            answer = self._client.post(
                self._path, {**self._payload, "input": texts}, RetryPolicy(self._retries, patience)
            )
            return self._read_vectors(answer, len(texts))
        except _TextTooLong as exc:
            too_long = exc
        if len(texts) > 1:
            half = len(texts) // 2
            return np.concatenate([self._send(texts[:half], patience), self._send(texts[half:], patience)])
        if len(texts[0]) > _MIN_CUT_CHARACTERS:
            return self._send([texts[0][: len(texts[0]) // 2]], patience)
        raise too_long

    def _read_vectors(self, answer: JsonObject | None, count: int) -> Vectors:
        rows: list[Any] | None
        try:
            rows = self._rows(answer or {})
            sizes = {len(row) for row in rows}
            vectors = np.asarray(rows if len(sizes) == 1 else [], np.float32)
        except (LookupError, TypeError, ValueError, AttributeError):
            rows = None  # raised below, without a context that may quote the answer
        if rows is None:
            raise EmbedderError(f"{self._client.url} did not answer with embeddings: check {self._service.url_setting}")
        if len(rows) != count:
            raise EmbedderError(f"{self.model_id} returned {len(rows)} vectors for {count} texts")
        expected = self._dimensions or max(sizes)
        if not expected or vectors.shape != (count, expected):
            raise EmbedderError(f"{self.model_id} returned vectors of size {sorted(sizes)}, expected {expected}")
        self._dimensions = expected
        return vectors

    @abstractmethod
    def _rows(self, answer: JsonObject) -> list[Any]:
        """Return the vectors of an answer, in the order of the texts."""


OPENAI = Service("openai", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY", key_host="api.openai.com")


class OpenAIEmbedder(_RemoteEmbedder):
    """Models of OpenAI (which needs a key), or of any server that speaks its API: LM Studio, vLLM, llama.cpp."""

    _service, _path, example = OPENAI, "/embeddings", "text-embedding-3-small"
    _options: ClassVar[JsonObject] = {"encoding_format": "float"}
    # OpenAI takes 8,192 tokens a text, 2,048 texts and 300,000 tokens a request. English has 3 to 4 characters a
    # token, other scripts down to 1 and less; what is still too much is halved when the server says so.
    _timeout, _batch, _batch_chars, _max_chars = 30.0, 256, 150_000, 24_000

    def _rows(self, answer: JsonObject) -> list[Any]:
        rows = {item.get("index", position): item["embedding"] for position, item in enumerate(answer["data"])}
        return [rows[position] for position in range(len(answer["data"]))]


def _complete_ollama_url(value: str) -> str:
    """Read OLLAMA_HOST as Ollama does; for a server that listens on every address, use the loopback address."""
    scheme, has_scheme, rest = value.rpartition("://")
    authority, slash, path = rest.partition("/")
    user, at, authority = authority.rpartition("@")
    if authority.count(":") > 1 and "[" not in authority:
        authority = f"[{authority}]"
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, ""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    port = port or ("" if has_scheme else "11434")
    return f"{scheme or 'http'}://{user}{at}{host}{':' if port else ''}{port}{slash}{path}"


OLLAMA = Service(
    "ollama",
    "127.0.0.1",
    "OLLAMA_HOST",
    "OLLAMA_API_KEY",
    "run `ollama pull {model}`",
    "start it with `ollama serve`, or set OLLAMA_HOST",
    complete_url=_complete_ollama_url,
)


class OllamaEmbedder(_RemoteEmbedder):
    """Models that Ollama serves, at `base_url` or OLLAMA_HOST (which may lack scheme and port), else this machine."""

    _service, _path, example = OLLAMA, "/api/embed", "nomic-embed-text"
    _options: ClassVar[JsonObject] = {"truncate": True}
    # A batch is small because a large model on a CPU takes seconds a text, and all of it must fit the time-out.
    _timeout, _batch, _batch_chars, _max_chars = 60.0, 16, 32_000, 8_000

    def _rows(self, answer: JsonObject) -> list[Any]:
        return list(answer["embeddings"])


PROVIDERS: Mapping[str, type[_RemoteEmbedder]] = {"openai": OpenAIEmbedder, "ollama": OllamaEmbedder}  # by setting


class _TextTooLong(EmbedderError):
    """The texts of a request are more than the model takes."""


def _make_error(message: str, failure: Failure | None) -> EmbedderError:
    if failure and failure.too_long:
        return _TextTooLong(message)
    unavailable = failure and (failure.temporary or failure.status in (401, 403, 404))
    return EmbedderUnavailable(message) if unavailable else EmbedderError(message)


def _split_batches(texts: Sequence[str], max_texts: int, max_chars: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= max_texts or size + len(text) > max_chars):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
