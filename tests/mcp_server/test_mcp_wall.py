"""
A server of one project answers as if no other project existed: every answer is compared with and without the others.

Two databases hold the same memories of the project `ours`, with the same ids and times. In one of them there is nothing
else. In the other are projects with the same words, near duplicates, misspelt words, ids with the same endings,
sessions, links, facts, pins, recalls and files. Each call is made to a server of each, and the answers are compared
byte for byte. Two things are replaced before that, because they differ between any two runs: ids that the server
itself makes up, and the time of writing (every time since the test began).
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_agents import Agent, serve_in_process

import memorist
from conftest import FailingEmbedder, HashingEmbedder
from memorist import Memorist

OURS, LIMIT = "ours", 1500
_GENERATED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_FRUIT = "apple pear plum quince medlar cherry damson bilberry sloe mulberry".split()


def id_of(name: str, number: int, start: str = "a") -> str:
    """An id that shares its beginning and its ending with ids of other projects, but neither within the project."""
    side = {"ours": "aaaa", "theirs": "bbbb", "nobody": "cccc", "ours-too": "dddd"}[name]
    return f"{start}0000{number:03}-0000-0000-{side}-0000fa11e{number:03}"


def our_id(number: int) -> str:
    return id_of("ours", number)


def fill_ours(memory: Memorist, folder: Path) -> None:
    session = memory.sessions.start(OURS, id="session-ours-1", summary="how we ship")
    for number in range(30):
        fruit = _FRUIT[number % len(_FRUIT)]
        memory.add(
            f"the {fruit} harvest number {number} is kept in barn {number % 7}; release {'daily ' * (number % 5)}done",
            id=our_id(number), project=OURS, created_at=f"2026-01-{number + 1:02}T10:00:00Z", on_near_duplicate="off",
            kind=("decision", "howto", None)[number % 3], tags=[fruit, "harvest"], source=f"diary/{number % 4}",
            title=f"about {fruit}", session=session.id if number % 2 else None,
            facts=[{"text": f"{fruit} grows in barn {number}", "kind": "place", "confidence": 0.9}],
        )  # fmt: skip
    turn = {"project": OURS, "session": session.id, "kind": "turn", "on_near_duplicate": "off"}
    for number, said in enumerate(["How do we ship the cherry?", "It is make ship.", "And who may do that?"]):
        memory.add(said, id=f"turn{number:03}-ours-said{number:03}", created_at=f"2026-02-0{number + 1}", **turn)
    memory.add("a long text about quince " + "and its jelly in a jar " * 400, id=our_id(40), project=OURS)
    memory.add("salary of the gardener is 7100 a month", id=our_id(41), project=OURS, created_at="2026-02-10")
    memory.add("salary of the cook is 6400", id=our_id(42), project=OURS, created_at="2026-02-11")
    memory.add("日本の林檎は青森県で育つ", id=our_id(43), project=OURS, created_at="2026-02-12")
    memory.supersede(our_id(0), our_id(10))
    memory.supersede(our_id(1), our_id(11))
    memory.forget(our_id(2))
    memory.update(our_id(3), content="the bilberry harvest was moved to the cellar")
    memory.update(our_id(4), tags=["moved"])
    memory.pin(our_id(5))
    memory.links.add(our_id(6), our_id(7), "supports")
    memory.search("harvest in the barn", project=OURS, record="reinforce", record_session=session.id)
    memory.searches.add_feedback(our_id(8), True, query="where is the sloe?")
    write_files(memory, folder / "ours-files", OURS, 3)


def fill_others(memory: Memorist, folder: Path) -> None:
    """Everything that could show through: more of the same words, closer matches, colliding ids, and links across."""
    for project in ("theirs", None, "ours-too"):
        name = project or "nobody"
        session = memory.sessions.start(project, id=f"session-{name}-1", summary="apple cherry quince secrets")
        memory.sessions.start(project, id=f"session-ours-1-{name}")
        for number in range(60):
            fruit = _FRUIT[number % 4]
            memory.add(
                f"the {fruit} harvest number {number} is kept in barn {number % 7} of {name} harvest {fruit} barn",
                id=id_of(name, number), project=project, on_near_duplicate="off",
                created_at=f"2026-01-{number % 28 + 1:02}T11:00:00Z", kind="decision", session=session.id,
                tags=[fruit, "harvest", "hidden"], facts=[{"text": f"{fruit} {name}", "kind": "place"}],
            )  # fmt: skip
            if project and number < 5:
                memory.search(f"{fruit} harvest", project=project, record="reinforce")
        # The same texts as ours; words one typo from those that are asked for; words ours has not.
        for number in range(8):
            memory.add(
                f"the {_FRUIT[number]} harvest number {number} is kept in barn {number % 7}; release "
                f"{'daily ' * (number % 5)}done",
                id=id_of(name, number, "b"),
                project=project,
                on_near_duplicate="off",
            )
        for number in range(95_000, 95_020):
            memory.add(
                f"salary of the owner of {name} is {number} harvst mulbery", project=project, on_near_duplicate="off"
            )
        memory.add(f"a zebra lives at {name}, quinces and quincy quinine", project=project)
        memory.add("how do we ship the cherry? make ship " * 3, project=project, kind="turn", session=session.id)
        memory.add("a text about quince " + f"jelly in a jar of {name} " * 300, project=project)
        memory.add(f"日本の林檎は{name}で育つ", project=project)
        first = id_of(name, 0)
        memory.pin(first)
        memory.supersede(id_of(name, 1), our_id(12))  # ours replaced one of theirs
        memory.supersede(id_of(name, 2), id_of(name, 3))
        memory.links.add(our_id(6), first, "explains")
        memory.update(first, content=f"a changed apple harvest of {name}")
        memory.forget(id_of(name, 4))
        if project:
            write_files(memory, folder / f"{name}-files", project, 9)


def fill_ours_later(memory: Memorist) -> None:
    """Memories with larger keys than those of the others."""
    for number in range(50, 60):
        memory.add(
            f"later we kept the {_FRUIT[number % 10]} in barn {number}", id=our_id(number), project=OURS,
            on_near_duplicate="off", created_at=f"2026-03-{number - 49:02}T09:00:00Z",
        )  # fmt: skip


def write_files(memory: Memorist, folder: Path, project: str, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        text = f"# The {_FRUIT[number]} guide\n\nThe {_FRUIT[number]} harvest needs a barn. {'More jam. ' * 40}\n"
        (folder / f"guide{number}.md").write_text(text, "utf-8")
    assert memory.documents.index(folder, project=project).added == count


@contextmanager
def opened(path: Path, embedder: Any) -> Iterator[Memorist]:
    with memorist.open(path, embedder=embedder, synchronous="normal") as memory:
        yield memory


class Wall:
    """Two servers of one project: alone, and among others."""

    def __init__(self, alone: Agent, among: Agent, began: str) -> None:
        self._agents, self._began = (alone, among), began
        self.differences: list[str] = []

    def compare(self, call: Callable[[Agent], Any]) -> str:
        """Make a call to both, note answers that differ, and return that of the server whose project is alone."""
        alone, among = (self._normalise(outcome(agent, call)) for agent in self._agents)
        if among != alone:
            self.differences.append(difference(alone, among))
        return alone

    def tool(self, name: str, **arguments: Any) -> str:
        return self.compare(lambda agent: agent.ask(name, **arguments))

    def _normalise(self, answer: str) -> str:
        seen: dict[str, str] = {}
        answer = _GENERATED_ID.sub(lambda match: seen.setdefault(match[0], f"GENERATED-{len(seen)}"), answer)
        return _TIME.sub(lambda match: match[0] if match[0] < self._began else "NOW", answer)


def difference(one: str, other: str) -> str:
    """Two answers from where they begin to differ, after some of what they share."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    shown = slice(max(0, same - 60), same + 90)
    return f"{one[shown]} <> {other[shown]}"


