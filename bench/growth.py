"""
Measure every read, and some writes, while one thing grows: a chain of supersessions, the facts of a memory, its links,
versions and recalls, the turns of a session, the tags, sessions, near-identical texts, and the recall log.

    .venv/bin/python bench/growth.py                                  # a column: milliseconds with 5,000 of each
    .venv/bin/python bench/growth.py --sizes 500,5000                 # two columns, and their ratio
    .venv/bin/python bench/growth.py --before ../other/src            # beside another checkout, and their ratio

With ten times as many, a read of one page should take about as long, and one that reads all of it ten times as long.
Each number is the shortest of several runs. The two checkouts are measured in turns, each in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import memorist

RUNS = 3
NOW = 1_780_000_000_000_000  # a time as the database keeps it, in 2026
PREFIXES = "the* deploy* of* serv* numb* was* don* by* ann* on* mon*"
Calls = dict[str, Callable[[], object]]


def plant_chain(memory: Any, count: int) -> Calls:
    ids = memory.add_many([{"content": f"deploy number {n}", "created_at": "2026-01-01"} for n in range(count)])
    keys = _list_keys(memory)
    links = [(keys[new], keys[old]) for old, new in pairwise(ids)]
    _execute(memory, _INSERT_RELATION.format("supersedes"), links)
    return {
        "timeline": lambda: memory.timeline(start="2025", end="2027"),
        "timeline around one": lambda: memory.timeline(anchor=ids[count // 2]),
        "get": lambda: memory.get(ids[0]),
        "list": lambda: memory.list(limit=1000),
        "search": lambda: memory.search("deploy", include_superseded=True),
        "as_of": lambda: memory.list(limit=100, as_of="2027-01-01"),
        "related": lambda: memory.related(ids[0]),
        "replaced": lambda: memory.links.replaced(ids[-1]),
        "briefing": memory.briefing,
        "stats": memory.stats,
    }


def plant_facts(memory: Any, count: int) -> Calls:
    id = memory.add("a memory with facts", facts=[f"fact {n} of the server" for n in range(min(count, 990))]).id
    number = iter(range(1_000_000))
    return {
        "add_fact": lambda: memory.facts.remove(memory.facts.add(id, f"new {next(number)}").id),
        "change a fact": lambda: memory.facts.add(id, "fact 1 of the server", confidence=0.5),
        "get": lambda: memory.get(id),
        "search": lambda: memory.search("server"),
        "history": lambda: memory.history(id),
        "list by fact": lambda: memory.list(fact_kind="kv"),
    }


def plant_links(memory: Any, count: int) -> Calls:
    ids = memory.add_many([f"note {n} about tea" for n in range(count + 1)])
    keys = _list_keys(memory)
    _execute(memory, _INSERT_RELATION.format("about"), [(keys[ids[0]], keys[id]) for id in ids[1:]])
    return {
        "related": lambda: memory.related(ids[0]),
        "get": lambda: memory.get(ids[0]),
        "list": lambda: memory.list(limit=50),
        "search": lambda: memory.search("tea"),
        "relate": lambda: memory.links.add(ids[0], ids[1], "again"),
    }


def plant_versions(memory: Any, count: int) -> Calls:
    id = memory.add("version 0").id
    for n in range(count):
        memory.update(id, content=f"version {n + 1}")
    return {
        "history": lambda: memory.history(id),
        "get": lambda: memory.get(id),
        "as_of": lambda: memory.get(id, as_of="2027-01-01"),
        "search as_of": lambda: memory.search("version", as_of="2027-01-01"),
    }


def plant_recalls(memory: Any, count: int) -> Calls:
    id = memory.add("the badger digs").id
    key = _list_keys(memory)[id]
    _execute(
        memory,
        """
        insert into recalls(recall, id, namespace, at, query, mode, profile)
        values (?, ?, 'default', ?, 'q', 'hybrid', 'balanced')
        """,
        [(n, f"r{n}", NOW + n) for n in range(1, count + 1)],
    )
    _execute(
        memory,
        "insert into recalled(recall, place, rid, score, relevance, facts, prompt) values (?, 1, ?, 1, 1, '[]', ?)",
        [(n, key, "p" * 700) for n in range(1, count + 1)],
    )
    return {
        "recalls": memory.recalls,
        "recalls of one": lambda: memory.searches.list(memory=id),
        "get": lambda: memory.get(id),
        "as_of": lambda: memory.get(id, as_of="2027-01-01"),
        "feedback": lambda: memory.searches.add_feedback(id, True),
        "stats": memory.stats,
    }


def plant_turns(memory: Any, count: int) -> Calls:
    memory.sessions.start(id="long")
    ids = memory.add_many([{"content": f"turn {n} about tea", "session": "long", "kind": "turn"} for n in range(count)])
    return {
        "session": lambda: memory.sessions.get("long"),
        "sessions": memory.sessions,
        "list of it": lambda: memory.list(session="long", limit=50),
        "search in it": lambda: memory.search("tea", session="long"),
        "search": lambda: memory.search("tea"),
        "timeline around one": lambda: memory.timeline(anchor=ids[count // 2]),
        "session_context": lambda: memory.sessions.context_of(ids[0]),
        "context": lambda: memory.context("what about tea?"),
        "briefing": memory.briefing,
        "add_turn": lambda: memory.sessions.add_turn("user", "another", conversation="c"),
    }


def plant_sessions(memory: Any, count: int) -> Calls:
    sql = "insert into sessions(id, namespace, project, started_at, summary) values (?, 'default', 'p', ?, 'it')"
    _execute(memory, sql, [(f"session-{n}", NOW + n) for n in range(count)])
    id = memory.add("one of them", session="session-1").id
    return {
        "sessions": memory.sessions,
        "session": lambda: memory.sessions.get("session-1"),
        "briefing": memory.briefing,
        "session_context": lambda: memory.sessions.context_of(id),
        "stats": memory.stats,
    }


def plant_tags(memory: Any, count: int) -> Calls:
    memory.add_many([{"content": f"note {n}", "tags": [f"tag{n}", "all"], "project": f"p{n}"} for n in range(count)])
    return {
        "facets": memory.facets,
        "list by tag": lambda: memory.list(tags=["tag7"]),
        "search by tag": lambda: memory.search("note", tags=["tag7"]),
        "stats": memory.stats,
        "duplicates": memory.duplicates,
    }


def plant_alike(memory: Any, count: int) -> Calls:
    memory.add_many([f"the deploy of server number {n} was done by anna on a monday" for n in range(10 * count)])
    message = "\n".join((PREFIXES, f"{PREFIXES} d*", f"{PREFIXES} x*"))
    return {
        "search": lambda: memory.search(message),
        "context": lambda: memory.context(message),
        "search above .5": lambda: memory.search(message, min_relevance=0.5),
        "add": lambda: memory.add("a note of its own that nobody wrote before"),
    }


PLANTS = {name.removeprefix("plant_"): plant for name, plant in list(globals().items()) if name.startswith("plant_")}
_INSERT_RELATION = (
    f"insert into relations(source, target, kind, confidence, valid_from) values (?, ?, '{{}}', 1, {NOW})"
)


def _list_keys(memory: Any) -> dict[str, int]:
    with memory._resources.store._pool.reading() as connection:
        return dict(connection.fetch("select id, rid from memories"))


def _execute(memory: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    with memory._resources.store._pool.writing() as connection:
        for row in rows:
            connection.execute(sql, row)


def measure(name: str, count: int) -> Iterator[tuple[str, float]]:
    """Yield the milliseconds of each call, with so many planted."""
    with memorist.open(":memory:", embedder="none") as memory:
        for call, function in PLANTS[name](memory, count).items():
            taken = []
            for _ in range(RUNS):
                start = time.perf_counter()
                function()
                taken.append(time.perf_counter() - start)
            yield f"{name}: {call}", min(taken) * 1000


def run(source: str | None, name: str, count: int) -> dict[str, float]:
    """Measure in a process of its own, with this package or another checkout of it."""
    environment = os.environ | ({"PYTHONPATH": str(Path(source).resolve())} if source else {})
    command = [sys.executable, __file__, "--measure", name, "--sizes", str(count)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="5000", help="how many of each, separated by commas")
    parser.add_argument("--before", help="the folder src of another checkout")
    parser.add_argument("--only", default=",".join(PLANTS), help="what grows, separated by commas")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.measure:
        print(json.dumps(dict(measure(options.measure, sizes[0]))))
        return
    columns = [("before", options.before, sizes[-1])] * bool(options.before) + [(f"{n:,}", None, n) for n in sizes]
    print(f"{'':36}" + "".join(f"{title:>12}" for title, _, _ in columns) + "       ratio")
    for name in options.only.split(","):
        found = [run(source, name, count) for _, source, count in columns]
        for call in found[-1]:
            cells = [column[call] for column in found]
            ratio = f"{cells[-1] / cells[0]:>12.2f}" if len(cells) > 1 else ""
            print(f"{call:36}" + "".join(f"{cell:>9.1f} ms" for cell in cells) + ratio, flush=True)


if __name__ == "__main__":
    main()
