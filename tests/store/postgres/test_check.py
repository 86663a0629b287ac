"""Checks on PostgreSQL of what follows from other rows: each kind of damage is found, named and repaired."""

import pytest

import memorist
from conftest import HashingEmbedder
from postgres_fixtures import connect


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("update session_memories set position = 7", "sessions: the positions in ses-one are not in order"),
        ("update memories set facts = 'other' where facts is not null", "facts: the facts of "),
        ("update memories set valid_until = 5", "relations: "),
        ("delete from vectors", "vectors: 2 memories have no vector"),
        ("delete from memory_tags", "tags: those of memory"),
        ("update vocabulary set count = count + 1", "full text:"),
    ],
)
def test_damage_is_found_and_repaired(postgres_url: str, damage: str, problem: str) -> None:
    with memorist.open(postgres_url, embedder=HashingEmbedder()) as memory:
        memory.sessions.start(id="ses-one")
        memory.add("We deploy with make ship", tags=["ops"], session="ses-one")
        memory.add("We test with make test", session="ses-one", facts=[{"text": "by make"}])
        with connect(postgres_url) as connection:
            connection.execute(damage)

        report = memory.check()
        assert any(one.startswith(problem) for one in report.problems), report.problems
        assert memory.check(repair=True).ok
        assert memory.check().problems == ()
