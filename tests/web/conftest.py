"""A server over a memory, and clients of it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import memorist
from memorist import Memorist
from web_server import TOKEN, WebServer, web_server


@pytest.fixture
def server(empty_target: Path | str) -> Iterator[WebServer]:
    """The real server, over an empty memory in a file or on a PostgreSQL server."""
    with web_server(empty_target) as running:
        yield running


@pytest.fixture
def remote(server: WebServer) -> Iterator[Memorist]:
    """The memory behind the server, by the Python client."""
    with memorist.connect(server.url, token=TOKEN) as connected:
        yield connected
