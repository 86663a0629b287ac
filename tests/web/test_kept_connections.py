"""Connections of a remote memory: kept between calls, given up where they must be, and never shared by a fork."""

import errno
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import memorist
from memorist import Memorist
from memorist.errors import StoreError
from processes import FORK_OPTIONS, forks, start_program, wait_for_end


class Answering(ThreadingHTTPServer):
    """A server that answers every request with an empty object, and knows the connections that they came on."""

    daemon_threads = True

    def __init__(self, *, hangs_up: bool = False) -> None:
        self.connections: list[int] = []
        connections = self.connections

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_DELETE(self) -> None:
                connections.append(self.client_address[1])
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")
                self.close_connection = hangs_up

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[Answering]:
    with Answering(hangs_up=getattr(request, "param", False)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_connection_is_kept_for_the_next_call(answering: Answering) -> None:
    with memorist.connect(answering.url) as remote:
        remote.forget("abcdef")
        remote.forget("abcdef")

    assert len(answering.connections) == 2
    assert len(set(answering.connections)) == 1


@pytest.mark.parametrize("answering", [True], indirect=True)
def test_one_that_the_server_has_closed_is_replaced(answering: Answering) -> None:
    with memorist.connect(answering.url) as remote:
        remote.forget("abcdef")
        remote.forget("abcdef")

    assert len(set(answering.connections)) == 2


FORKING = """
    import os, sys, memorist
    with memorist.connect(sys.argv[1]) as remote:
        remote.forget("abcdef")
        child = os.fork()
        if child == 0:
            remote.forget("abcdef")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        remote.forget("abcdef")
    print("done")
"""


@forks
def test_a_child_of_a_fork_opens_one_of_its_own(answering: Answering) -> None:
    with start_program(FORKING, answering.url, options=FORK_OPTIONS) as process:
        assert wait_for_end(process) == (0, "done\n")

    first, of_child, last = answering.connections
    assert first == last
    assert of_child != first


def test_a_closed_memory_asks_to_connect_again(answering: Answering) -> None:
    remote = memorist.connect(answering.url)
    remote.close()

    with pytest.raises(StoreError, match="connect again"):
        remote.forget("abcdef")
    assert answering.connections == []


class FullDisk:
    """A file on a disk that is full."""

    def write(self, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_not_taken_for_a_server_that_is_away(remote: Memorist) -> None:
    remote.add("the river froze")

    with pytest.raises(OSError, match="No space left"):
        remote.transfer.export(FullDisk())  # type: ignore[arg-type]
