"""Every request gets an answer, whatever its bytes, and the server goes on working: over a real process."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_processes import Server, started

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("answers") / "memory.db") as server:
        yield server


@pytest.fixture
def server(process: Server) -> Iterator[Server]:
    """One server for all, which works on after each."""
    yield process
    assert process.call("memory_add", content="still there")["id"]


def answer(server: Server, line: bytes) -> dict[str, Any]:
    assert server.process.stdin is not None
    server.process.stdin.write(line + b"\n")
    server.process.stdin.flush()
    return server.hear()


def call_line(tool: str, arguments: str, id: str = '"x"') -> bytes:
    params = f'{{"name": "{tool}", "arguments": {arguments}}}'
    return f'{{"jsonrpc": "2.0", "id": {id}, "method": "tools/call", "params": {params}}}'.encode()


@pytest.mark.parametrize(
    "line",
    [
        b"not json", b'{"jsonrpc": "2.0", "id": 7, "method": "ping"', b"\xff\xfe", b"\x00", b"{]", b"[" * 100_000,
        b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}}', b"nonsense " * 1_000_000,
    ],
    ids=lambda line: repr(line[:20]),
)  # fmt: skip
def test_what_is_no_json_is_a_parse_error(server: Server, line: bytes) -> None:
    heard = answer(server, line)

    assert (heard["id"], heard["error"]["code"]) == (None, PARSE_ERROR)


@pytest.mark.parametrize(
    "line",
    [
        b"{}", b"[]", b"null", b"5", b'"ping"', b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}',
        b'{"jsonrpc": "2.0", "method": 1}',
    ],
)  # fmt: skip
def test_what_is_no_message_or_has_no_proper_id_is_an_invalid_request(server: Server, line: bytes) -> None:
    heard = answer(server, line)

    assert (heard["id"], heard["error"]["code"]) == (None, INVALID_REQUEST)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": "a", "method": 1}', b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": 5}',
        b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": [1]}', b'{"id": "a", "method": "ping"}',
        b'{"jsonrpc": "1.0", "id": "a", "method": "ping"}', b'{"jsonrpc": "2.0", "id": "a"}',
        b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "error": {"code": 1, "message": "x"}}',
    ],
)  # fmt: skip
def test_a_request_that_is_wrong_is_answered_by_its_id(server: Server, line: bytes) -> None:
    heard = answer(server, line)

    assert (heard["id"], heard["error"]["code"]) == ("a", INVALID_REQUEST)


@pytest.mark.parametrize(
    "id", ['""', "0", "-1", "123456789012345678901234567890", '"' + "long" * 10_000 + '"', '"é\\u0000"']
)
def test_an_id_comes_back_as_it_was(server: Server, id: str) -> None:
    heard = answer(server, call_line("memory_search", '{"query": "x"}', id))

    assert heard["id"] == json.loads(id)


def test_each_request_of_a_batch_is_refused_by_its_id(server: Server) -> None:
    batch = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (1, "two")]
    first, second = answer(server, json.dumps([*batch, {"jsonrpc": "2.0", "method": "x"}]).encode()), server.hear()

    assert [(heard["id"], heard["error"]["code"]) for heard in (first, second)] == [
        (1, INVALID_REQUEST),
        ("two", INVALID_REQUEST),
    ]


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00", "a\\udfffb", "\\ud83d\\ud83d\\ude00", "\\udead\\ubeef"])
def test_half_of_a_surrogate_pair_is_replaced_as_everywhere(server: Server, text: str) -> None:
    added = answer(server, call_line("memory_add", f'{{"content": "half {text} of a pair"}}'))
    searched = answer(server, call_line("memory_search", f'{{"query": "{text} pair"}}'))
    refused = answer(server, call_line("memory_get", f'{{"ids": ["{text}"], "{text}": 1}}'))

    assert [added["id"], searched["id"], refused["id"]] == ["x", "x", "x"]
    assert not added["result"]["isError"]
    assert any("\ufffd" in hit["snippet"] for hit in searched["result"]["structuredContent"]["results"])
    assert refused["result"]["isError"]


def test_an_id_with_half_of_a_surrogate_pair_is_answered_too(server: Server) -> None:
    heard = answer(server, b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}')

    assert heard["id"] == "\ufffd"


@pytest.mark.parametrize("method", [b"tools/\xff\xfe", b"no/such", b""])
def test_an_unknown_method_is_not_found(server: Server, method: bytes) -> None:
    heard = answer(server, b'{"jsonrpc": "2.0", "id": 9, "method": "%s"}' % method)

    assert (heard["id"], heard["error"]["code"]) == (9, METHOD_NOT_FOUND)


@pytest.mark.parametrize(
    "params",
    ['{}', '{"name": 5}', '{"name": "no_such_tool"}', '{"name": "memory_search", "arguments": []}', '{"uri": 5}'],
)  # fmt: skip
def test_wrong_parameters_are_an_error(server: Server, params: str) -> None:
    heard = answer(server, f'{{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {params}}}'.encode())

    assert (heard["id"], heard["error"]["code"]) == (9, INVALID_PARAMS)


def test_a_huge_request_is_answered(server: Server) -> None:
    heard = answer(server, call_line("memory_add", json.dumps({"content": "x" * 20_000_000})))

    assert heard["id"] == "x"
    assert heard["result"]["isError"]


def test_an_empty_line_is_nothing(server: Server) -> None:
    heard = answer(server, b'\n  \r\n{"jsonrpc": "2.0", "id": 3, "method": "ping"}\r')

    assert heard["id"] == 3
