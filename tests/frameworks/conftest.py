"""Fixtures of the framework suites: a memory, and a machine that nothing leaves."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

import memorist

hypothesis.settings.register_profile("frameworks", deadline=None)
hypothesis.settings.load_profile("frameworks")
LOOPBACK = ("127.", "::1", "localhost")
_connect = socket.socket.connect


def _connect_to_loopback(self: socket.socket, address: object) -> None:
    if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
        raise AssertionError(f"a framework opened a connection to {address}")
    _connect(self, address)


socket.socket.connect = _connect_to_loopback  # before any framework is imported
os.environ.update(
    AGENT_FRAMEWORK_USER_AGENT_DISABLED="true",
    HAYSTACK_TELEMETRY_ENABLED="False",
    LANGSMITH_TRACING="false",
    LANGCHAIN_TRACING_V2="false",
    OPENAI_AGENTS_DISABLE_TRACING="1",
)


class HashedWords:
    """A quick embedding model: the words of a text, hashed. The real one takes a second to load in each test."""

    model_id, dimensions = "hashed-words", 64

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [self._embed_one(text) for text in texts]

    def _embed_one(self, text: str) -> list[float]:
        vector = [0.01] * self.dimensions
        for word in text.lower().split():
            vector[sum(word.encode()) % self.dimensions] += 1.0
        return vector


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[memorist.Memorist]:
    with memorist.open(path, embedder=HashedWords()) as opened:
        yield opened