def outcome(agent: Agent, call: Callable[[Agent], Any]) -> str:
    try:
        answer = call(agent)
    except MCPError as exc:
        return f"refused: {exc} {exc.error.code} {exc.error.data}"
    return str(answer.model_dump_json() if hasattr(answer, "model_dump_json") else answer)


@pytest.fixture(params=["no vectors", "half without vectors"])
def wall(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Wall]:
    embedder: Any = "none" if request.param == "no vectors" else HashingEmbedder()
    away = FailingEmbedder()
    later = away if request.param == "half without vectors" else embedder
    alone, among = tmp_path / "alone.db", tmp_path / "among.db"
    with opened(alone, embedder) as memory:
        fill_ours(memory, tmp_path)
    shutil.copyfile(alone, among)
    with opened(among, later) as memory:
        fill_others(memory, tmp_path)
    for path in (alone, among):
        with opened(path, later) as memory:
            fill_ours_later(memory)
    away.broken = False
    began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    with serve(alone, embedder) as first, serve(among, embedder) as second:
        yield Wall(first, second, began)


def serve(path: Path, embedder: Any) -> Any:
    options = {"only_project": OURS, "answer_tokens": LIMIT}
    return serve_in_process(lambda: memorist.open(path, embedder=embedder), **options)


QUERIES = [
    *_FRUIT, "harvest", "apple harvest in the barn", "where is the cherry kept?", "barn 3", "release daily done",
    "9*", "95*", "950*", "7*", "71*", "salary", "salary 9*", "har*", "quin*", "harvst", "mulbery",
    "mulbery harvst barn", "zebra", "zebr*", "how do we ship", "make ship", "jelly in a jar", '"kept in barn"', "arves",
    "unknownword", "the of", "diary/2", "林檎", "青森", "apple pear plum quince medlar cherry damson",
    "what happened in January 2026?", "hidden", "nobody", "theirs", "C++",
    "a text about quince jelly in a jar of theirs", "the", "!!!", "barn AND NOT apple",
]  # fmt: skip
FILTERS: list[dict[str, Any]] = [
    {"kind": "decision"}, {"kind": "nothing"}, {"tags": ["harvest"]}, {"tags": ["hidden"]}, {"since": "2026-01-10"},
    {"until": "2026-01-05"}, {"as_of": "2026-01-15T12:00:00Z"}, {"as_of": "2025-01-01"}, {"include_superseded": True},
    {"limit": 1}, {"limit": 100}, {"session": "session-ours-1"}, {"min_relevance": 0.5}, {"include_documents": True},
    {"detail": "full", "limit": 3}, {"detail": "index"}, {"kind": "turn", "as_of": "2026-02-02"},
]  # fmt: skip
IDS = [
    our_id(0), our_id(3), our_id(12), our_id(2), our_id(43), "a11e007", "a0000007", "a0000007-0000-0000-aaaa",
    "11e001", "a00000", "e012", id_of("theirs", 5), "a0000005-0000-0000-b", "bbbb-0000fa11e006", "cccc-0000fa11e007",
    "b0000001", "no such id at all",
    id_of("theirs", 4), id_of("nobody", 0), "00000000-0000-0000-0000-000000000000",
]  # fmt: skip


