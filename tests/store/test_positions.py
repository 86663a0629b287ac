"""Memories know their position in the session they were created in."""

from pathlib import Path

import apsw
import pytest

import memorist
from memorist.engine import Memorist

DEPLOY = (
    "Which command ships the code to production?",
    "It is make ship.",
    "Thanks, that worked on the first attempt.",
)
HARBOUR = (
    "Who gave the ship in the harbour its code name?",
    "The ship has a code name since May.",
    "Nobody knows why.",
)
SEQUENTIAL = [*(("deploy", turn) for turn in DEPLOY), *(("harbour", turn) for turn in HARBOUR)]
ALTERNATING = [SEQUENTIAL[at] for at in (0, 3, 1, 4, 2, 5)]
QUERY = "which command ships the code"


def write(memory: Memorist, turns: list[tuple[str, str]]) -> None:
    for conversation, text in turns:
        memory.sessions.add_turn("user", text, conversation=conversation)


def positions(path: Path) -> list[tuple[str, int | None]]:
    database = apsw.Connection(str(path))
    sql = """
        select m.content, u.position from session_memories u join memories m on m.rid = u.rid
        where u.usage = 'created' order by u.sid, u.position
    """
    try:
        return list(database.execute(sql))
    finally:
        database.close()


@pytest.mark.parametrize("turns", [SEQUENTIAL, ALTERNATING], ids=["one after the other", "turn by turn"])
def test_short_turns_beside_the_answer_rise_however_two_conversations_were_written(
    memory: Memorist, turns: list[tuple[str, str]]
) -> None:
    write(memory, turns)

    assert [hit.memory.content for hit in memory.search(QUERY)][:3] == list(DEPLOY)


def test_each_session_counts_its_own(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        write(memory, ALTERNATING)
        session = memory.sessions.start("api")
        memory.add("A note without a session")
        for text in ("first", "second"):
            memory.add(text, session=session.id)
        memory.add("first", session=session.id)  # known already: reinforced, not created
        memory.add("third", session=session.id)

    expected = [*zip(DEPLOY, (1, 2, 3), strict=True), *zip(HARBOUR, (1, 2, 3), strict=True)]
    assert positions(path) == [*expected, ("first", 1), ("second", 2), ("third", 3)]


def test_an_import_makes_them_again(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        write(memory, ALTERNATING)
        memory.transfer.export(tmp_path / "all.jsonl")
    other = tmp_path / "other.db"
    with memorist.open(other, embedder="none") as memory:
        memory.transfer.import_(tmp_path / "all.jsonl")
        memory.transfer.export(tmp_path / "again.jsonl")

        assert [hit.memory.content for hit in memory.search(QUERY)][:3] == list(DEPLOY)
    assert positions(other) == positions(path)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()
