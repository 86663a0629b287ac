"""Answers as JSON: the fast way gives what the plain one gives, for every record and every value."""

import json
from typing import Any

import pytest

import memorist
from memorist.present.codec import _find_expanded, _list_records, encode, encode_json
from memorist.web.operations import OPERATIONS


def plainly(value: Any) -> Any:
    return json.loads(json.dumps(encode(value), ensure_ascii=False).encode("utf-8", "replace"))


def test_an_answer_is_the_same_in_both_ways() -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        memory.sessions.start("api", id="s1")
        metadata = {"port": 443, "part": 0.1, "all": [None, True, {"deep": "é"}]}
        first = memory.add("the port is 443", session="s1", tags=["net"], metadata=metadata, facts=[{"text": "a port"}])
        memory.update(first.id, content="the port is 8443")
        memory.add("a day in May", created_at="2024-05-01T12:00:00+02:00")
        answers = [
            memory.search("port", explain=True), memory.list(), memory.get(first.id), memory.get([first.id, "nothing"]),
            memory.history(first.id), memory.timeline(), memory.stats(), memory.facets(), memory.sessions.list(),
            memory.review.compare("port", profiles=["balanced", "notes"]), memory.related(first.id), memory.check(),
            memory.facts.list(first.id), memory.context("port"), {"items": memory.search("day").hits},
        ]  # fmt: skip

    for answer in answers:
        assert json.loads(encode_json(answer)) == plainly(answer)
    assert json.loads(encode_json(answers[0]))["hits"][0]["is_superseded"] is False


@pytest.mark.parametrize("value", [2**70, -(2**70), "\ud800", 1e300, {"a": [2**64]}, (), None, "\u2028 </script>"])
def test_any_value_of_json_is_written(value: Any) -> None:
    assert json.loads(encode_json({"metadata": value})) == plainly({"metadata": value})


def test_the_records_of_every_operation_can_be_written() -> None:
    for operation in OPERATIONS:
        for record in _list_records(operation.returns):
            _find_expanded(record)