def test_a_search_tells_nothing_of_other_projects(wall: Wall) -> None:
    for number, query in enumerate(QUERIES):
        wall.tool("memory_search", query=query)
        for step in range(3):  # each query with some of the filters, each filter with many queries
            wall.tool("memory_search", query=query, **FILTERS[(3 * number + step) % len(FILTERS)])
    for session in (
        "session-theirs-1",
        "session-ours",
        "session-ours-1-theirs",
        "session-nobody-1",
        "ours-1",
        "on-ours-1",
    ):
        wall.tool("memory_search", query="harvest", session=session)

    assert wall.differences == []


def test_ids_and_their_parts_lead_to_our_own_memories_only(wall: Wall) -> None:
    for id in IDS:
        for as_of in ({}, {"as_of": "2026-01-20"}, {"as_of": "2025-01-01"}):
            wall.tool("memory_get", ids=[id], **as_of)
            wall.tool("memory_timeline", anchor=id, **as_of)
        wall.compare(lambda agent, id=id: agent.read(f"memory://{id}"))
    wall.tool("memory_get", ids=IDS[:20])

    assert wall.differences == []
    assert our_id(7) in wall.tool("memory_get", ids=["a11e007"])  # though others have that ending, too


def test_timelines_contexts_resources_and_prompts_tell_nothing_of_other_projects(wall: Wall) -> None:
    times: list[dict[str, Any]] = [
        {}, {"start": "2026-01-03", "end": "2026-01-09"}, {"end": "2026-01-20"}, {"start": "2026-01-25"},
        {"as_of": "2026-01-15"}, {"start": "2026-01-03", "as_of": "2026-01-15"},
    ]  # fmt: skip
    for time in times:
        wall.tool("memory_timeline", **time)
    for query in QUERIES[::3]:
        wall.tool("memory_timeline", query=query, before=2, after=2)
        wall.tool("memory_context", message=query)
        wall.compare(lambda agent, query=query: agent.prompt("recall", task=query))
    wall.tool(
        "memory_context", message="apple harvest\n" + "some pasted text about jelly " * 60 + "\nwhere?", budget=400
    )
    for name in ("stats", "timeline/2026-01-05", "timeline/2026-01", "timeline/2025", "timeline/never", "x/y", ""):
        wall.compare(lambda agent, name=name: agent.read(f"memory://{name}"))
    wall.compare(lambda agent: agent.prompt("save", about="apples"))
    wall.compare(lambda agent: agent.do(agent.client.list_tools))
    wall.compare(lambda agent: agent.do(agent.client.list_prompts))
    wall.compare(lambda agent: agent.do(agent.client.list_resources))
    wall.compare(lambda agent: agent.do(agent.client.list_resource_templates))

    assert wall.differences == []


