"""Several lives at once: threads of two processes add, replace, recall and end sessions in one file. All is kept."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import memorist
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist
from memorist.engine import recorder
from processes import expect, send_line, start_program, wait_for_end
from timeouts import MAX_WAIT_SECONDS

PROCESSES, THREADS = 2, 3
EVERYBODY = "said by everybody"

WORKER = """
    import json, sys, memorist
    from conftest import HashingEmbedder
    from test_lifecycle_threads import lives
    with memorist.open(sys.argv[1], embedder=HashingEmbedder(), synchronous="normal") as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        told = lives(memory, sys.argv[2], sys.argv[3], int(sys.argv[4]))
    print(json.dumps([told, memory.searches.lost]))
"""


def lives(memory: Memorist, process: str, contested: str, rounds: int) -> list[dict[str, Any]]:
    """What each thread of a process did, and was told that it was done."""
    with ThreadPoolExecutor(THREADS) as threads:
        names = [f"worker{process}x{number}" for number in range(THREADS)]
        return list(threads.map(lambda name: live(memory, name, contested, rounds), names, timeout=MAX_WAIT_SECONDS))


def live(memory: Memorist, name: str, contested: str, rounds: int) -> dict[str, Any]:
    session = memory.sessions.start(id=f"session of {name}").id
    told: dict[str, Any] = {"name": name, "session": session, "replaced": {}, "texts": {}, "won": []}
    for number in range(rounds):
        old = memory.add(f"{name} held {number} to be true", session=session, on_near_duplicate="off")
        new = memory.add(f"{name} knows better than {number}", session=session, facts=[f"{name} noted {number}"])
        told["texts"] |= {old.id: old.content, new.id: new.content}
        memory.supersede(old.id, new.id)
        told["replaced"][old.id] = new.id
        memory.links.add(new.id, contested, "about")
        memory.add(EVERYBODY)
        memory.search(f"{name} everybody", mode="keyword", record="reinforce", record_session=session, limit=1000)
        try:
            memory.supersede(contested, new.id)
            told["won"].append(new.id)
        except InvalidInput:
            pass  # somebody was first
    memory.sessions.end(session, f"{name} is done")
    with pytest.raises(InvalidInput, match="ended on"):
        memory.add(f"{name} came too late", session=session)
    return told


@pytest.mark.parametrize("rounds", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_lives_in_many_threads_and_processes_are_all_kept_whole(path: Path, rounds: int) -> None:
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        contested = memory.add("everything is contested").id
        shared = memory.add(EVERYBODY)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(start_program(WORKER, path, name, contested, rounds)) for name in range(PROCESSES)
        ]
        expect("ready", workers)
        for worker in workers:
            send_line(worker)
        endings = [wait_for_end(worker) for worker in workers]
    assert [code for code, _ in endings] == [0] * PROCESSES, endings
    printed = [json.loads(said) for _, said in endings]
    told = [one for lives, _ in printed for one in lives]
    assert [lost for _, lost in printed] == [0] * PROCESSES

    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        assert memory.check().problems == ()
        total = PROCESSES * THREADS * rounds
        stats = memory.stats()
        assert (stats.memories, stats.vectors, stats.pending) == (2 + 2 * total, 2 + 2 * total, 0)
        assert (stats.sessions, stats.recalls, stats.facts) == (PROCESSES * THREADS, total, total)
        for one in told:
            check_life(memory, one, rounds)
        check_what_all_did(memory, told, contested, shared.id, total)


def check_life(memory: Memorist, told: dict[str, Any], rounds: int) -> None:
    """Everything that one of them was told to be done is there."""
    texts, replaced = told["texts"], told["replaced"]
    assert {one.id: one.content for one in memory.get(list(texts))} == texts
    for old, new in replaced.items():
        before = memory.get(old)
        assert before.superseded_by is not None
        assert before.superseded_by.id == new
        assert before.valid_until is not None
        assert before.valid_until >= before.recorded_at
        assert [fact.text.split()[0] for fact in memory.get(new).facts] == [told["name"]]
    session = memory.sessions.get(told["session"])
    assert (session.summary, session.ended_at is not None) == (f"{told['name']} is done", True)
    assert set(texts) <= {one.id for one in memory.list(session=session.id, limit=1000)}
    recalls = memory.searches.list(session=session.id, limit=1000)
    assert [recall.query for recall in recalls] == [f"{told['name']} everybody"] * rounds
    # The first was made when there was one memory to be found by its name, and each later one found one more.
    named = [sum(memory_id.id in texts for memory_id in recall.memories) for recall in reversed(recalls)]
    assert named == list(range(1, rounds + 1))


def check_what_all_did(memory: Memorist, told: list[dict[str, Any]], contested: str, shared: str, total: int) -> None:
    """What they did to the same memories has happened as often as they did it."""
    winners = [id for one in told for id in one["won"]]
    successor = memory.get(contested).superseded_by
    assert successor is not None
    assert winners == [successor.id]
    related = memory.related(contested, limit=1000)
    assert Counter(one.relation.kind for one in related if one.relation) == {"about": total}

    everybody = memory.get(shared)
    recalled = len(memory.searches.list(memory=shared, limit=100_000))
    assert everybody.access_count == recalled == total
    # Each took its share of what was missing to 1, in whatever order: none was lost.
    assert everybody.salience == pytest.approx(1 - 0.5 * 0.9**total * 0.98**recalled)


def test_what_another_process_recalled_in_a_session_before_it_ended_belongs_to_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "BATCH_DELAY", 60.0)
    with memorist.open(path, embedder="none") as memory:
        one = memory.add("the one thing to know")
        session = memory.sessions.start().id
        with memorist.open(path, embedder="none") as other:
            other.search("one thing", record="log", record_session=session)
            memory.sessions.end(session)

        assert [recall.query for recall in memory.searches.list()] == ["one thing"]
        assert [recall.query for recall in memory.searches.list(session=session)] == ["one thing"]
        assert [each.id for each in memory.list(session=session)] == [one.id]
