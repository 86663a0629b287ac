"""
The API against its own description: whatever fits the OpenAPI document is answered as it says, and never with a 500.

A few cases of every operation run each time; `pytest -m slow tests/web/test_http_fuzz.py` runs 2,000.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import schemathesis.generation.jsonschema.strategy  # imported within a test, CPython 3.11 may fail in greenlets
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import one_of, sampled_from
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import memorist
from memorist.web.openapi import build_document
from memorist.web.operations import OPERATIONS, ServerCalls
from timeouts import MAX_WAIT_SECONDS
from web_server import TOKEN, WebServer, web_server

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
STREAMS = {"changes"}  # it has no end
FEW, MANY = 3, 28  # cases of each operation; 28 of each are more than 2,000


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with web_server(tmp_path_factory.mktemp("fuzz") / "memory.db") as running:
        with memorist.connect(running.url, token=TOKEN) as remote:
            ServerCalls(remote).import_sample()
        yield running


def list_known_ids(server: WebServer) -> dict[str, list[str]]:
    """Return ids that exist, by the first part of the paths they are used in."""
    with memorist.connect(server.url, token=TOKEN) as remote:
        memories = remote.list(limit=100)
        return {
            "memories": [memory.id for memory in memories],
            "facts": [fact.id for memory in memories for fact in memory.facts] or [memories[0].id],
            "sessions": [session.id for session in remote.sessions.list()] or [memories[0].id],
        }


def fuzz(server: WebServer, cases: int) -> int:
    """Send so many random requests of every operation, and return how many in all."""
    ids = list_known_ids(server)
    schema = schemathesis.openapi.from_dict(build_document())
    sent = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.definition.raw["operationId"] in STREAMS:
            continue
        # Half of the cases do not fit the description, where it can be contradicted.
        good, bad = (
            operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        )
        strategy = one_of(good, bad) if operation.body or operation.query else good

        @settings(
            max_examples=cases, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=strategy, known=sampled_from(ids.get(operation.path.split("/")[1], [None])))
        def check(case: Any, known: str | None) -> None:
            nonlocal sent
            sent += 1
            if known and "id" in case.path_parameters and sent % 2:
                case.path_parameters["id"] = known  # so that there is something to read and to change
            answer = case.call(
                base_url=server.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=MAX_WAIT_SECONDS
            )
            case.validate_response(answer, checks=CHECKS)

        check()
    return sent


def test_a_few_cases_of_every_operation_are_answered_as_described(fuzzed: WebServer) -> None:
    assert fuzz(fuzzed, FEW) >= len(OPERATIONS) - len(STREAMS)
    assert "Traceback" not in fuzzed.log.read_text()


@pytest.mark.slow
def test_two_thousand_cases_are_answered_as_described(fuzzed: WebServer) -> None:
    assert fuzz(fuzzed, MANY) >= 2000
    assert "Traceback" not in fuzzed.log.read_text()