def test_writing_tells_nothing_of_other_projects(wall: Wall) -> None:
    at = {"created_at": "2026-04-01T08:00:00Z"}
    same_as_theirs = "the apple harvest number 0 is kept in barn 0 of theirs harvest apple barn"
    for content in (
        same_as_theirs, f"{same_as_theirs} indeed", "a zebra lives at theirs, quinces and quincy quinine",
        "salary of the owner of theirs is 95001 harvst mulbery", "the pear harvest number 1 is kept in barn 1",
        "later we kept the apple in barn 50", "later we kept the apple in the barn 50", "日本の林檎は青森県で育つ",
    ):  # fmt: skip
        wall.tool("memory_add", content=content, **at)
        wall.tool("memory_search", query=content)
    for session in ("session-ours-1", "session-theirs-1", "session-ours-1-theirs", "ours-1", "no such session"):
        wall.tool("memory_add", content=f"made in {session}", session=session, **at)
    for id in IDS:
        wall.tool("memory_update", id=id, title="another title")
        wall.tool("memory_supersede", old_id=id, new_id=our_id(20))
        wall.tool("memory_supersede", old_id=our_id(21), new_id=id)
        wall.tool("memory_forget", id=id)
    for query in QUERIES[::2]:
        wall.tool("memory_search", query=query)
    wall.compare(lambda agent: agent.read("memory://stats"))

    assert wall.differences == []


def test_a_large_project_is_ranked_as_if_it_were_alone(tmp_path: Path) -> None:
    """With so many memories that a search looks at a part of them only."""
    alone, among = tmp_path / "alone.db", tmp_path / "among.db"
    embedder = HashingEmbedder()

    def texts(project: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
        for number in range(count):
            words = " ".join(_FRUIT[(number * seed + step * step) % len(_FRUIT)] for step in range(number % 9 + 2))
            text = f"{words} number {number} {'barn ' * (number % 3)}{'harvest' if number % 2 else 'sowing'}"
            created = f"2026-01-{number % 28 + 1:02}"
            yield {"content": text, "project": project, "id": f"{project}-{number:05}", "created_at": created}

    with opened(alone, embedder) as memory:
        memory.add_many(texts(OURS, 3500, 7))
    shutil.copyfile(alone, among)
    with opened(among, embedder) as memory:
        memory.add_many(texts("theirs", 4500, 3))
    for path in (alone, among):
        with opened(path, embedder) as memory:
            memory.add_many({**one, "id": f"late-{one['id']}"} for one in texts(OURS, 4000, 7) if "99" in one["id"])
    with serve(alone, embedder) as first, serve(among, embedder) as second:
        wall = Wall(first, second, "9999")
        for query in ("apple harvest in the barn", "quince", "number 77", "sloe sowing medlar damson", "3499", "app*"):
            for filter in ({}, {"since": "2026-01-20"}, {"as_of": "2026-01-10"}, {"limit": 100, "detail": "index"}):
                wall.tool("memory_search", query=query, **filter)
            wall.tool("memory_context", message=query)

        assert wall.differences == []
